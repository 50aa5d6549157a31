"""Building what a loop needs (model, optimizer, data) from the user's functions, and looking at it once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from autotune.core.settings import TrainSettings
from autotune.core.workload import Workload
from autotune.errors import UsageError
from autotune.training import flavour
from autotune.training.cut import Cut
from autotune.training.losses import read_output


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A model and its kin that exist already, for those who build them themselves. Same meanings as in ``Workload``.

    Attributes:
        model: a keras.Model; its dtype policy is what it was built with.
        optimizer: a keras.optimizers.Optimizer.
        loss: (model, batch) -> per-sample or per-token losses, or ``(losses, weights[, metrics])``.
        dataset: tf.data.Dataset of single samples.
        evaluate: (model) -> mapping of metric name to value, or None.
        extra_loss: (model) -> scalar added once per update.
        pad: padding value of variable-length data.
    """

    model: Any
    optimizer: Any
    loss: Callable[[Any, Any], Any]
    dataset: Any
    evaluate: Callable[[Any], Any] | None = None
    extra_loss: Callable[[Any], Any] | None = None
    pad: Any = 0


def as_workload(source: Workload | Parts) -> Workload:
    """A workload that hands out the given parts."""
    if isinstance(source, Workload):
        return source
    return Workload(
        model=lambda: source.model,
        optimizer=lambda: source.optimizer,
        loss=source.loss,
        dataset=lambda: source.dataset,
        evaluate=source.evaluate,
        extra_loss=source.extra_loss,
        pad=source.pad,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Anatomy:
    """What tracing the loss function once has shown.

    Attributes:
        weights: computes the loss function's weights from a batch, without a forward pass; None where it returns none.
        labels: the labels of a sparse cross entropy and the number of classes, as far as can be seen; else None.
        metric_names: names of its auxiliary values.
        has_extra: the model has regularisers or ``add_loss``, or the workload an ``extra_loss``.
        trained: trainable variables (Keras's own objects) that the loss can reach.
        written: float ``tf.Variable`` that the forward pass assigns to (BatchNorm's statistics and their kin).
        losses_dtype: dtype of the losses.
        reached: every ``tf.Variable`` the trace has met (random state included).
        convolves: the forward pass holds a convolution.
    """

    weights: Cut | None
    labels: tuple[Cut, int] | None
    metric_names: tuple[str, ...]
    has_extra: bool
    trained: tuple[Any, ...]
    written: tuple[Any, ...]
    losses_dtype: Any
    reached: tuple[Any, ...]
    convolves: bool


def extra_losses(workload: Workload, model: Any) -> Any:
    """Regularisers, ``add_loss`` and ``extra_loss`` as a float32 scalar, or None where there are none."""
    terms = [tf.cast(tf.reduce_sum(term), tf.float32) for term in model.losses]
    if workload.extra_loss is not None:
        terms.append(tf.cast(tf.reduce_sum(workload.extra_loss(model)), tf.float32))
    return tf.add_n(terms) if terms else None


_ASSIGN_OPS = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "ResourceScatter")


def _written_variables(graph: Any, candidates: list[Any]) -> list[Any]:
    """Candidates that an op of this graph writes; all of them where a nested function might."""
    handles = {id(inner): outer for outer, inner in graph.captures}
    written: set[int] = set()
    nested = False
    for operation in graph.get_operations():
        if operation.type.startswith(_ASSIGN_OPS):
            outer = handles.get(id(operation.inputs[0]))
            written.update(id(v) for v in candidates if any(outer is part.handle for part in flavour.components(v)))
        elif operation.type in ("While", "StatelessWhile", "If", "StatefulPartitionedCall"):
            nested = nested or any(tensor.dtype == tf.resource for tensor in operation.inputs)
    return candidates if nested else [variable for variable in candidates if id(variable) in written]


