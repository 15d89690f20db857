"""A local Ray as an executor."""

import _thread
import subprocess
import sys
import threading
import time
from contextlib import suppress
from importlib.util import find_spec

import psutil
import pytest

from whyidle.errors import MissingExtraError, TrialError
from whyidle.fix import executor
from whyidle.fix.arms.arm import ArmRequest

pytestmark = [
    pytest.mark.filterwarnings("ignore:::ray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
there = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")


def test_without_ray_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError) as caught:
        executor.start_executor("ray", executor.TrialTerms(["python"], here=tmp_path))
    assert "whyidle[ray]" in caught.value.hint


@there
def test_a_machine_that_does_not_reach_the_folder_is_refused(start, tmp_path):
    gone = tmp_path / "gone"
    with pytest.raises(TrialError, match="no folder") as caught:
        start("ray", here=gone)
    assert "same paths" in caught.value.hint


@there
def test_what_no_machine_has_is_told(start):
    with pytest.raises(TrialError, match="GPU 0") as caught:
        start("ray", resources={"cpu": 1, "gpu": 4})
    assert "--resources" in caught.value.hint


@there
def test_what_it_holds_is_told(start):
    assert "CPU 1 of it" in start("ray", resources={"cpu": 1}).executor_notes()[0]
    assert "CPU 2 of it" in start("ray").executor_notes()[0]


@there
@pytest.mark.usefixtures("untouched")
def test_ctrl_c_ends_the_arm_there(start, place, monkeypatch):
    mark = str(place("mark"))
    monkeypatch.setenv("MARK", mark)
    one, folder = start("ray"), place("one")
    began = threading.Event()

    def interrupt():
        while not arms(mark):
            time.sleep(0.1)
        began.set()
        _thread.interrupt_main()

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        one.run_arm(ArmRequest(steps=10**9, patience_s=60.0), folder)
    assert began.is_set()
    assert not arms(mark)
    assert one.run_arm(ArmRequest(steps=12, patience_s=60.0), place("next")).is_comparable


def arms(mark):
    """Processes of arms that run now, by a variable of their own."""
    return [one for one in psutil.process_iter() if _marked(one, mark)]


def _marked(process, mark):
    with suppress(psutil.Error, OSError):
        own = process.environ()
        alive = process.status() != psutil.STATUS_ZOMBIE
        return alive and own.get("MARK") == mark and "WHYIDLE_TRIAL" in own
    return False


@there
def test_a_job_is_tried_by_ray_and_its_files_stay(job, tmp_path):
    words = ["fix", "--engine", "ray", "--budget", "20s", "--no-store", "--json", "told.json"]
    (tmp_path / "out").mkdir()
    words[-1] = str(tmp_path / "out" / "told.json")
    done = subprocess.run(
        [sys.executable, "-m", "whyidle", *words, sys.executable, "train.py"],
        cwd=job,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "by Ray" in (tmp_path / "out" / "told.json").read_text()
    assert (job / "model.pt").read_bytes() == b"the best model so far"
