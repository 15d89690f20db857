"""Commands beside GPUs that NVML tells of; the binding is a stand-in, the jobs are real."""

import os
from pathlib import Path

import pytest

import whyidle
from emulator.environment import ROOT

pytest.importorskip("torch")

pytestmark = pytest.mark.live

BINDING = """
import sys
from types import SimpleNamespace
from emulator.fake_nvml import module, training
idle = {"UtilizationRates": SimpleNamespace(gpu=0, memory=0), "ComputeRunningProcesses": [],
        "ProcessUtilization": [], "CurrentClocksEventReasons": 1, "PowerUsage": 70_000}
hot = {"CurrentClocksEventReasons": 0x20, "ClockInfo": {1: 1000, 2: 2619}, "Temperature": {0: 92}}
sys.modules[__name__] = module([training(uuid=f"GPU-{i}", answers=CARD) for i in range(COUNT)])
"""


@pytest.fixture
def beside(watching):
    def run(card, count, *command):
        binding = watching.folder / "binding"
        binding.mkdir()
        text = BINDING.replace("CARD", card).replace("COUNT", str(count))
        (binding / "pynvml.py").write_text(text)
        path = os.pathsep.join([str(binding), str(Path(whyidle.__file__).parent.parent), str(ROOT)])
        words = watching.words(*command, options=("--interval", "0.2"))
        done = watching.alone(*words, env={"PYTHONPATH": path})
        assert done.returncode == 0, done.stderr
        return watching.diagnosis()

    return run


def test_training_on_the_cpu_beside_an_idle_gpu(beside, scripts):
    train = scripts / "dense.py"
    first = beside("idle", 1, train, 1, 256, 5)["findings"][0]
    assert first["cause"] == "training-on-cpu"
    assert "built without CUDA" in first["headline"] or "moved" in first["headline"]
    assert first["where"][0]["file"] == str(train)


def test_a_command_that_leaves_its_gpus_idle(beside):
    diagnosis = beside("idle", 2, "sleep", "4")
    assert diagnosis["verdict"]["state"] == "inconclusive"
    assert diagnosis["findings"][0]["cause"] == "idle-allocated-gpu"


def test_heat_is_told_of_a_command_without_steps(beside):
    diagnosis = beside("hot", 1, "sleep", "4")
    assert diagnosis["findings"][0]["cause"] == "thermal-throttle"
    assert "No training step was seen" in diagnosis["verdict"]["headline"]
