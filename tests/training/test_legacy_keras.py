"""The same loop runs on legacy Keras (tf_keras), in a process of its own."""

import json
import os
import subprocess
import sys

from tests.training.toys import TOLERANCE


def test_legacy_keras():
    environment = {**os.environ, "TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "tests.training.legacy"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["keras"].startswith("tf_keras.")
    assert len(told["equivalence"]) == 6
    assert max(told["equivalence"].values()) < TOLERANCE["float32"], told["equivalence"]
    assert told["overflow"] == {
        "applied": [True, False, True],
        "untouched": True,
        "scale": 32.0,
        "precision": "mixed_float16",
        "warned": True,
    }
    assert told["state"]
    assert told["unwrapped"] == ["SGD", True]
    assert told["old_optimizer"]
    assert told["policy"] == "float32"
