"""``autotune dashboard``: the real dashboard over real studies."""

import json
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from autotune.cli.commands.dashboard import _storage
from autotune.cli.main import main
from tests.search.studies import landscape, opened


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    scene, folder = landscape(), tmp_path_factory.mktemp("dashboard") / "s"
    store = opened(folder, scene)
    for _ in range(3):
        asked = store.ask()
        store.tell(scene.trial(asked.number, asked.candidate, 0, None))
    return folder


FORMS = ["{study}", "{study}/study.db", "sqlite:///{study}/study.db", "env:STUDY_URL"]


@pytest.mark.parametrize("form", FORMS)
def test_every_way_to_name_a_study(study, form, monkeypatch):
    monkeypatch.setenv("STUDY_URL", f"sqlite:///{study}/study.db")
    assert [found.study_name for found in _storage(form.format(study=study)).get_all_studies()] == ["s"]


def test_the_trials_are_served_until_ctrl_c(study):
    server = subprocess.Popen(
        [sys.executable, "-m", "autotune", "dashboard", study, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        address = server.stdout.readline().split()[0]
        assert address.startswith("http://127.0.0.1:"), server.communicate()[1]
        with urllib.request.urlopen(address, timeout=30) as page:
            assert b"Optuna Dashboard" in page.read()
        with urllib.request.urlopen(address.replace("/dashboard/", "/api/studies"), timeout=30) as answer:
            (shown,) = json.load(answer)["study_summaries"]
        assert shown["study_name"] == "s"
        with urllib.request.urlopen(
            address.replace("/dashboard/", f"/api/studies/{shown['study_id']}"), timeout=30
        ) as answer:
            assert len(json.load(answer)["trials"]) == 3
        server.send_signal(signal.SIGINT)
        _, errors = server.communicate(timeout=30)
        assert server.returncode == 130
        assert errors == "autotune: interrupted\n"
    finally:
        server.kill()
        server.communicate()


def test_not_installed_is_one_sentence(study):
    code = (
        "import sys; sys.modules['optuna_dashboard'] = None;"  # Python's own mark of a name that cannot be imported
        "from autotune.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run([sys.executable, "-c", code, "dashboard", study], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == (
        "autotune: the Optuna dashboard is not installed; pip install 'autotune[dashboard]' brings it\n"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["nowhere"], 2, "there is no study at nowhere"),
        (["."], 2, "no file study.db there"),
        (["sqlite:///empty.db"], 2, "holds no study"),
        (["env:NO_SUCH_VARIABLE"], 2, "NO_SUCH_VARIABLE"),
        (["{study}", "--port", "70000"], 2, "from 0 to 65535"),
        (["{study}", "--host", "no.such.host.invalid"], 1, "cannot serve on no.such.host.invalid"),
    ],
)
def test_bad_input(study, tmp_path, monkeypatch, capsys, arguments, code, says):
    monkeypatch.chdir(tmp_path)
    assert main(["dashboard", *(argument.format(study=study) for argument in arguments)]) == code
    assert says in capsys.readouterr().err


def test_a_port_that_is_taken(study, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["dashboard", str(study), "--port", str(port)]) == 1
    assert f"port {port}" in capsys.readouterr().err
