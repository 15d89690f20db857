"""Larger batches in a trial, with a real job."""

import sys
from dataclasses import replace

import msgspec
import pytest
from own_sgd import OWN_SGD
from unguarded import Open

from whyidle.engine.trial.arms.arm import ArmRequest, run_arm
from whyidle.engine.trial.loop.candidates import Candidate, candidate_key
from whyidle.engine.trial.statistics.gradient_noise import estimate_scale
from whyidle.engine.trial.statistics.loss_equivalence import BaselineRuns, check_losses
from whyidle.engine.trial.statistics.per_sample_timing import (
    batch_factor,
    changes_batch,
    explain_incomparable,
    work_s,
)
from whyidle.engine.trial.statistics.speedup import sample_s, samples_per_step, step_s
from whyidle.model.diagnosis import Edit

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.real_processes("arms of a real job are compared by the clock")

TRAIN = f"""
import sys, time
{OWN_SGD}
torch.set_num_threads(1)
torch.manual_seed(0)
parts, rate = int(sys.argv[1]), float(sys.argv[2])
x = torch.randn(2000, 8)
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
train = torch.utils.data.DataLoader(data, 8, shuffle=True, drop_last=True)
held = torch.utils.data.DataLoader(data, 50)
net = torch.nn.Linear(8, 1)
known = torch.optim.SGD if 'known' in sys.argv else SGD  # whose learning rate is scaled
optimizer = known(net.parameters(), lr=rate)
while True:
    for rows, wanted in train:
        pairs = zip(rows.chunk(parts), wanted.chunk(parts)) if parts > 1 else [(rows, wanted)]
        for some, want in pairs:
            time.sleep(0.004)
            loss = (net(some) - want).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        sum((net(rows) - wanted).square().mean() for rows, wanted in held)
"""
EDITS = (
    Edit(knob="loader.batch_size_times", value=4, was=1),
    Edit(knob="optimizer.scale_learning_rate", value=True, was=False),
)
FIX = Candidate("larger-batch", "batch-too-small", "convergence", "", EDITS, None, "")


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    """``arm(**asked)`` runs one; what has run already is not run again."""
    folder = tmp_path_factory.mktemp("arms")
    path = folder / "train.py"
    path.write_text(TRAIN)
    ran = {}

    def start(parts=1, rate=0.005, *words, **asked):
        key = parts, rate, *words, *sorted(asked.items())
        if key not in ran:
            command = [sys.executable, str(path), str(parts), str(rate), *words]
            ran[key] = run_arm(command, ArmRequest(**asked), folder / f"arm-{len(ran)}", Open())
            assert ran[key].is_comparable, ran[key].output_end
        return ran[key]

    return start


def pair(arm, rate=0.005):
    """Without and with it, for as long."""
    how = {"steps": 60, "seconds": 0.6}
    more = {"rungs": (0.2,), "per_sample": True, "edits": EDITS}
    return arm(1, rate, "known", **how), arm(1, rate, "known", **how, **more)


def test_a_step_has_more_samples_and_what_it_gains_is_told_by_them(arm):
    base, treated = pair(arm)
    assert samples_per_step(base.report) == 8
    assert samples_per_step(treated.report) == 32
    assert set(treated.applied) == {edit.knob for edit in EDITS}
    assert not treated.declined
    assert not explain_incomparable(FIX, base, treated)
    (one,), (other,) = work_s([base.report], [treated.report])
    assert one == pytest.approx(step_s(base.report, len(base.report.marks)))
    each = step_s(treated.report, len(treated.report.marks))
    assert other == pytest.approx(8 * sample_s(treated.report)) == pytest.approx(each / 4)


def test_rungs_of_a_race_are_told_by_samples(arm):
    _, treated = pair(arm)
    assert treated.rungs[max(treated.rungs)] < step_s(treated.report, len(treated.report.marks)) / 8


def test_a_script_that_cuts_its_batches_up_is_seen(arm):
    base, _ = pair(arm)
    treated = arm(4, 0.005, "known", edits=EDITS, steps=40)
    assert "not 4" in explain_incomparable(FIX, base, treated).text


def test_it_holds_where_as_much_is_learned_in_the_same_time(arm):
    """Each step waits as long, whatever its size; the rate that goes with it is a safe one."""
    base, treated = pair(arm)
    check = check_losses("convergence", BaselineRuns(base.report), treated.report)
    assert check.holds, check.explanation
    assert "s of training the loss is" in check.explanation


def test_it_does_not_where_the_rate_that_goes_with_it_is_too_much(arm):
    """Linear regression in eight dimensions: with 0.22 it learns, with 0.88 it diverges."""
    base, treated = pair(arm, rate=0.22)
    assert base.report.losses[-1] < 0.01 * base.report.losses[0]
    check = check_losses("convergence", BaselineRuns(base.report), treated.report)
    assert not check.holds
    assert "loss" in check.explanation


def test_the_noise_scale_of_a_known_job(arm):
    """Of linear regression on normal features without noise it is their number and one."""
    found = estimate_scale(arm(rate=0.002, steps=400, noise=True).report)
    assert found.size == 8
    assert found.low < 9.0 < found.high
    assert 6.0 < found.samples < 13.0


def test_only_that_knob_makes_steps_of_another_size():
    assert batch_factor(FIX) == 4.0
    assert changes_batch(FIX)
    assert not changes_batch(Candidate("x", "y", "none", "", EDITS[1:], None, ""))


def test_it_is_tried_once_however_much_larger_the_next_look_would_have_it():
    again = (msgspec.structs.replace(EDITS[0], value=2), EDITS[1])
    assert candidate_key(FIX) == candidate_key(replace(FIX, edits=again))
    assert candidate_key(FIX) != candidate_key(replace(FIX, edits=EDITS[:1]))
