"""What is looked at on another machine before an arm runs there; here, this one is it."""

import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from whyidle import __version__
from whyidle.errors import TrialError
from whyidle.fix.arms import isolation_report
from whyidle.fix.arms.arm import ArmRequest, ArmResult
from whyidle.fix.arms.isolation_report import TrialIsolation
from whyidle.fix.executor import TrialTerms
from whyidle.fix.executors import _remote_arm
from whyidle.fix.isolation import isolate


@pytest.fixture
def terms(job):
    return TrialTerms([sys.executable, "train.py", "--lr", "1"], here=job)


def seen(terms, *, files=None, version=__version__):
    return _remote_arm.check_machine(terms, files or _remote_arm.named_files(terms), version)


def test_where_all_is_there_nothing_is_wrong(terms):
    found = seen(terms)
    assert found.why == ""
    assert found.host


def test_only_files_that_the_command_names_are_compared(terms, job):
    assert list(_remote_arm.named_files(terms)) == ["train.py"]
    nested = replace(terms, command=["python", str(job / "train.py")])
    assert list(_remote_arm.named_files(nested)) == [str(job / "train.py")]
    program = replace(terms, command=["python", "-c", "pass\n" * 1000, "\0"])
    assert _remote_arm.named_files(program) == {}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"here": Path("/nowhere/at/all")}, "folder /nowhere/at/all does not exist"),
        ({"command": ["no-such-program", "train.py"]}, "program no-such-program does not exist"),
        ({"command": ["./train.sh"]}, "program ./train.sh does not exist"),
    ],
)
def test_what_is_not_reached_is_told_with_what_must_be_shared(terms, change, word):
    found = seen(replace(terms, **change), files=_remote_arm.named_files(terms))
    assert word in found.why
    assert "same paths" in found.hint


def test_another_file_of_that_name_is_not_the_users(terms, job):
    files = _remote_arm.named_files(terms)
    (job / "train.py").write_text("print('old')")
    assert "is different" in seen(terms, files=files).why
    (job / "train.py").unlink()
    assert "file train.py does not exist" in seen(terms, files=files).why


def test_another_version_of_ours_is_told(terms):
    assert "not 0.0.1" in seen(terms, version="0.0.1").why


def test_where_no_isolation_is_available_it_refuses(terms, monkeypatch):
    def check(self, command, *, yes):
        if not yes:
            raise TrialError("Kept in by Python only.", why="No namespaces.", hint="--yes")

    monkeypatch.setattr(TrialIsolation, "check_isolation", check)
    found = seen(terms)
    assert found.why == "Kept in by Python only. No namespaces."
    assert found.hint == "--yes"
    assert seen(replace(terms, yes=True)).why == ""


def test_it_is_as_typed_but_for_accelerators_and_afterwards_as_before(terms, job, monkeypatch):
    typed = {"PATH": "/typed", "ONLY": "typed", "CUDA_VISIBLE_DEVICES": "0,1,2,3"}
    monkeypatch.chdir("/")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = dict(os.environ)
    with _remote_arm.as_typed(replace(terms, environment=typed)):
        assert dict(os.environ) == {**typed, "CUDA_VISIBLE_DEVICES": "2"}
        assert Path.cwd() == job
    assert dict(os.environ) == before
    assert Path.cwd() == Path("/")


def test_a_recording_is_handed_back_and_nothing_beside_it(tmp_path):
    there, here = tmp_path / "there", tmp_path / "here"
    (there / "folder").mkdir(parents=True)
    (there / "1.spans").write_bytes(b"\x00\x01")
    (there / "folder" / "2.json").write_text("{}")
    (there / "link").symlink_to("/etc/passwd")
    ran = ArmResult("stopped", 0, 1.0, there, "")
    found = _remote_arm.unpack_result(
        _remote_arm.RemoteResult(ran, _remote_arm.pack_folder(there), ()), here
    )
    assert found.recording == here / "recording"
    names = {str(p.relative_to(found.recording)) for p in found.recording.rglob("*")}
    assert names == {"1.spans", "folder", "folder/2.json"}
    assert (found.recording / "1.spans").read_bytes() == b"\x00\x01"


def test_an_arm_is_kept_in_there_as_was_found_before_or_not_run(terms, monkeypatch):
    level = seen(replace(terms, yes=True)).level
    if level == "python":
        pytest.skip("there is nothing less")
    monkeypatch.setattr(isolation_report, "isolate", partial(isolate, best="python"))
    order = _remote_arm.RemoteOrder(replace(terms, level=level), ArmRequest(), "one")
    with pytest.raises(TrialError, match="no longer be isolated"):
        _remote_arm.run_remote(order)


def test_nothing_of_an_arm_is_left_there(terms, monkeypatch, tmp_path):
    monkeypatch.setattr(_remote_arm.tempfile, "tempdir", str(tmp_path))
    order = _remote_arm.RemoteOrder(
        replace(terms, command=[sys.executable, "-c", "pass"]), ArmRequest(), "one"
    )
    came = _remote_arm.run_remote(order)
    assert came.ran.ending == "silent"
    assert not list(tmp_path.glob("whyidle-fix-*"))
