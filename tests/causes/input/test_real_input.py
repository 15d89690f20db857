"""Natural experiments: public recordings of one script with and without loader workers."""

import os
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from cured_twins import covers, judge
from whyidle.analysis.facts import Facts
from whyidle.readers import kineto

FOLDER = Path(
    os.environ.get("WHYIDLE_TRACES") or Path(__file__).parents[3].parent / "shared" / "traces"
)
pytestmark = pytest.mark.skipif(
    not (FOLDER / "kineto").is_dir(), reason="the shared real traces are not on this machine"
)


@lru_cache(maxsize=2)
def recorded(name: str):
    return kineto.load(FOLDER / "kineto" / f"{name}.pt.trace.json.gz")


def median_step_s(name: str) -> float:
    steps = Facts(recorded(name)).steps
    return float(np.median(steps.end - steps.start)) / 1e9


@pytest.mark.parametrize("letter", "abc")
def test_resnet_without_loader_stalls_takes_as_long_as_its_twin_with_workers(letter):
    proof = judge("dataloader-no-workers", recorded(f"resnet50_v100_workers0_{letter}"))
    gained = median_step_s(f"resnet50_v100_workers0_{letter}")
    gained /= median_step_s(f"resnet50_v100_workers4_{letter}")
    assert proof is not None
    assert covers(proof, gained, slack=0.0)
    assert proof.predicted.speedup == pytest.approx(gained, rel=0.05)


def test_workers_win_a_launch_bound_toy_little():
    proof = judge("dataloader-no-workers", recorded("mlp_rtx3080_workers0_bs16"))
    gained = median_step_s("mlp_rtx3080_workers0_bs16") / median_step_s("mlp_rtx3080_workers8_bs16")
    assert proof is not None
    assert covers(proof, gained, slack=0.0)


@pytest.mark.parametrize(
    "name", ["resnet50_v100_workers4_a", "resnet50_v100_workers4_b", "mlp_rtx3080_workers8_bs16"]
)
@pytest.mark.parametrize("cause", ["dataloader-no-workers", "dataloader-too-few-workers"])
def test_workers_that_keep_up_are_not_blamed(name, cause):
    assert judge(cause, recorded(name)) is None


def test_preparation_outside_any_loader():
    proof = judge("heavy-cpu-transform", recorded("timesformer_h100"))
    assert proof is not None
    assert 0.5 < proof.low <= proof.high < 0.6
