"""What arms get to read, from real descriptors."""

import os
import sys
from pathlib import Path

import pytest
from imagined_job import Executor
from unguarded import Open

from whyidle.errors import TrialError
from whyidle.fix.arms import arm, failure_hints, stdin_replay
from whyidle.fix.arms.arm import ArmRequest, ArmResult
from whyidle.fix.loop import trial_session
from whyidle.fix.loop.trial_session import TrialSession

linux = pytest.mark.skipif(not stdin_replay.OWN.exists(), reason="files are opened anew by /proc")


@pytest.fixture
def standard():
    """Put a descriptor in the place of standard input, for as long as the test lasts."""
    kept = os.dup(0)
    yield lambda descriptor: os.dup2(descriptor, 0)
    os.dup2(kept, 0)
    os.close(kept)


def pipe(standard):
    read, write = os.pipe()
    standard(read)
    os.close(read)
    return write


@linux
def test_each_arm_reads_the_file_from_where_it_stands(tmp_path, standard):
    (tmp_path / "lines.txt").write_text("a header\none\ntwo\n")
    with (tmp_path / "lines.txt").open("rb") as file:
        standard(file.fileno())
        os.lseek(0, len("a header\n"), os.SEEK_SET)
    words = [sys.executable, "-c", "import sys; print(sys.stdin.read().split())"]
    for name in ("one", "two"):
        assert (
            arm.run_arm(words, ArmRequest(), tmp_path / name, Open()).output_end.strip()
            == "['one', 'two']"
        )
    assert os.lseek(0, 0, os.SEEK_CUR) == len("a header\n")
    assert stdin_replay.redirect_words() == f" < {tmp_path / 'lines.txt'}"


def test_what_can_be_read_only_once_is_left_alone(tmp_path, standard):
    os.write(write := pipe(standard), b"one\n")
    words = [sys.executable, "-c", "import sys; print(repr(sys.stdin.read()))"]
    assert arm.run_arm(words, ArmRequest(), tmp_path / "one", Open()).output_end.strip() == "''"
    os.close(write)
    assert stdin_replay.redirect_words() == ""
    assert os.read(0, 10) == b"one\n"


@linux
def test_a_job_that_was_given_nothing_or_too_little_is_told_so(tmp_path, standard):
    said = "EOFError: EOF when reading a line"
    with Path(os.devnull).open("rb") as file:
        standard(file.fileno())
    found = failure_hints.explain_failure(said, 1, None)
    assert "standard input is empty" in found.why
    assert "< FILE" in found.hint
    (tmp_path / "lines.txt").write_text("one\n")
    with (tmp_path / "lines.txt").open("rb") as file:
        standard(file.fileno())
    assert "its input file ended" in failure_hints.explain_failure(said, 1, None).why


@pytest.mark.parametrize(
    ("status", "said", "what"),
    [
        (0, "lines 0\n", "does not train"),
        (1, "Traceback\nEOFError: EOF when reading a line\n", "fails"),
    ],
)
def test_a_job_that_may_have_wanted_input_is_told_how(tmp_path, standard, status, said, what):
    ran = ArmResult("crashed" if status else "silent", status, 4.0, Path("nowhere"), said)
    write = pipe(standard)
    job = TrialSession(["train"], tmp_path, Executor(lambda _: ran), 60.0, {"none"}, None)
    with pytest.raises(TrialError) as raised:
        trial_session.watch_job(job)
    os.close(write)
    assert what in raised.value.what
    assert "a pipe can be read only once" in raised.value.why
    assert "whyidle fix COMMAND < FILE" in raised.value.hint
