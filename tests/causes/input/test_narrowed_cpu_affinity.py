"""A real job whose workers something in the process binds to one core, watched."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from own_sgd import OWN_SGD

pytest.importorskip("torch")

pytestmark = pytest.mark.real_processes("workers share a core with whatever else runs")

TRAIN = """
    import os, sys, time
    from torch.utils.data import DataLoader, Dataset

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # as a library may

    class Heavy(Dataset):
        def __len__(self):
            return 100000
        def __getitem__(self, index):
            total = 0
            for number in range(40000):
                total += number * number % 7
            return torch.randn(64), index % 4

    torch.set_num_threads(1)
    model = torch.nn.Linear(64, 4)
    optimizer = SGD(model.parameters(), lr=0.1)
    begin, done = time.time(), 0
    for x, y in DataLoader(Heavy(), batch_size=4, num_workers=2):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        done += 1
        if done > 20 and time.time() - begin > 3:
            break
"""


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two cores, and affinity: Linux",
)
def test_workers_that_share_one_of_two_cores(tmp_path):
    (tmp_path / "train.py").write_text(OWN_SGD + textwrap.dedent(TRAIN))
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
