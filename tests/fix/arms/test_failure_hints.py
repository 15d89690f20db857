"""What is said to be the reason where a command fails in a trial."""

import subprocess

import pytest

from whyidle.fix.arms import error_line
from whyidle.fix.arms.failure_hints import ANYWAY, explain_failure, hint_category
from whyidle.fix.isolation import IsolationReport, Leak, isolate

KEPT = IsolationReport("namespaces", False, ())


@pytest.mark.parametrize(
    ("last", "found"),
    [
        ("OSError: [Errno 28] No space left on device: 'downloads/x'", "room"),
        ("cp: error writing 'b': No space left on device", "room"),
        ("IoError: write failed (os error 122)", "room"),
        ("Error: ENOSPC, write", "room"),
        ("rm: cannot remove 'cache/big': Permission denied", "rights"),
        ("PermissionError: [Errno 13] Permission denied: 'https://x'", "rights"),
        ("OSError: [Errno 30] Read-only file system: 'out'", "rights"),
        ("EOFError: EOF when reading a line", "input"),
        ("EOFError: Ran out of input", None),
        ("ConnectionRefusedError: [Errno 111] Connection refused", "network"),
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution", "network"),
        ("urllib.error.URLError: <urlopen error timed out>", "network"),
        ("OSError: We couldn't connect to 'https://huggingface.co' to load the files", "network"),
        ("huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach it", "network"),
        ("curl: (6) Could not resolve host: data.org", "network"),
        ("RuntimeError: the network expects 3 channels, a fully connected layer 280", None),
        ("ValueError: sample 128 of 1300", None),
        ("RuntimeError: CUDA error: operation not permitted when stream is capturing", None),
        ("", None),
    ],
)
def test_the_last_words_speak_for_a_reason(last, found):
    assert hint_category(last) == found


@pytest.mark.parametrize(
    ("last", "behind", "why", "hint"),
    [
        ("OSError: [Errno 28] No space left", KEPT, "disk space", "TMPDIR="),
        ("PermissionError: x", KEPT, "contains a mount", "mkdir -p"),
        ("PermissionError: x", IsolationReport("python", False, ()), "permission", ANYWAY),
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
    assert "refused in a trial, not discarded" in found.why
    assert "beforehand" in found.hint
