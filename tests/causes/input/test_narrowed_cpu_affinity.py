"""A real job whose workers something in the process binds to one core, watched."""

import json
import os
import subprocess
import sys

import pytest
from heavy_samples import TRAIN

pytest.importorskip("torch")

pytestmark = pytest.mark.real_processes("workers share a core with whatever else runs")

BOUND = "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # as a library may\n"


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two cores, and affinity: Linux",
)
def test_workers_that_share_one_of_two_cores(tmp_path):
    (tmp_path / "train.py").write_text(BOUND + TRAIN)
    command = [sys.executable, "-m", "whyidle", "run", "-q", "--interval", "0.2"]
    subprocess.run(
        [*command, "--json", "out.json", "--no-store", sys.executable, "train.py"],
        cwd=tmp_path,
        check=True,
        timeout=120,
    )
    diagnosis = json.loads((tmp_path / "out.json").read_text())
    first = diagnosis["findings"][0]
    assert first["cause"] == "narrowed-cpu-affinity"
    evidence = {one["quantity"]: one["value"] for one in first["evidence"]}
    assert evidence["cores of a worker"] == 1.0
    assert evidence["cores of the command"] == len(os.sched_getaffinity(0))
    assert "cpu-starved-allocation" not in {one["cause"] for one in diagnosis["findings"]}
    assert first["fixes"][0]["fix"] == "full-affinity"
