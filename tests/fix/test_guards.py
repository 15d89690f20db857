"""What a trial guards against, with real jobs."""

import os
import sys
from statistics import fmean

import pytest
from own_sgd import OWN_SGD
from unguarded import Open

from whyidle.fix.arms import process_tree
from whyidle.fix.arms.arm import ArmRequest, run_arm
from whyidle.fix.loop.ab_test import fetch_rate, run_warm
from whyidle.fix.statistics.loss_equivalence import loss_distance
from whyidle.fix.statistics.memory_leak import find_leaks
from whyidle.fix.statistics.speedup import step_s
from whyidle.model.diagnosis import Edit

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.real_processes("arms of a real job are compared by the clock")

TRAIN = f"""
import os, sys, time
{OWN_SGD}
torch.set_num_threads(1)
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = SGD(net.parameters(), lr=0.1)
kept = []
for step in range(100_000):
    if "LEAKS" in os.environ:
        kept.append(bytearray(2_000_000))
    if len(sys.argv) > 1:
        with open(sys.argv[1], "rb") as file:
            file.seek(1_000_000 * (step % 20))
            file.read(1_000_000)
    loss = net(torch.randn(4, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.005)
"""


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    """``arm(*words, **asked)`` runs one."""
    folder = tmp_path_factory.mktemp("arms")
    path = folder / "train.py"
    path.write_text(TRAIN)
    count = iter(range(99))

    def start(*words, **asked):
        place = folder / f"arm-{next(count)}"
        command = [sys.executable, str(path), *words]
        found = run_arm(command, ArmRequest(**{"steps": 12, **asked}), place, Open())
        assert found.is_comparable, found.output_end
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(process_tree, "EVERY_S", 0.02)
        yield start


@pytest.fixture(scope="module")
def bases(arm):
    """Two of the job as it is, long enough for a slope of its memory, however slow its steps."""
    return [arm(steps=150) for _ in range(2)]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere files count")
def test_a_leak_is_found_and_its_size(arm, bases):
    edits = (Edit(knob="env.LEAKS", value="1"),)
    treats = [arm(steps=150, edits=edits) for _ in range(2)]
    step = fmean(step_s(ran.report, len(ran.report.marks)) for ran in treats)
    leak, _ = find_leaks(bases, treats, step, left=1e9)
    assert leak.where == "host"
    assert leak.each == pytest.approx(2_000_000, rel=0.3)
    assert find_leaks(bases, treats, step, left=20)[0] is None  # over before it is full
    assert find_leaks(treats, treats, step, left=1e9) == (None, [])  # as much as without the fix


def test_other_rounding_is_another_run_but_nearly_the_same(arm, bases):
    base, off, other = bases[0], arm(sway=1), arm(seed=1)
    assert off.swayed
    assert off.report.losses[:12] != base.report.losses[:12]
    assert 0 < loss_distance(base.report.losses[:12], off.report.losses[:12]) < 1e-4
    assert loss_distance(base.report.losses[:12], other.report.losses[:12]) > 1e-2


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="files cannot be put out of memory")
def test_an_arm_that_reads_from_disk_is_run_again(arm, tmp_path):
    path = tmp_path / "data"
    path.write_bytes(os.urandom(1_000_000) * 20)
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    rans = []

    def again():
        rans.append(arm(str(path), seconds=0.5))
        return rans[-1]

    found, told = run_warm(again, [])
    if fetch_rate(rans[0]) == 0.0:
        pytest.skip("what is fetched from storage is not told here")
    assert len(rans) == 2
    assert found is rans[1]
    assert "not counted" in told
    assert run_warm(again, [])[1] == ""
    assert len(rans) == 3
