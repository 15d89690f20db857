"""A plan says what its reader may not have meant."""

import pytest

from whyidle.model.plan import FixPlan, PlannedFix

FIX = PlannedFix(fix="loader-workers", consent="rounding", edits={"loader.workers": 2})

RUN = ["python", "-m", "torch.distributed.run"]


def plan(*fixes, command=("python", "train.py", "--lr", "1")):
    return FixPlan(command=list(command), made="", whyidle="", fix=list(fixes))


@pytest.mark.parametrize(
    ("made", "given"),
    [
        (["python", "train.py"], ["/opt/bin/python3", "-u", "jobs/train.py", "--epochs", "90"]),
        (["python", "train.py"], ["torchrun", "--nproc-per-node", "2", "train.py"]),
        (["python", "-m", "pkg.train"], ["python", "-X", "dev", "-m", "pkg.train"]),
        (["python", "train.py"], ["sh", "run.sh"]),
        (["./job"], ["python", "train.py"]),
        (["python", "../jobs/train.py"], ["python", "/home/me/jobs/train.py"]),
        (["torchrun", "train.py"], ["python", "-m", "torch.distributed.run", "train.py"]),
        (["python", "-m", "pkg.train", "a.py"], ["python", "-m", "pkg.train", "b.py"]),
        (["python", "-m", "pkg.train"], ["python", "-m", "pkg.train", "--config", "b.py"]),
        (["python", "-m", "pkg.train", "-m", "vit"], ["python", "-m", "pkg.train", "-m", "bert"]),
        ([*RUN, "-m", "pkg.train", "a.py"], ["torchrun", "-m", "pkg.train", "b.py"]),
        ([*RUN, "train.py", "-m", "vit"], ["python", "train.py"]),
        (["python", "/home/me/jobs/train.py"], ["python", "/workspace/train.py"]),
        (["python", "/home/me/jobs/train.py"], ["python", "/home/you/jobs/train.py"]),
        (["python", "pkg/train.py"], ["python", "-m", "pkg.train"]),
        (["srun", "-m", "cyclic", "python", "train.py"], ["python", "train.py"]),
        (["numactl", "-m", "0", "torchrun", "train.py"], ["torchrun", "train.py"]),
    ],
)
def test_the_same_program_may_be_called_in_other_ways(made, given):
    assert plan(FIX, command=made).command_mismatches(given) == []


@pytest.mark.parametrize(
    ("made", "given"),
    [
        (["python", "train.py"], ["python", "evaluate.py"]),
        (["python", "-m", "pkg.train"], ["python", "-m", "pkg.evaluate"]),
        (["python", "vision/train.py"], ["python", "text/train.py"]),
        ([*RUN, "train.py"], [*RUN, "evaluate.py"]),
        ([*RUN, "-m", "pkg.train"], [*RUN, "-m", "pkg.evaluate"]),
        (["python", "-m", "pkg.train", "-m", "vit"], ["python", "-m", "other.train", "-m", "vit"]),
        (["python", "-m", "vision.train", "a.py"], ["python", "-m", "text.train", "a.py"]),
        (["python", "/jobs/vision/train.py"], ["python", "/jobs/text/train.py"]),
        (["python", "/home/me/train.py"], ["python", "/workspace/evaluate.py"]),
    ],
)
def test_a_plan_for_another_program_is_told(made, given):
    (told,) = plan(FIX, command=made).command_mismatches(given)
    assert "another program" in told
    assert made[-1] in told


@pytest.mark.parametrize(
    ("fixes", "why"),
    [
        ((), "no fix"),
        ((PlannedFix(fix="tf32", consent="numerics", enabled=False, edits=FIX.edits),), "disabled"),
        ((PlannedFix(fix="tf32", consent="numerics", edits={}),), "sets nothing"),
    ],
)
def test_a_plan_that_changes_nothing_is_told(fixes, why):
    (told,) = plan(*fixes).command_mismatches(["python", "train.py"])
    assert told.startswith("The plan changes nothing")
    assert why in told
