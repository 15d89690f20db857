"""`whyidle run --plan`: a plan applied to real jobs, as they are."""

import json

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.live

JOB = """
import os
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.ones(8, 8)), batch_size=4)
optimizer = torch.optim.Adam(model.parameters())
for (batch,) in loader:
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
print(loader.num_workers, optimizer.param_groups[0]["fused"], os.environ.get("SETTING"))
"""
PLAN = """
schema = "whyidle/plan/1"
command = ["python", "train.py"]
made = "2026-11-21T15:30:00+00:00"
whyidle = "0.1.0"

[[fix]]
fix = "loader-workers"
consent = "rounding"
[fix.edits]
loader.workers = 2
env.SETTING = "on"
callbacks.every = 5
[fix.was]
loader.workers = {was}

[[fix]]
fix = "fused-optimizer"
consent = "rounding"
enabled = {enabled}
[fix.edits]
optimizer.fused = true
"""
UNTOUCHED = "0 None None\n"


@pytest.fixture
def planned(watching):
    """The command under a plan, and what came of it."""
    script = watching.small(JOB)

    def run(text, *options, **named):
        path = watching.folder / "plan.toml"
        path.write_text(text)
        words = watching.words(script, options=["--plan", path, *options])
        child = watching.start(words, **named)
        out, err = child.communicate(timeout=120)
        return child.returncode, out, " ".join(err.split())

    return run


def test_what_takes_hold_and_what_does_not_is_told(planned, watching):
    status, out, err = planned(PLAN.format(was=0, enabled="true"))
    assert (status, out) == (0, "2 True on\n")
    notes = watching.diagnosis()["coverage"]["notes"]
    told = 'loader.workers = 2, env.SETTING = "on", optimizer.fused = True'
    assert f"Applied without editing the script: {told}" in notes
    assert any(
        note.startswith("Not applied: callbacks.every = 5: it has no form") for note in notes
    )
    assert "loader.workers = 2" in err


def test_what_is_disabled_or_of_another_loader_is_not_applied(planned, watching):
    status, out, _ = planned(PLAN.format(was=4, enabled="false"))
    assert (status, out) == (0, "0 None on\n")
    notes = watching.diagnosis()["coverage"]["notes"]
    why = "no DataLoader was made with num_workers=4, which it replaces"
    assert f"Not applied: loader.workers = 2: {why}" in notes


def test_a_run_that_is_not_stored_has_it_too(planned):
    _, out, err = planned(PLAN.format(was=0, enabled="true"), "--no-store")
    assert out == "2 True on\n"
    assert "Applied without editing the script: loader.workers = 2" in err


def test_a_job_that_is_not_watched_says_that_it_is_not_applied(planned):
    named = {"env": {"WHYIDLE_DISABLE": "1"}}
    status, out, err = planned(PLAN.format(was=0, enabled="true"), **named)
    assert (status, out) == (0, UNTOUCHED)
    assert "not watched: WHYIDLE_DISABLE=1; the plan is not applied" in err


@pytest.mark.parametrize(
    "text",
    [
        "schema = 1",
        "[[",
        PLAN.format(was=0, enabled=3),
        PLAN.format(was=0, enabled="true").replace("callbacks", "calbacks"),
    ],
)
def test_a_plan_that_cannot_be_read_is_an_error_before_the_job(planned, watching, text):
    status, out, err = planned(text)
    assert status == 1
    assert not out
    assert "plan.toml" in err
    assert not watching.store.exists()


def test_a_knob_that_declines_leaves_the_job_as_it_was(planned, watching):
    text = PLAN.format(was=0, enabled="false")
    status, out, _ = planned(text.replace("loader.workers = 2", 'autocast.dtype = "float16"'))
    assert (status, out) == (0, "0 None on\n")
    told = json.dumps(watching.diagnosis()["coverage"]["notes"])
    assert "float16 needs a GradScaler" in told
