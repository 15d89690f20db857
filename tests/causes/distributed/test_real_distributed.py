"""Communication on real recordings; the traces lie beside the repository and are not part of it."""

import os
from pathlib import Path

import pytest

from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.readers import kineto

HERE = Path(__file__).parents[3]
TRACES = Path(os.environ.get("WHYIDLE_TRACES", HERE.parent / "shared" / "traces")) / "kineto"
COMMUNICATION = "exposed-gradient-comm"


def diagnosis(*names: str):
    paths = [TRACES / f"{name}.pt.trace.json.gz" for name in names]
    if not all(path.exists() for path in paths):
        pytest.skip("the recorded traces are not here; WHYIDLE_TRACES names their folder")
    return diagnose_job([kineto.load(path) for path in paths])


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
    found = diagnosis(name)
    assert found.verdict.bound != "communication"
    serious = [item for item in found.findings if item.severity != "info"]
    assert not [item for item in serious if item.family == "distributed"]


def test_a_cpu_job_waits_for_its_own_collectives():
    found = diagnosis("odd_cpu_only_gloo_rank34")
    assert found.attribution.communication > 0.8
    assert {f.cause for f in found.findings if f.severity != "info"} <= {COMMUNICATION}
    assert "only rank 34 of 300" in "\n".join(found.coverage.notes)
