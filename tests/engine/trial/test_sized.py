"""Larger batches in a trial, with a real job."""

import sys
from dataclasses import replace

import msgspec
import pytest
from unguarded import Open

from whyidle.engine.trial.arm import Asked, run
from whyidle.engine.trial.candidates import Candidate, key
from whyidle.engine.trial.pair import batch, sample_s, step_s
from whyidle.engine.trial.sized import resized, times, unlike, work_s
from whyidle.model.diagnosis import Edit

torch = pytest.importorskip("torch")

TRAIN = """
import sys, time, torch
torch.set_num_threads(1)
torch.manual_seed(0)
parts = int(sys.argv[1]) if len(sys.argv) > 1 else 1
x = torch.randn(2000, 8)
data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
train = torch.utils.data.DataLoader(data, 8, shuffle=True, drop_last=True)
held = torch.utils.data.DataLoader(data, 50)
net = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
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


@pytest.fixture
def arm(tmp_path):
    """``arm(*words, **asked)`` runs one."""
    path = tmp_path / "train.py"
    path.write_text(TRAIN)
    count = iter(range(99))

    def start(*words, **asked):
        place = tmp_path / f"arm-{next(count)}"
        found = run([sys.executable, str(path), *words], Asked(**asked), place, Open())
        assert found.good, found.said
        return found

    return start


def test_a_step_has_more_samples_and_what_it_gains_is_told_by_them(arm):
    base, treated = (
        arm(steps=100),
        arm(edits=EDITS, steps=100, seconds=1.0, rungs=(0.2,), per_sample=True),
    )
    assert batch(base.told) == 8
    assert batch(treated.told) == pytest.approx(32, rel=0.02)
    assert set(treated.applied) == {edit.knob for edit in EDITS}
    assert not treated.declined
    assert not unlike(FIX, base, treated)
    (one,), (other,) = work_s([base.told], [treated.told])
    assert one == pytest.approx(step_s(base.told, len(base.told.marks)), rel=0.01)
    assert other == pytest.approx(8 * sample_s(treated.told))
    each = step_s(treated.told, len(treated.told.marks))
    assert other == pytest.approx(each / 4, rel=0.02)
    assert treated.rung.step_s < each / 8


def test_a_script_that_cuts_its_batches_up_is_seen(arm):
    base, treated = arm("2", steps=40), arm("8", edits=EDITS, steps=40)
    assert "not 4" in unlike(FIX, base, treated)


def test_only_that_knob_makes_steps_of_another_size():
    assert times(FIX) == 4.0
    assert resized(FIX)
    assert not resized(Candidate("x", "y", "none", "", EDITS[1:], None, ""))


def test_it_is_tried_once_however_much_larger_the_next_look_would_have_it():
    again = (msgspec.structs.replace(EDITS[0], value=2), EDITS[1])
    assert key(FIX) == key(replace(FIX, edits=again))
    assert key(FIX) != key(replace(FIX, edits=EDITS[:1]))
