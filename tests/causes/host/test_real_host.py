"""Host causes over public recordings whose leading cause is known."""

import os
from pathlib import Path

import pytest

from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.readers import kineto

HERE = Path(__file__).parents[3]
TRACES = Path(os.environ.get("WHYIDLE_TRACES", HERE.parent / "shared" / "traces")) / "kineto"
CAUSE = "launch-bound-small-kernels"
HARMLESS = ("qwen05b_prefill_h100", "flux_mi300x_cudagraphs", "timesformer_h100")


def diagnosis(name: str):
    path = TRACES / f"{name}.pt.trace.json.gz"
    if not path.exists():
        pytest.skip("the recorded traces are not here; WHYIDLE_TRACES names their folder")
    return diagnose_job([kineto.load(path)])


@pytest.mark.parametrize(
    "name",
    ["bert_small_h100", "vit_classifier_h100", "particle_transformer_a100_bs2",
     "particle_transformer_a100_bs8", "particle_transformer_a100_bs32", "toy_mi350x",
     "mlp_rtx3080_workers0_bs16", "mlp_rtx3080_workers8_bs16", "ddp_resnet_a100_rank0of2"],
)  # fmt: skip
def test_launching_leads(name):
    found = diagnosis(name)
    first = [finding.cause for finding in found.findings[:2]]
    assert CAUSE in first, "a batch that is too small may stand before it, nothing else"
    assert first[0] in (CAUSE, "batch-too-small")
    assert found.verdict.bound == "host"


@pytest.mark.parametrize("name", ["resnet50_v100_workers0_a", "timesformer_h100"])
def test_input_leads(name):
    found = diagnosis(name)
    assert found.findings[0].bucket == "input"
    assert found.verdict.bound == "input"


@pytest.mark.parametrize("name", HARMLESS)
def test_a_long_wait_beside_a_busy_gpu_is_harmless(name):
    for finding in diagnosis(name).findings:
        if finding.cause == "per-step-host-sync":
            assert finding.severity == "info"


@pytest.mark.parametrize("name", ["ddp_resnet_v100_world1", "qwen05b_prefill_h100"])
def test_a_busy_gpu_does_not_wait_for_launches(name):
    assert all(f.severity == "info" for f in diagnosis(name).findings if f.family == "host")
