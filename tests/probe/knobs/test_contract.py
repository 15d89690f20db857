"""Every knob has a form that is applied at run time, or a sentence that says why it has none."""

import pytest
import small_jobs as jobs
import torch

from whyidle.model.knobs import KNOBS
from whyidle.probe.core import cpu_cores as cores
from whyidle.probe.knobs import NO_FORM

SETTINGS = {
    "autocast.dtype": "bfloat16",
    "autocast.grad_scaler": False,
    "autograd.anomaly_mode": False,
    "ddp.comm_hook": "bf16_compress",
    "ddp.find_unused_parameters": False,
    "evaluation.gradients": False,
    "matmul.precision": "high",
    "model.checkpointing": False,
}
TOGETHER = {
    "autocast.grad_scaler": {"autocast.dtype": "bfloat16"},
}
"""what is only ever set with others"""


def setting(knob):
    return SETTINGS.get(knob, {bool: True, int: 2, float: 2.0, str: "x"}[KNOBS[knob].kind])


@pytest.mark.parametrize("knob", [name for name, knob in KNOBS.items() if not knob.by_people])
def test_it_has_a_form(turn, knob, monkeypatch):
    monkeypatch.setattr(cores, "_given", [frozenset({0})])
    session = turn({knob: setting(knob), **TOGETHER.get(knob, {})})
    assert not session.declined
    assert session.undo
    session.undo_changes()


@pytest.mark.parametrize("knob", [name for name, knob in KNOBS.items() if knob.by_people])
def test_or_declines_with_a_sentence(turn, knob):
    session = turn({knob: setting(knob)})
    assert not session.undo
    assert session.declined[knob]
    assert KNOBS[knob].by_people[0].islower()
    assert not KNOBS[knob].by_people.endswith(".")
    assert not session.applied


def test_all_of_them_at_once_leave_a_job_as_it_is(turn, faults):
    """Those that change no number, and those that nothing can be done about."""
    plain = jobs.train(jobs.model())
    rounding = ("autocast.", "matmul.", "model.", "optimizer.")
    edits = {knob: setting(knob) for knob in KNOBS if not knob.startswith(rounding)}
    session = turn({**edits, "torch.num_threads": torch.get_num_threads(), "no.such_knob": 1})
    assert jobs.train(jobs.model()) == plain
    assert session.declined["no.such_knob"] == NO_FORM
    assert not faults(session)
