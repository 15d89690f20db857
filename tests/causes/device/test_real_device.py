"""The device causes over public recordings; each expectation was checked by reading the trace."""

import os
from functools import lru_cache
from pathlib import Path

import pytest

from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.readers import kineto

DEVICE = {
    "misaligned-tensor-shapes",
    "naive-attention",
    "needless-compute",
    "no-mixed-precision",
    "tf32-disabled",
    "unfused-memory-bound-ops",
    "wrong-memory-format",
}


@lru_cache(maxsize=4)
def findings(name):
    traces = os.environ.get("WHYIDLE_TRACES")
    folder = Path(traces) if traces else Path(__file__).parents[4] / "shared" / "traces"
    path = folder / "kineto" / f"{name}.pt.trace.json.gz"
    if not path.exists():
        pytest.skip("the shared traces are not beside the repository")
    found = diagnose_job([kineto.load(path)]).findings
    return {finding.cause: finding for finding in found if finding.cause in DEVICE}


@pytest.mark.parametrize("name", ["owlv2_h100_workers0", "timesformer_h100"])
def test_attention_written_out_over_thousands_of_tokens(name):
    finding = findings(name)["naive-attention"]
    assert finding.severity == "warning"
    assert finding.lost.low > 0.2


def test_single_precision_on_a_busy_volta():
    finding = findings("ddp_resnet_v100_world1")["no-mixed-precision"]
    assert finding.severity == "warning"
    assert finding.fixes[0].consent == "numerics"


@pytest.mark.parametrize(
    "name",
    [
        "flux_mi300x_cudagraphs",
        "mi210_gpu_only",
        "sglang_qwen3_mi300x_split_step",
        "particle_transformer_a100_bs128",
        "ddp_resnet_a100_rank0of2",
        "bert_small_h100",
        "mlp_rtx3080_workers0_bs16",
    ],
)
def test_nothing_is_called_dear_where_nothing_better_is_proven(name):
    assert all(finding.severity == "info" for finding in findings(name).values())