def examine(workload: Workload, model: Any, batch_spec: Any) -> Anatomy:
    """Traces the loss function once, without running it: builds the model and says what the loop has to carry.

    Raises:
        ValueError: the loss function returns something else than the contract asks for.
        UsageError: there is nothing to train.
    """
    seen: dict[str, Any] = {}

    @tf.function(autograph=False)
    def forward(batch: Any) -> Any:
        output = read_output(workload.loss(model, batch))
        extra = extra_losses(workload, model)
        seen.update(output=output, extra=extra is not None)
        return tf.reduce_sum(output.losses)

    graph = forward.get_concrete_function(batch_spec).graph
    if not model.trainable_variables:
        raise UsageError(
            "the model has no trainable variables; unfreeze a layer, or check that model() builds its layers"
        )
    output = seen["output"]
    reached = {id(variable): variable for variable in graph.variables}
    trained = [v for v in model.trainable_variables if _is_reached(flavour.raw(v), graph, reached)]
    if not trained:
        raise ValueError("the loss does not depend on the model's variables; check that loss() calls the model")
    return Anatomy(
        weights=None if output.weights is None else Cut(graph, output.weights),
        labels=_labels(graph),
        metric_names=tuple(output.metrics),
        has_extra=seen["extra"],
        trained=tuple(trained),
        written=tuple(_written_variables(graph, _float_state(model))),
        losses_dtype=output.losses.dtype,
        reached=tuple(reached.values()),
        convolves=_convolves(graph.as_graph_def()),
    )


def _convolves(graph: Any) -> bool:
    nodes = (*graph.node, *(node for function in graph.library.function for node in function.node_def))
    return any(node.op.startswith(("Conv2D", "Conv3D", "DepthwiseConv2d")) for node in nodes)


def _labels(graph: Any) -> tuple[Cut, int] | None:
    for operation in graph.get_operations():
        if operation.type == "SparseSoftmaxCrossEntropyWithLogits":
            logits, labels = operation.inputs
            if logits.shape.rank is not None and logits.shape[-1] is not None:
                cut = Cut(graph, labels)
                return None if cut.reads_variables else (cut, int(logits.shape[-1]))
    return None


def check_labels(anatomy: Anatomy, batch: Any) -> None:
    """Looks at the labels of a batch, where the loss function's own ops show them.

    Raises:
        ValueError: one is out of range: an error on a CPU, a silent NaN on a GPU.
    """
    if anatomy.labels is None:
        return
    labels, classes = anatomy.labels
    values = tf.function(labels, autograph=False)(batch)
    low, high = int(tf.reduce_min(values)), int(tf.reduce_max(values))
    if low < 0 or high >= classes:
        wrong = low if low < 0 else high
        raise ValueError(
            f"the data hold the label {wrong}, but the loss has {classes} classes, numbered 0 to {classes - 1}; "
            "correct the labels or the number of outputs"
        )


def _is_reached(variable: Any, graph: Any, reached: dict[int, Any]) -> bool:
    if tf.distribute.has_strategy():
        return True
    return id(variable) in reached or any(outer is variable.handle for outer, _ in graph.captures)


def _float_state(model: Any) -> list[Any]:
    return [
        value
        for value in map(flavour.raw, model.non_trainable_variables)
        if value.dtype.is_floating  # random seeds are integers, and move on
    ]


def build_optimizer(workload: Workload) -> tuple[Any, list[str]]:
    """The user's optimizer, freed of wrappers that this loop replaces.

    Returns:
        (optimizer, sentences that explain what was taken off).

    Raises:
        UsageError: it accumulates gradients of its own.
    """
    optimizer = workload.optimizer()
    notes = []
    inner = getattr(optimizer, "inner_optimizer", None)
    if inner is not None:
        notes.append(
            "the optimizer came wrapped in LossScaleOptimizer and was unwrapped: this loop scales the loss itself, "
            "once per update"
        )
        optimizer = inner
    if getattr(optimizer, "gradient_accumulation_steps", None):
        raise UsageError(
            "the optimizer has gradient_accumulation_steps of its own; leave it out: this loop accumulates, and both "
            "together would accumulate twice"
        )
    if getattr(optimizer, "loss_scale_factor", None):
        optimizer.loss_scale_factor = None
        notes.append("the optimizer's loss_scale_factor was cleared: this loop scales the loss itself")
    return optimizer, notes


def uses_float16(model: Any) -> bool:
    """Whether any layer computes in float16, whatever the model's own policy says."""
    return any(getattr(layer, "compute_dtype", None) == "float16" for layer in flavour.leaf_layers(model))


def check_reachable(settings: TrainSettings, dataset_size: int | None) -> None:
    """Raises where no update could ever happen.

    Raises:
        UsageError: the data set is empty, or smaller than one global batch whose tail is dropped.
    """
    if dataset_size == 0:
        raise UsageError("dataset() is empty")
    if dataset_size is not None and dataset_size < settings.global_batch and settings.tail == "drop":
        raise UsageError(
            f"the data set has {dataset_size} samples, fewer than one global batch of {settings.global_batch}, and "
            "tail='drop' leaves out what is not full; use tail='use' or a smaller global batch"
        )
