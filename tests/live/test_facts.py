"""What a process tells of itself, whatever it trains with."""

import json
import os
import shutil

import pytest

pytest.importorskip("torch")


@pytest.mark.skipif(not shutil.which("taskset"), reason="taskset is not installed")
def test_its_cores_and_threads_without_a_loader(watching):
    core = str(max(os.sched_getaffinity(0)))
    command = ("taskset", "-c", core, watching.env["PYTHON"], watching.small("train(5)"))
    assert watching.alone(*watching.words(*command)).returncode == 0
    (file,) = watching.recording().glob("*.facts.json")
    told = json.loads(file.read_text(encoding="utf-8"))
    assert (told["cores"], told["switches"]["num_threads"]) == (1.0, 1)
