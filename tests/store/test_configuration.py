"""What is configured once, and what goes before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from whyidle.__main__ import main
from whyidle.errors import InputError
from whyidle.store.configuration import read_configuration


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    (tmp_path / "home/whyidle").mkdir(parents=True)
    return tmp_path / "home/whyidle/config.toml"


def test_without_files_nothing_is_tracked():
    assert read_configuration().track == "off"


def test_the_project_goes_before_the_user(home: Path, elsewhere: Path):
    home.write_text('track = "auto"')
    assert read_configuration().track == "auto"
    project = elsewhere / "pyproject.toml"
    project.write_text("[tool.other]\nx = 1")
    assert read_configuration().track == "auto"
    project.write_text('[tool.whyidle]\ntrack = "off"')
    assert read_configuration().track == "off"


def test_a_project_file_that_is_not_ours_is_not_checked(elsewhere: Path):
    (elsewhere / "pyproject.toml").write_text("this is = not TOML [")
    assert read_configuration().track == "off"


@pytest.mark.parametrize("text", ['track = "always"', "trak = 1", "track = ", "track = true"])
def test_what_is_not_understood_is_named(text: str, home: Path, capsys):
    home.write_text(text)
    with pytest.raises(InputError, match="config"):
        read_configuration()
    assert main(["run", "touch", "ran"]) == InputError.exit_code
    assert not Path("ran").exists()  # it is told before the command, not after it
    err = capsys.readouterr().err
    assert "config.toml" in err
    assert "Traceback" not in err
