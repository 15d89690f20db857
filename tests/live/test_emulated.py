"""Jobs on the emulated device under watch: what is said of them agrees with what truly happened."""

import json
import sys

import numpy as np
import pytest

from emulator.environment import add_emulator
from whyidle.analysis.intervals import Intervals, union_of

pytest.importorskip("torch")

pytestmark = pytest.mark.live

POINTS = 0.05
"""how far a share may be from the truth"""
SLOW = {"peak_flops": 1e8}
"""a step takes the device some 25 ms, the host a few"""


class Truth:
    """Shares of the time from the first tenth of a job's batches on, from the device itself."""

    def __init__(self, truth, waits):
        device = truth["devices"][0]
        begins, ends = (np.array(column, dtype=np.int64) for column in zip(*waits, strict=True))
        low, high = begins[len(begins) // 10], ends[-1]
        window = Intervals(np.array([low]), np.array([high]))
        columns = zip(*device["busy"], strict=True)
        busy = union_of(*(np.array(column, dtype=np.int64) for column in columns)) & window
        waiting = union_of(begins, ends) & window
        self.busy = busy.total / window.total
        self.input = (waiting - busy).total / window.total


def watch(watching, *script, run=(), **config):
    """The finished process of a script."""
    counters = watching.folder / "counters"
    counters.mkdir()
    watching.env = add_emulator(watching.env) | {
        "OMP_NUM_THREADS": "1",
        "WHYIDLE_EMULATED": json.dumps(config),
        "WHYIDLE_EMULATED_TRUTH": str(watching.folder / "truth.json"),
        "WHYIDLE_EMULATED_COUNTERS": str(counters),
    }
    done = watching.alone(*watching.words(sys.executable, *script, options=run))
    assert done.returncode == 0, done.stderr
    return done


def watched(watching, scripts, *options, run=(), **config):
    """(diagnosis, truth, the finished process) of one job."""
    done = watch(watching, scripts / "on_emulated.py", *options, run=run, **config)
    truth = json.loads((watching.folder / "truth.json").read_text())
    waits = json.loads((watching.folder / "waits.json").read_text())
    return watching.diagnosis(), Truth(truth, waits), done


def test_a_starved_device(watching, scripts):
    diagnosis, truth, done = watched(
        watching, scripts, "--load", "0.002", "--workers", "1", run=["--profile", "off"]
    )
    assert diagnosis["device"]["kind"] == "emulated"
    assert diagnosis["verdict"]["headline"].startswith("Emulated device")
    assert "mulated" in done.stderr
    shares = diagnosis["attribution"]
    print(f"input: said {shares['input']:.3f}, truly {truth.input:.3f}")
    assert shares["input"] == pytest.approx(truth.input, abs=POINTS)
    told = diagnosis["utilization"]["gpu_util"]
    print(f"busy: telemetry {told:.3f}, truly {truth.busy:.3f}")
    assert told == pytest.approx(truth.busy, abs=POINTS)


def test_a_busy_device(watching, scripts):
    diagnosis, truth, _ = watched(watching, scripts, run=["--profile", "off"], **SLOW)
    shares = diagnosis["attribution"]
    print(f"compute: said {shares['compute']:.3f}, truly {truth.busy:.3f}")
    assert shares["compute"] == pytest.approx(truth.busy, abs=POINTS)
    assert shares["input"] == pytest.approx(truth.input, abs=POINTS)
