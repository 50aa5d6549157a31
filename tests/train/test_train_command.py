"""``autotune train`` as people run it: real processes, Ctrl-C, kill -9, resume."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from autotune.cli.main import main
from tests.train.conftest import write_config

TRAIN = ["train", "user.py", "--config", "tuned.toml", "--epochs", "3"]


def start(*arguments, cwd, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "autotune", *TRAIN, *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def weights(folder):
    found = {}
    with h5py.File(folder / "model.weights.h5") as file:
        file.visititems(lambda name, item: found.update({name: item[()]} if isinstance(item, h5py.Dataset) else {}))
    return found


def rows(folder):
    with (folder / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def wait_for(folder, pattern, process):
    deadline = time.monotonic() + 120
    while not list(folder.glob(pattern)):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def child_of(pid):
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def gone(pid, within_s=10):
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if not Path(f"/proc/{pid}").exists() or "State:\tZ" in Path(f"/proc/{pid}/status").read_text():
            return True
        time.sleep(0.05)
    return False


def test_a_run_that_was_interrupted_and_killed_ends_with_the_weights_of_one_that_was_not(here, capsys):
    straight = start("--out", "straight", cwd=here)
    often = ["--out", "broken", "--resume", "--checkpoint-every", "0.05s"]

    interrupted = start(*often, cwd=here, PAUSE="0.15")
    wait_for(here, "broken/checkpoints/00000-0000000[123]", interrupted)
    interrupted.send_signal(signal.SIGINT)
    _, errors = interrupted.communicate(timeout=60)
    assert interrupted.returncode == 130, errors
    assert "of epoch 1; the same command with --resume continues" in errors
    assert "Traceback" not in errors

    killed = start(*often, cwd=here, PAUSE="0.15")
    wait_for(here, "broken/checkpoints/00001-0000000[123]", killed)
    child = child_of(killed.pid)
    killed.kill()
    killed.communicate()
    assert gone(child)

    done = start(*often, cwd=here)
    _, errors = done.communicate(timeout=120)
    assert done.returncode == 0, errors
    assert "continues after epoch 1, update" in errors
    assert "since the run began" not in errors
    output, errors = straight.communicate(timeout=120)
    assert straight.returncode == 0, errors
    assert [line.split("  ")[0] for line in errors.splitlines()[-3:]] == ["epoch 1/3", "epoch 2/3", "epoch 3/3"]
    assert "straight/model.weights.h5" in output

    mine, theirs = weights(here / "broken"), weights(here / "straight")
    assert mine.keys() == theirs.keys() and len(mine) == 8
    for name in mine:
        np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)
    for ours, others in zip(rows(here / "broken"), rows(here / "straight"), strict=True):
        for name in ours.keys() - {"samples_per_s", "train_s"}:
            assert ours[name] == others[name], name

    table = rows(here / "straight")
    assert [int(row["updates_applied"]) + int(row["updates_skipped"]) for row in table] == [4, 4, 4]
    assert int(table[0]["updates_skipped"]) > 0  # the scale of 2**17 had to come down
    assert float(table[2]["val_loss"]) < float(table[0]["val_loss"])
    assert float(table[2]["learning_rate"]) < float(table[0]["learning_rate"])
    assert {"loss", "accuracy", "loss_scale"} <= table[0].keys()
    assert "validating" in (here / "straight" / "train.log").read_text()
    assert not list((here / "broken").rglob("*part*"))
    assert len(list((here / "broken" / "checkpoints").iterdir())) == 2
    assert json.loads((here / "straight" / "run.json").read_text())["software"]["tensorflow"]

    refused_without_resume(here, capsys)
    other_runs_are_refused(here, capsys)


def refused_without_resume(here, capsys):
    before = {path: path.stat().st_mtime_ns for path in (here / "straight").rglob("*")}
    assert main([*TRAIN, "--out", "straight"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "autotune: straight holds a training run; add --resume to continue it, or name another --out"
    )
    assert before == {path: path.stat().st_mtime_ns for path in (here / "straight").rglob("*")}


def other_runs_are_refused(here, capsys):
    for axes, says in [
        ({"global_batch": 12, "precision": "mixed_float16"}, "global_batch (16 stored, 12 now)"),
        ({"seed": 4, "precision": "mixed_float16"}, "seed (3 stored, 4 now)"),
        ({"precision": "float32"}, "precision (mixed_float16 stored, float32 now)"),
    ]:
        write_config(here / "other.toml", **axes)
        assert main([*TRAIN, "--config", "other.toml", "--out", "straight", "--resume"]) == 2
        assert says in capsys.readouterr().err


def test_the_command_never_loads_tensorflow_and_the_users_mistake_is_exit_3_with_its_line(here):
    text = (here / "user.py").read_text().replace("    x, y = batch\n", "    x, y, z = batch\n")
    (here / "user.py").write_text(text)
    line = text[: text.index("    x, y, z")].count("\n") + 1
    code = (
        "import sys; from autotune.cli.main import main; code = main(sys.argv[1:]);"
        "print(code, [m for m in ('tensorflow', 'keras', 'pandas', 'optuna') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *TRAIN, "--out", "run"], cwd=here, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.splitlines()[-1] == "3 []", done.stderr
    assert f"user.py:{line}: ValueError: not enough values to unpack" in done.stderr
    assert not (here / "run").exists()


def test_a_loop_of_the_users_own_is_refused_with_the_mend(here, capsys):
    (here / "own.py").write_text("def make_loop(settings):\n    return None\n")
    assert main(["train", "own.py", "--config", "tuned.toml", "--epochs", "1", "--out", "run"]) == 2
    assert "TunedConfig.load" in capsys.readouterr().err
    assert not (here / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["usr.py"], "usr.py does not exist"),
        (["digist"], "did you mean 'digits'?"),
        (["user.py", "--config", "missing.toml"], "cannot read missing.toml"),
        (["user.py", "--epochs", "0"], "at least 1, got '0'"),
        (["user.py", "--epochs", "two"], "at least 1, got 'two'"),
        (["user.py", "--checkpoint-every", "soon"], "write a duration like 45s"),
        (["user.py", "--out", "user.py"], "user.py is a file; name another --out"),
        (["user.py", "--out", "user.py/run"], "user.py; name another --out"),
        (["user.py", "--out", "."], "is not empty and holds no training run"),
        (["user.py", "--out", ".", "--resume"], "is not empty and holds no training run"),
        (["user.py", "--device", "tpu"], "tpu"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(here, capsys, arguments, says):
    given = ["--config", "tuned.toml", "--epochs", "1", "--out", "run"]
    before = sorted(path.name for path in here.iterdir())
    workload, *options = arguments
    assert main(["train", workload, *given, *options]) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("autotune: ")
    assert says in last
    assert sorted(path.name for path in here.iterdir()) == before


def test_a_folder_in_which_another_process_trains_is_refused(here, monkeypatch):
    from autotune.errors import UsageError
    from autotune.worker import train_folder

    (here / "run").mkdir()
    code = (
        "import fcntl, sys; file = open('run/.lock', 'w'); fcntl.lockf(file, fcntl.LOCK_EX); print(flush=True); input()"
    )
    other = subprocess.Popen([sys.executable, "-c", code], cwd=here, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    other.stdout.readline()
    monkeypatch.setattr(train_folder, "_LOCK_WAIT_S", 0.3)
    with pytest.raises(UsageError, match="another process is training in run"):
        train_folder.RunFolder(Path("run"))
    other.kill()
    other.communicate()
    train_folder.RunFolder(Path("run"))
