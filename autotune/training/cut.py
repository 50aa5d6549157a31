"""A part of a traced graph, cut out so that it runs without the rest of it."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class Cut:
    """What one tensor of a traced function needs, and nothing else: no forward pass where the batch is enough.

    Args:
        graph: of a traced function whose only argument was a batch.
        tensor: of that graph.

    Attributes:
        reads_variables: the tensor needs a variable's value.
    """

    def __init__(self, graph: Any, tensor: Any) -> None:
        inner = {inside.op.name: outside for outside, inside in graph.captures}
        arguments = [item.op.name for item in graph.inputs if item.op.name not in inner]
        needed = _ancestors(tensor.op)
        self._positions = {name: arguments.index(name) for name in arguments if name in needed}
        self._captured = {name: outside for name, outside in inner.items() if name in needed}
        self.reads_variables = any(outside.dtype == tf.resource for outside in self._captured.values())
        self._output = tensor.name
        definition = graph.as_graph_def()
        kept = [node for node in definition.node if node.name in needed and node.op != "Placeholder"]
        del definition.node[:]
        definition.node.extend(kept)
        self._definition = definition

    def __call__(self, batch: Any) -> Any:
        """The tensor's value for a batch, as ops of the graph that is being built."""
        flat = tf.nest.flatten(batch)
        feeds = {f"{name}:0": tf.identity(flat[position]) for name, position in self._positions.items()}
        feeds |= {f"{name}:0": tf.identity(outside) for name, outside in self._captured.items()}
        if self._output in feeds:
            return feeds[self._output]
        (value,) = tf.graph_util.import_graph_def(
            self._definition, input_map=feeds, return_elements=[self._output], name="cut"
        )
        return value


def _ancestors(operation: Any) -> set[str]:
    """Names of the operation and of everything it needs."""
    names: set[str] = set()
    pending = [operation]
    while pending:
        current = pending.pop()
        if current.name not in names:
            names.add(current.name)
            pending.extend(tensor.op for tensor in current.inputs)
            pending.extend(current.control_inputs)
    return names
