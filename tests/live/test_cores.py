"""Jobs with fewer cores than they need, and more threads than they may use."""

import os
import shutil

import pytest

pytest.importorskip("torch")

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not shutil.which("taskset"), reason="taskset is not installed"),
]


def serious(watching, scripts, threads):
    job = [watching.env["PYTHON"], scripts / "dense.py", threads, 64, 6]
    core = str(max(os.sched_getaffinity(0)))
    words = watching.words("taskset", "-c", core, *job)
    assert watching.alone(*words).returncode == 0
    return [one for one in watching.diagnosis()["findings"] if one["severity"] != "info"]


def test_sixteen_threads_on_one_core_are_the_first_finding(watching, scripts):
    first = serious(watching, scripts, 16)[0]
    assert first["cause"] == "cpu-oversubscription"
    assert "16 threads" in first["headline"]
    assert first["where"][0]["file"].endswith("dense.py")
    assert "set_num_threads(1)" in first["prescriptions"][0]["summary"]


def test_one_thread_on_one_core_is_not_blamed(watching, scripts):
    assert "cpu-oversubscription" not in [one["cause"] for one in serious(watching, scripts, 1)]


def test_a_crowd_of_processes_without_a_step(watching):
    core = str(max(os.sched_getaffinity(0)))
    loops = "for i in 1 2 3 4; do (timeout 4 sh -c 'while :; do :; done') & done; wait"
    words = watching.words("taskset", "-c", core, "sh", "-c", f"{loops}; true")
    assert watching.alone(*words).returncode == 0
    diagnosis = watching.diagnosis()
    assert diagnosis["verdict"]["state"] == "inconclusive"
    assert diagnosis["findings"][0]["cause"] == "cpu-oversubscription"
