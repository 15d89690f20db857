"""A real job limited to one core, with telemetry."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from heavy_samples import TRAIN

pytest.importorskip("torch")

pytestmark = pytest.mark.real_processes("workers share a core with whatever else runs")

JOB = """
    import os, sys, time
    if sys.argv[1] == "one":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.execv(sys.executable, [sys.executable, "train.py"])
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs affinity: Linux")
def test_a_job_on_one_core(tmp_path):
    (tmp_path / "start.py").write_text(textwrap.dedent(JOB))
    (tmp_path / "train.py").write_text(TRAIN)
    command = [sys.executable, "-m", "whyidle", "run", "-q", "--interval", "0.2"]
    subprocess.run(
        [*command, "--json", "out.json", "--no-store", "start.py", "one"],
        cwd=tmp_path,
        check=True,
        timeout=120,
    )
    diagnosis = json.loads((tmp_path / "out.json").read_text())
    found = {finding["cause"]: finding for finding in diagnosis["findings"]}
    starved = found.get("cpu-starved-allocation")
    if starved is None and os.getloadavg()[0] > 2 * (os.cpu_count() or 1):
        pytest.skip("other processes take this machine's cores, so the job cannot use up its own")
    assert starved is not None
    evidence = {one["quantity"]: one["value"] for one in starved["evidence"]}
    assert evidence["cores granted to the job"] == 1.0
    assert diagnosis["verdict"]["bound"] == "input"
