"""Storage URLs: read from the environment, given the installed driver, and never shown with a password."""

from __future__ import annotations

import pytest

from autotune.errors import AutotuneError, UsageError
from autotune.search.storage import connect, redact, resolve_url


def test_a_url_from_the_environment(monkeypatch):
    monkeypatch.setenv("STUDY_DB", "postgresql://tuner:hunter2@db/studies")
    assert resolve_url("env:STUDY_DB") == "postgresql+psycopg://tuner:hunter2@db/studies"
    monkeypatch.delenv("STUDY_DB")
    with pytest.raises(UsageError, match="environment variable 'STUDY_DB' is not set"):
        resolve_url("env:STUDY_DB")


def test_other_schemes_are_left_alone():
    assert resolve_url("sqlite:///x.db") == "sqlite:///x.db"
    with pytest.raises(UsageError, match="takes a URL like"):
        resolve_url("study.db")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://tuner:hunter2@db/studies", "postgresql://tuner:***@db/studies"),
        ("autotune tune x --storage postgresql+psycopg://u:hunter2@h:5432/d --seed 1",
         "autotune tune x --storage postgresql+psycopg://u:***@h:5432/d --seed 1"),
        ("mysql://u:p@hunter2@h/d", "mysql://u:***@h/d"),
        ("postgresql://h/d?user=u&password=hunter2&x=1", "postgresql://h/d?user=u&password=***&x=1"),
        ("postgresql://h:5432/d", "postgresql://h:5432/d"),
        ("no url here", "no url here"),
    ],
)  # fmt: skip
def test_passwords_are_hidden(text, shown):
    assert redact(text) == shown


def test_a_server_that_is_not_there_is_one_sentence_without_the_password(tmp_path):
    with pytest.raises(AutotuneError) as caught:
        connect(resolve_url("postgresql://tuner:hunter2@127.0.0.1:1/studies"))
    assert "hunter2" not in str(caught.value)
    assert "tuner:***@127.0.0.1:1/studies" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("url", ["nonsense://u:hunter2@x/y", "mysql+nodriver://u:hunter2@x/y"])
def test_not_a_database(url):
    with pytest.raises(UsageError) as caught:
        connect(url)
    assert "hunter2" not in str(caught.value)


def test_a_file_that_is_no_database(tmp_path):
    path = tmp_path / "study.db"
    path.write_text("this is no database, but it is long enough to be read as one" * 20)
    with pytest.raises(AutotuneError, match=r"cannot open the study storage .*not a database"):
        connect(f"sqlite:///{path}")
