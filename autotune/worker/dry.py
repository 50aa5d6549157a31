"""Peaks without a GPU and without running: compiles an update and reads XLA's buffer assignment.

Started as ``python -m autotune.worker.dry REQUEST ANSWERS``: a JSON file with a ``DryRequest``, and a file that gets
one ``DryAnswer`` per line. Each candidate has a child of its own, forked after the imports and before any TensorFlow
runtime is started: what one leaves in the allocator is not counted for the next, and one that dies leaves the others.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from autotune.core.candidate import Candidate
from autotune.core.codec import from_plain, to_plain
from autotune.core.failures import telling_line
from autotune.core.plan.dry import Compiled, DryAnswer, DryRequest
from autotune.core.plan.parts import Parts
from autotune.worker.failures import locate
from autotune.worker.user_code import UnsuitableFileError, UserCode, load

_PRELOADED = ("tensorflow", "keras", "autotune.training")


def main(arguments: list[str]) -> int:
    """Runs one job; every failure of the user's code is an answer."""
    request = from_plain(DryRequest, json.loads(Path(arguments[0]).read_text()))
    sys.argv = [request.workload.path]
    sys.path.insert(0, str(Path(request.workload.path).parent))
    for name in _PRELOADED if request.preload else ():
        importlib.import_module(name)
    with Path(arguments[1]).open("a") as answers:
        first = _in_child(answers, request, None, lambda code: DryAnswer(parts=_parts(code.value, request)))
        if not first:
            return 1
        for index, candidate in enumerate(request.candidates):
            _in_child(answers, request, index, _compiling(candidate, index, request))
    return 0


def _compiling(candidate: Candidate, index: int, request: DryRequest) -> Callable[[UserCode], DryAnswer]:
    return lambda code: DryAnswer(index=index, compiled=_compile(code.value, candidate, request))


def _in_child(answers: TextIO, request: DryRequest, index: int | None, work: Callable[[UserCode], DryAnswer]) -> bool:
    """Runs ``work`` in a forked child, which writes the answer; returns whether it could."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            answer = _guarded(request, index, work)
            _write(answers, answer)
            status = 0 if answer.usage_error is None and answer.user_error is None else 2
        finally:
            os._exit(status)
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if ended < 0 or ended == 1:
        how = f"was killed by signal {-ended}" if ended < 0 else "died"
        _write(answers, DryAnswer(index=index, reason=f"the process that compiled it {how}"))
    return ended == 0


def _guarded(request: DryRequest, index: int | None, work: Callable[[UserCode], DryAnswer]) -> DryAnswer:
    try:
        code = load(request.workload)
        if code.kind != "workload":
            raise UnsuitableFileError(
                f"{request.workload.display} is a loop of its own (make_loop), which cannot be compiled without "
                "running it; plan from a study of it"
            )
        return work(code)
    except UnsuitableFileError as problem:
        return DryAnswer(index=index, usage_error=str(problem))
    except BaseException as problem:
        text = "".join(traceback.format_exception(problem))
        print(text, file=sys.stderr, flush=True)
        if index is not None:  # the model could be built: it is this size that cannot be compiled
            reason = telling_line(str(problem)) or type(problem).__name__
            return DryAnswer(index=index, reason=reason, traceback=text)
        return DryAnswer(user_error=locate(problem, request.workload), traceback=text)


def _write(file: TextIO, answer: DryAnswer) -> None:
    file.write(json.dumps(to_plain(answer)) + "\n")
    file.flush()


def _parts(workload: Any, request: DryRequest) -> Parts:
    import tensorflow as tf

    from autotune.training import AccumulationLoop, flavour

    candidate = Candidate(global_batch=1, micro_batch=1)
    loop = AccumulationLoop(workload, candidate.settings(seed=request.seed), input_mode="resident")
    window = loop.prepare_window(1)

    def size(variables: Any) -> int:
        raw = [flavour.raw(variable) for variable in variables]
        return sum(int(v.shape.num_elements() or 0) * v.dtype.size for v in raw)

    trained = [flavour.raw(variable) for variable in loop.model.trainable_variables]
    return Parts(
        weight_bytes=size(loop.model.variables),
        optimizer_bytes=size(loop.optimizer.variables),
        gradient_bytes=sum(4 * int(v.shape.num_elements() or 0) for v in trained),  # accumulators are float32
        sample_bytes=_bytes(window.batch, tf),
        recomputable=bool(workload.recompute),
    )


def _compile(workload: Any, candidate: Candidate, request: DryRequest) -> Compiled:
    import tensorflow as tf
    from tensorflow.compiler.xla.service import hlo_pb2

    from autotune.training import AccumulationLoop
    from autotune.worker import hlo_counts, runtime

    runtime.settle_cpu(None, request.usable_bytes)
    data_bytes = 0

    def in_use() -> int:
        return int(tf.config.experimental.get_memory_info("CPU:0")["current"])

    def counted() -> Any:  # the data set in host memory is no part of what a device needs
        nonlocal data_bytes
        before = in_use()
        made = dataset()
        data_bytes = in_use() - before
        return made

    dataset = workload.dataset
    loop = AccumulationLoop(
        replace(workload, dataset=counted), candidate.settings(seed=request.seed), input_mode="resident"
    )
    window = loop.prepare_window(candidate.global_batch)
    rest = (loop.dataset_size or 0) % candidate.global_batch
    tail = loop.prepare_window(rest) if rest else None  # an epoch's last window waits beside the full one
    resident = in_use() - data_bytes
    peak, temporary, flops, traffic = 0, 0, 0.0, 0.0
    for function in loop.traced_functions:
        arguments = _arguments(function.input_signature, window, tf)
        ir = function.experimental_get_compiler_ir(*arguments)
        program = hlo_pb2.HloProto.FromString(ir(stage="optimized_hlo_proto_serialized"))
        allocations = program.buffer_assignment.buffer_allocations
        inside = sum(a.size for a in allocations if not a.is_entry_computation_parameter)
        if inside > temporary:
            temporary, peak = inside, resident + inside
        if request.count:
            flops += hlo_counts.flops(hlo_pb2.HloModuleProto.FromString(ir(stage="hlo_serialized")))
            traffic += hlo_counts.traffic(program.hlo_module)
    del tail
    return Compiled(
        peak_bytes=peak,
        temporary_bytes=temporary,
        flops=flops if request.count else None,
        traffic_bytes=traffic if request.count else None,
    )


def _arguments(signature: Any, window: Any, tf: Any) -> list[Any]:
    """Tensors to compile for: the window where a batch is asked for, zeros elsewhere."""
    made = []
    for spec in signature:
        try:
            tf.nest.assert_same_structure(spec, window.batch)
            is_batch = all(
                item.dtype == tensor.dtype and item.shape.is_compatible_with(tensor.shape)
                for item, tensor in zip(tf.nest.flatten(spec), tf.nest.flatten(window.batch), strict=True)
            )
        except (TypeError, ValueError):
            is_batch = False
        zeros = tf.nest.map_structure(lambda item: tf.zeros(item.shape, item.dtype), spec) if not is_batch else None
        made.append(window.batch if is_batch else zeros)
    return made


def _bytes(batch: Any, tf: Any) -> int:
    return sum(int(tf.size(tensor)) * tensor.dtype.size for tensor in tf.nest.flatten(batch))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
