"""What several ranks cost each other is the first finding on real jobs that have it, with the rank
or line to blame; their healthy twins show nothing of the kind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch.distributed")

pytestmark = pytest.mark.live

if not Path("/proc/thread-self/schedstat").exists():
    pytest.skip("the kernel does not tell how long threads wait", allow_module_level=True)
if len(os.sched_getaffinity(0)) < 2:
    pytest.skip("two ranks need two cores", allow_module_level=True)

JOB = Path(__file__).with_name("rank_job.py")
SOURCE = JOB.read_text().splitlines()
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
TRIES = 3
"""what else runs on the machine makes ranks wait for each other too, if not every time"""

SICK = {
    "micro": ("allreduce-every-microstep", None, "# backward"),
    "search": ("ddp-config-overhead", None, "# wrapped"),
    "uneven": ("rank-workload-imbalance", 1, None),
    "slow": ("fail-slow-device", 1, None),
}
HEALTHY = {"accumulated": "micro", "found": "search", "even": "uneven", "apart": "slow"}


def watched(name, folder):
    folder.mkdir()
    told = folder / "why.json"
    ours = ("-m", "whyidle", "run", "--store", str(folder / "store"), "--json", str(told))
    done = subprocess.run(
        [sys.executable, *ours, sys.executable, *TORCHRUN, str(JOB), name],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
    )
    assert done.stdout == f"{name}\n"
    diagnosis = json.loads(told.read_text())
    assert diagnosis["run"]["ranks"] == 2
    assert not [note for note in diagnosis["coverage"]["notes"] if "failed" in note]
    return diagnosis


def shown(diagnosis):
    return [(f["cause"], f["severity"], f["lost"]) for f in diagnosis["findings"]]


@pytest.mark.parametrize("name", SICK)
def test_first_finding(name, tmp_path):
    cause, rank, line = SICK[name]
    seen = []
    for turn in range(TRIES):
        diagnosis = watched(name, tmp_path / str(turn))
        seen.append(shown(diagnosis))
        if seen[-1] and seen[-1][0][0] == cause:
            break
    assert seen[-1], seen
    first = diagnosis["findings"][0]
    assert first["cause"] == cause, seen
    assert first["severity"] != "info"
    assert 0.0 <= first["lost"]["low"] <= first["lost"]["high"] <= 1.0
    assert first["fixes"]
    place = first["where"][0]
    assert rank is None or place["rank"] == rank
    if line:
        assert (place["file"], SOURCE[place["line"] - 1].endswith(line)) == (str(JOB), True)


@pytest.mark.parametrize("name", HEALTHY)
def test_its_healthy_twin_is_not_blamed(name, tmp_path):
    cause = SICK[HEALTHY[name]][0]
    seen = []
    for turn in range(TRIES):
        diagnosis = watched(name, tmp_path / str(turn))
        seen.append(shown(diagnosis))
        assert cause not in [f["cause"] for f in diagnosis["findings"] if f["severity"] != "info"]
        if all(f["severity"] == "info" for f in diagnosis["findings"]):
            return
    pytest.fail(f"above info every time: {seen}")
