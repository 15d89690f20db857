"""What is configured once, and what goes before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from whyidle.__main__ import main
from whyidle.errors import InputError
from whyidle.machine.alerts.rule_file import AlertSettings
from whyidle.model.live.alert import Rule
from whyidle.store.configuration import FORMS, Configuration, read_configuration


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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '# mine\ntrak = "auto"',
            ["line 2", "trak = 'auto'", "Keys: track.", 'try: track = "auto"'],
        ),
        ('track = "always"', ["line 1", "track = 'always'", 'try: track = "auto" or "off"']),
        ("\n\ntrack = ", ["line 3", "not TOML"]),
    ],
)
def test_the_line_the_key_and_the_keys_that_exist_are_named(text, said, home: Path, capsys):
    home.write_text(text)
    main(["run", "true"])
    err = capsys.readouterr().err
    assert all(part in err for part in [str(home), *said]), err


def test_the_page_lists_every_key():
    page = (Path(__file__).parents[2] / "docs/reference/configuration.md").read_text("utf-8")
    assert set(FORMS) == set(Configuration.__struct_fields__)
    keys = [Configuration, AlertSettings, Rule]
    assert all(f"`{key}`" in page for table in keys for key in table.__struct_encode_fields__)
