"""What a process tells of itself, whatever it trains with."""

import json
import os

import pytest

pytest.importorskip("torch")


def test_its_cores_and_threads_without_a_loader(watching):
    core = max(os.sched_getaffinity(0))
    script = watching.small(f"import os\nos.sched_setaffinity(0, {{{core}}})\ntrain(5)")
    assert watching.alone(*watching.words(watching.env["PYTHON"], script)).returncode == 0
    (file,) = watching.recording().glob("*.facts.json")
    told = json.loads(file.read_text(encoding="utf-8"))
    assert (told["cores"], told["switches"]["num_threads"]) == (1.0, 1)
