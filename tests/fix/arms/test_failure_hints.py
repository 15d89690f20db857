"""What is said to be the reason where a command fails in a trial."""

import subprocess

import pytest

from whyidle.fix.arms import error_line
from whyidle.fix.arms.failure_hints import ANYWAY, explain_failure
from whyidle.fix.isolation import IsolationReport, Leak, isolate

KEPT = IsolationReport("namespaces", False, ())


@pytest.mark.parametrize(
    ("last", "hint"),
    [
        ("OSError: [Errno 28] No space left on device: 'downloads/x'", "TMPDIR"),
        ("cp: error writing 'b': No space left on device", "TMPDIR"),
        ("IoError: write failed (os error 122)", "TMPDIR"),
        ("Error: ENOSPC, write", "TMPDIR"),
        ("ConnectionRefusedError: [Errno 111] Connection refused", "--network"),
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution", "--network"),
        ("urllib.error.URLError: <urlopen error timed out>", "--network"),
        ("OSError: We couldn't connect to 'https://huggingface.co' to load", "--network"),
        ("huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach it", "--network"),
        ("curl: (6) Could not resolve host: data.org", "--network"),
        ("EOFError: EOF when reading a line", ANYWAY),
        ("RuntimeError: the network expects 3 channels, a fully connected layer 280", ANYWAY),
        ("ValueError: sample 128 of 1300", ANYWAY),
    ],
)
def test_the_last_words_speak_for_a_reason(last, hint):
    found = explain_failure(last, 1, KEPT).hint
    assert hint in found
    assert (found == ANYWAY) == (hint == ANYWAY)


@pytest.mark.parametrize(
    ("last", "behind", "why", "hint"),
    [
        ("OSError: [Errno 28] No space left", KEPT, "disk space", "TMPDIR="),
        ("EOFError: x", KEPT, "standard input is empty", ANYWAY),
        ("KeyError: 'x'", KEPT, "discarded", ANYWAY),
        ("KeyError: 'x'", IsolationReport("landlock", False, ()), "refused if", ANYWAY),
    ],
)
def test_a_network_is_not_recommended_where_nothing_speaks_for_it(last, behind, why, hint):
    found = explain_failure(last, 1, behind)
    assert why in found.why
    assert hint in found.hint
    assert "--network" not in found.why + found.hint


def test_a_network_is_recommended_where_it_was_looked_for():
    sent = IsolationReport("namespaces", False, (Leak("connection to hub:443", "a.py:1"),))
    found = explain_failure("KeyError: 'x'", 1, sent)
    assert "Blocked: connection to hub:443." in found.why
    assert "--network --yes" in found.hint
    assert "--network --yes" in explain_failure("ConnectionError: no", 1, KEPT).hint
    unnamed = Leak("connection or look-up of a name, by code that is not Python", "")
    open_ = sent._replace(network=True)
    for behind in (KEPT._replace(leaks=(unnamed,)), open_):
        assert explain_failure("KeyError: 'x'", 1, behind).hint == ANYWAY


def test_what_landlock_refuses_is_not_said_to_be_thrown_away(tmp_path, monkeypatch):
    for each in ("project/cache", "scratch"):
        (tmp_path / each).mkdir(parents=True)
    (tmp_path / "project" / "cache" / "big").write_text("x")
    monkeypatch.chdir(tmp_path / "project")
    with isolate(tmp_path / "scratch", best="landlock") as guard:
        if guard.level != "landlock":
            pytest.skip("no Landlock to be had here")
        words = guard.command(["rm", "-r", "cache"])
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        found = explain_failure(
            error_line.last_error_line(done.stderr), done.returncode, guard.make_report()
        )
    assert "refused if code other than Python" in found.why
