"""Causes over public recordings, each read once; what is expected was checked by reading the trace.

The traces lie beside the repository and are not part of it.
"""

import os
from functools import cache
from pathlib import Path

import pytest

from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.readers import kineto

HERE = Path(__file__).parents[2]
TRACES = Path(os.environ.get("WHYIDLE_TRACES") or HERE.parent / "shared" / "traces") / "kineto"
COMMUNICATION = "exposed-gradient-comm"
LAUNCHING = "launch-bound-small-kernels"
DEVICE = {
    "misaligned-tensor-shapes",
    "naive-attention",
    "needless-compute",
    "no-mixed-precision",
    "tf32-disabled",
    "unfused-memory-bound-ops",
    "wrong-memory-format",
}


@cache
def diagnosis(*names: str):
    paths = [TRACES / f"{name}.pt.trace.json.gz" for name in names]
    if not all(path.exists() for path in paths):
        pytest.skip("the recorded traces are not here; WHYIDLE_TRACES names their folder")
    return diagnose_job([kineto.load(path) for path in paths])


def by_cause(name):
    return {finding.cause: finding for finding in diagnosis(name).findings}


def of_family(name, family):
    return [finding for finding in diagnosis(name).findings if finding.family == family]


@pytest.mark.parametrize("name", ["owlv2_h100_workers0", "timesformer_h100"])
def test_attention_written_out_over_thousands_of_tokens(name):
    finding = by_cause(name)["naive-attention"]
    assert finding.severity == "warning"
    assert finding.lost.low > 0.2


def test_single_precision_on_a_busy_volta():
    finding = by_cause("ddp_resnet_v100_world1")["no-mixed-precision"]
    assert finding.severity == "warning"
    assert finding.fixes[0].consent == "numerics"


@pytest.mark.parametrize(
    "name",
    ["flux_mi300x_cudagraphs", "mi210_gpu_only", "sglang_qwen3_mi300x_split_step",
     "particle_transformer_a100_bs128", "ddp_resnet_a100_rank0of2", "bert_small_h100",
     "mlp_rtx3080_workers0_bs16"],
)  # fmt: skip
def test_nothing_is_called_dear_where_nothing_better_is_proven(name):
    found = by_cause(name)
    assert all(found[cause].severity == "info" for cause in DEVICE & set(found))


@pytest.mark.parametrize(
    "name",
    ["bert_small_h100", "vit_classifier_h100", "particle_transformer_a100_bs2",
     "particle_transformer_a100_bs8", "particle_transformer_a100_bs32", "toy_mi350x",
     "mlp_rtx3080_workers0_bs16", "mlp_rtx3080_workers8_bs16", "ddp_resnet_a100_rank0of2"],
)  # fmt: skip
def test_launching_leads(name):
    found = diagnosis(name)
    first = [finding.cause for finding in found.findings[:2]]
    assert LAUNCHING in first, "a batch that is too small may stand before it, nothing else"
    assert first[0] in (LAUNCHING, "batch-too-small")
    assert found.verdict.bound == "host"


@pytest.mark.parametrize("name", ["resnet50_v100_workers0_a", "timesformer_h100"])
def test_input_leads(name):
    found = diagnosis(name)
    assert found.findings[0].bucket == "input"
    assert found.verdict.bound == "input"


@pytest.mark.parametrize(
    "name", ["qwen05b_prefill_h100", "flux_mi300x_cudagraphs", "timesformer_h100"]
)
def test_a_long_wait_beside_a_busy_gpu_is_harmless(name):
    found = by_cause(name).get("per-step-host-sync")
    assert found is None or found.severity == "info"


@pytest.mark.parametrize("name", ["ddp_resnet_v100_world1", "qwen05b_prefill_h100"])
def test_a_busy_gpu_does_not_wait_for_launches(name):
    assert all(finding.severity == "info" for finding in of_family(name, "host"))


@pytest.mark.parametrize("name", ["dlrm_a100_rank3of8", "aot_ddp_v100_rank1of2"])
def test_communication_leads(name):
    found = diagnosis(name)
    assert found.verdict.bound == "communication"
    assert found.findings[0].cause == COMMUNICATION
    assert "contains both transfer and waiting for slower ranks" in "\n".join(found.coverage.notes)


def test_one_by_one_exchanges_are_to_be_put_in_buckets():
    """404 all-reduces a step, of which half take 11 us: nothing of them is hidden."""
    found = diagnosis("aot_ddp_v100_rank1of2").findings[0]
    told = {item.quantity: item.value for item in found.evidence}
    assert told["collectives per step"] == 404
    assert told["hidden share of collectives"] == 0.0
    assert [item.fix for item in found.fixes] == ["larger-buckets"]


def test_two_ranks_of_one_job():
    """Event-sampled files: collectives are matched by the time they end, and rank 1 is late."""
    found = diagnosis("shampoo_dlrm_rank1of128", "shampoo_dlrm_rank0of128")
    assert found.verdict.bound == "communication"
    assert [row.rank for row in found.detail.ranks] == [0, 1]
    assert found.coverage.clock_error_s == pytest.approx(1e-3)
    assert found.detail.ranks[1].last_ratio == 1.0
    assert found.detail.ranks[1].lateness_s < 0.02 * found.detail.ranks[1].step_s
    said = "\n".join(found.coverage.notes)
    assert "126 of 128 ranks are missing" in said
    assert "matched by the time" in said


@pytest.mark.parametrize("name", ["ddp_resnet_a100_rank0of2", "ddp_resnet_v100_world1"])
def test_communication_does_not_lead_where_work_never_waits_for_it(name):
    """On the A100 trace 6 % of the step is exposed, but behind it the host has launched nothing."""
    assert diagnosis(name).verdict.bound != "communication"
    assert all(finding.severity == "info" for finding in of_family(name, "distributed"))


def test_a_cpu_job_waits_for_its_own_collectives():
    found = diagnosis("odd_cpu_only_gloo_rank34")
    assert found.attribution.communication > 0.8
    assert {f.cause for f in found.findings if f.severity != "info"} <= {COMMUNICATION}
    assert "only rank 34 of 300" in "\n".join(found.coverage.notes)
