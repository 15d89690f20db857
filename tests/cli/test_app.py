"""Starting, ending and being interrupted."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from whyidle import __version__
from whyidle.__main__ import main
from whyidle.cli import _app, explain
from whyidle.cli._options import RENAMED, SHARED, arrange_words

pytestmark = pytest.mark.real_processes("signals reach a process that is starting")


def test_help_of_every_verb_names_its_arguments(capsys: pytest.CaptureFixture[str]):
    for verb in _app.VERBS:
        with pytest.raises(SystemExit) as done:
            main([verb, "--help"])
        assert done.value.code == 0
        assert f"whyidle {verb}" in capsys.readouterr().out


def test_every_verb_is_a_file_and_the_other_way_round():
    folder = Path(_app.__file__).parent
    assert {p.stem for p in folder.glob("[a-z]*.py")} == set(_app.VERBS)


def test_version(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as done:
        main(["--version"])
    assert done.value.code == 0
    assert capsys.readouterr().out == f"whyidle {__version__}\n"


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (KeyboardInterrupt(), 130, ""),
        (MemoryError(), 1, "Out of memory"),
        (RuntimeError("odd"), 1, "bug in whyidle"),
    ],
)
def test_how_it_ends(
    error: BaseException,
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(explain, "run", fail)
    assert main(["explain", "x"]) == status
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err


def test_verbose_shows_the_traceback(capsys: pytest.CaptureFixture[str]):
    assert main(["explain", "missing", "--verbose"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_closed_pipe_is_quiet(trace: Path):
    explain = [sys.executable, "-m", "whyidle", "causes"]
    reader = "import os; os.close(0)"
    with subprocess.Popen(explain, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stderr is not None
        subprocess.run([sys.executable, "-c", reader], stdin=writer.stdout, check=True)
        writer.stdout.close()
        err = writer.stderr.read()
    assert err == b""
    assert writer.returncode == 141


def run_cli(
    folder: Path, *arguments: str | bytes, **how: object
) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "whyidle", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False, **how)  # type: ignore[call-overload,no-any-return]


@pytest.mark.skipif(sys.platform != "linux", reason="file names of any bytes")
def test_a_name_that_is_no_text(trace: Path):
    odd = bytes(trace.parent) + b"/\xe9t\xe9.json.gz"
    Path(odd.decode("utf-8", "surrogateescape")).write_bytes(trace.read_bytes())
    done = run_cli(trace.parent, "explain", odd, "--json", "d.json", "--html", "d.html")
    assert done.returncode == 0, done.stderr
    assert b"STARVED" in done.stdout
    assert main(["report", "d.json", "-q"]) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_said():
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "whyidle", "causes"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 1
    assert b"No space left" in done.stderr
    assert b"Traceback" not in done.stderr


def test_without_standard_output(trace: Path):
    code = "import sys; sys.stdout = None; from whyidle.__main__ import main; "
    code += "sys.exit(main(['causes']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes")
def test_a_pipe_is_not_waited_for(elsewhere: Path):
    os.mkfifo(elsewhere / "pipe")
    done = run_cli(elsewhere, "explain", "pipe", timeout=20)
    assert done.returncode == 1
    assert b"not a regular file" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--bogus", "x.py"], "Unknown option or argument: --bogus."),
        (["--steps", "x", "x.py"], "must be a whole number, 1 or more, not 'x'"),
        (["--steps", "0", "x.py"], "must be a whole number, 1 or more, not '0'"),
        (["--interval", "0", "x.py"], "must be 0.05 to 3600 seconds, not '0'"),
        (["--interval", "often", "x.py"], "must be 0.05 to 3600 seconds, not 'often'"),
    ],
)
def test_a_wrong_option_points_to_the_help_of_its_command(words, said, capsys):
    assert main(["run", *words]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "try: whyidle run --help" in told


def test_a_misspelt_option_is_corrected(capsys: pytest.CaptureFixture[str]):
    assert main(["explain", "trace.json", "--jsn", "-"]) == 2
    assert "try: whyidle explain --json" in capsys.readouterr().err


def test_help_describes_a_command(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(["help", "explain"])
    assert ended.value.code == 0
    assert "usage: whyidle explain" in capsys.readouterr().out


def test_a_script_without_a_command_is_a_job_to_run(elsewhere: Path, capsys):
    script = elsewhere / "short.py"
    script.touch()
    assert main([str(script)]) == 2
    assert f"try: whyidle run {script}" in capsys.readouterr().err


def test_names_cannot_paint_the_terminal(capsys: pytest.CaptureFixture[str]):
    assert main(["explain", "\x1b[31mred\x1b]0;title\x07.json"]) == 1
    err = capsys.readouterr().err
    assert "red]0;title.json" in err
    assert "\x1b" not in err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--look python train.py", "--look all python train.py"),
        ("--look memory python train.py --look", "--look memory python train.py --look"),
        ("--steps 5 --look -- train.py", "--steps 5 --look all -- train.py"),
        ("--look --look ranks train.py", "--look all --look ranks train.py"),
        ("python memory.py --look", "python memory.py --look"),
        ("--look", "--look all"),
    ],
)
def test_a_look_without_a_word_is_all_of_them(typed, meant):
    verb = _app.verbs_of(_app.parser())["run"]
    assert arrange_words(typed.split(), verb) == meant.split()


def _options(name: str, parser: argparse.ArgumentParser):
    """Every option of a verb and of its actions: word, verb, action."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, sub in action.choices.items():
                yield from _options(f"{name} {word}", sub)
        elif action.option_strings and not isinstance(action, argparse._HelpAction):
            yield max(action.option_strings, key=len), name, action


