"""What a trial process does, by kind of pass: inspect, memory, timing, or both in one."""

from __future__ import annotations

import sys
import traceback
from dataclasses import replace

from autotune.core.outcome import Outcome
from autotune.core.passes import CalibrationAnswer, InspectAnswer, PassRequest
from autotune.core.trial import TrialSpec
from autotune.worker import inspection
from autotune.worker.conduct import Subject, conduct
from autotune.worker.failures import locate, outcome_of
from autotune.worker.own import OwnSubject
from autotune.worker.phases import Phases
from autotune.worker.user_code import UnsuitableFileError, UserCode, load


def run(request: PassRequest, phases: Phases) -> Outcome | InspectAnswer | CalibrationAnswer:
    """Runs one pass; whatever happens in the user's code becomes part of the answer."""
    spec = request.spec
    if spec is None:
        return _inspect(request)
    if request.kind == "calibrate":
        return _calibrate(request, spec)
    return replace(_trial(request, spec, phases), phases=dict(phases.seconds))


def _inspect(request: PassRequest) -> InspectAnswer:
    try:
        return inspection.inspect(request.workload)
    except UnsuitableFileError as problem:
        return InspectAnswer(usage_error=str(problem))
    except BaseException as problem:
        text = "".join(traceback.format_exception(problem))
        print(text, file=sys.stderr)
        return InspectAnswer(user_error=locate(problem, request.workload), traceback=text)


def _calibrate(request: PassRequest, spec: TrialSpec) -> CalibrationAnswer:
    try:
        from autotune.worker.calibrate import calibrate
        from autotune.worker.runtime import limit_gpu

        code = load(request.workload)
        if spec.device.kind == "gpu":
            limit_gpu(spec.memory_limit_bytes)
        return CalibrationAnswer(calibration=calibrate(code.value, spec))
    except BaseException as problem:
        limited = spec.memory_limit_bytes is not None
        return CalibrationAnswer(failure=outcome_of(problem, request.workload, limited=limited, jit_compile=False))


def _subject(code: UserCode, spec: TrialSpec) -> Subject:
    if code.kind == "make_loop":
        return OwnSubject(code.value, spec)
    from autotune.worker.ours import WorkloadSubject  # our loop is TensorFlow, which only workloads need

    return WorkloadSubject(code.value, spec)


def _trial(request: PassRequest, spec: TrialSpec, phases: Phases) -> Outcome:
    try:
        with phases("user_code"):
            code = load(request.workload)
        return conduct(_subject(code, spec), request.kind, spec, phases)
    except BaseException as problem:
        limited = spec.memory_limit_bytes is not None
        return outcome_of(problem, request.workload, limited=limited, jit_compile=bool(spec.candidate.jit_compile))