def test_an_option_means_the_same_in_all_verbs():
    meanings: dict[str, dict[str, object]] = {}
    for name, verb in _app.verbs_of(_app.parser()).items():
        for word, where, action in _options(name, verb):
            assert action.help, f"{where} {word} has no help"
            text, _ = SHARED.get(word, (action.help, None))
            assert action.help.startswith(text), f"{where} {word}"
            words = tuple(action.choices or ())
            meanings.setdefault(word, {})[where] = (text, words)
    for word, uses in meanings.items():
        assert len(set(uses.values())) == 1, (word, uses)


def test_every_verb_with_a_json_writes_it_to_standard_output():
    for name, verb in _app.verbs_of(_app.parser()).items():
        for word, where, action in _options(name, verb):
            if word == "--json":
                assert action.metavar == "PATH|-", where


@pytest.mark.parametrize("old", RENAMED)
def test_old_spellings_are_understood_with_a_notice(old: str, capsys):
    _, name, *words = old.split()
    verb = _app.verbs_of(_app.parser())[name]
    new = RENAMED[old].split()
    assert arrange_words([*words, "X"], verb)[: len(new)] == new
    assert f"{old} is now {RENAMED[old]}" in capsys.readouterr().err


def test_options_after_the_command_of_history_are_its_own():
    verb = _app.verbs_of(_app.parser())["history"]
    assert arrange_words(["train.py", "--lr", "1", "--html", "h.html", "--quiet"], verb) == (
        ["--html", "h.html", "--quiet", "--", "train.py", "--lr", "1"]
    )
    assert arrange_words(["--quiet", "--", "train.py", "--html"], verb) == (
        ["--quiet", "--", "train.py", "--html"]
    )


@pytest.mark.parametrize("columns", [60, 90])
def test_help_keeps_its_indent(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    for name in _app.VERBS:
        with pytest.raises(SystemExit):
            main([name, "--help"])
        listed = capsys.readouterr().out.partition("options:")[2].splitlines()
        indents = {len(line) - len(line.lstrip()) for line in listed if line.startswith("    ")}
        assert max(indents, default=24) <= 24, name
        assert all(len(line) < columns for line in listed), name


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_options(shell, capsys, monkeypatch):
    with pytest.raises(SystemExit):
        main(["--completion", shell])
    script = capsys.readouterr().out
    assert "history" in script
    assert "fail-if-slower" in script
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["--completion", shell]) == 2
    assert "whyidle[completion]" in capsys.readouterr().err


def test_the_help_of_all_commands_is_text(capsys: pytest.CaptureFixture[str], monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    verbs = _app.verbs_of(_app.parser())
    actions = _app.verbs_of(verbs["fleet"])
    for parser in (*verbs.values(), *actions.values()):
        said = parser.format_help()
        assert not re.search(r"\{[A-Z]+_[A-Z]+\}", said), parser.prog  # a value that is missing
        prose = [
            line
            for line in said.splitlines()
            if not line.startswith(("usage", "  whyidle", "    "))
        ]
        assert all(len(line) <= 80 for line in prose), parser.prog
        assert not re.search(r"^whyidle ", said, re.MULTILINE), parser.prog
