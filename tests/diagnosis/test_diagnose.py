"""The diagnosis as a whole: ranked, bounded, honest about what it does not know."""

from dataclasses import replace

import numpy as np
import pytest

from imagined_jobs import SICK, healthy
from whyidle import catalog
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.timeline import DeviceInfo, HostKind
from whyidle.testing.builder import Builder, ms, us
from whyidle.testing.contracts import STRIPPERS


def test_a_starved_job_is_starved_by_input():
    diagnosis = diagnose_job([SICK["starved_by_loader"]().timeline()])
    assert diagnosis.verdict.state == "starved"
    assert diagnosis.verdict.bound == "input"
    assert diagnosis.findings[0].cause == "dataloader-no-workers"
    assert diagnosis.findings[0].severity == "critical"
    assert diagnosis.findings[0].fixes


@pytest.mark.parametrize("name", ["dataloader-no-workers", "late-rank"])
def test_a_cause_that_fails_costs_itself_only(name, monkeypatch):
    def broken(_):
        raise ValueError("a planted fault")

    job = SICK["starved_by_loader"]().timeline()
    other = diagnose_job([replace(job, rank=0, world_size=2), replace(job, rank=1, world_size=2)])
    monkeypatch.setattr("whyidle.diagnosis.diagnose.CONTAINED", (Exception,))
    cause = replace(catalog.load_causes()[name], test=broken, needs=())
    monkeypatch.setitem(catalog.load_causes(), name, cause)
    told = diagnose_job([replace(job, rank=0, world_size=2), replace(job, rank=1, world_size=2)])
    (note,) = [note for note in told.coverage.notes if "planted" in note]
    assert note.startswith(f"internal error in the check of {name}, which was skipped")
    assert told.attribution == other.attribution
    left = [finding.cause for finding in other.findings if finding.cause != name]
    assert {finding.cause for finding in told.findings} >= set(left)
    assert name not in [finding.cause for finding in told.findings]


def test_a_healthy_job_is_left_alone():
    diagnosis = diagnose_job([healthy().timeline()])
    assert diagnosis.verdict.state == "saturated"
    assert all(finding.severity == "info" for finding in diagnosis.findings)


def test_an_emulated_device_is_named_so():
    diagnosis = diagnose_job([healthy().timeline()])
    assert diagnosis.device.kind == "emulated"
    assert "mulated" in diagnosis.verdict.headline
    real = diagnose_job([Builder(device="NVIDIA A100-SXM4-80GB").timeline_of(_one_step)])
    assert "mulated" not in real.verdict.headline


def _one_step(job: Builder) -> None:
    with job.step():
        job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", us(100))])


def test_without_device_events_there_is_no_verdict():
    timeline = STRIPPERS["device_events"](SICK["starved_by_loader"]().timeline())
    diagnosis = diagnose_job([timeline])
    assert diagnosis.verdict.state == "inconclusive"
    assert diagnosis.verdict.bound is None
    assert "GPU" in diagnosis.verdict.headline


def test_idle_time_without_a_cause_is_not_called_healthy():
    job = Builder()
    for _ in range(4):
        with job.step():
            job.op("aten::mm", kernels=[("ampere_bf16_s16816gemm_bf16_128x64_tn", us(1000))])
            job.quiet(us(5000))
    diagnosis = diagnose_job([job.timeline()])
    assert diagnosis.verdict.state == "inconclusive"
    assert diagnosis.attribution.unknown > 0.6


def test_what_is_missing_is_said_and_how_to_get_it():
    timeline = STRIPPERS["loader_marks"](SICK["starved_by_loader"]().timeline())
    told = {item.cause: item for item in diagnose_job([timeline]).abstentions}
    assert told["dataloader-no-workers"].missing == ["loader_marks"]
    assert told["dataloader-no-workers"].how


def test_a_recording_without_anything_is_survived():
    timeline = healthy().timeline()
    none = np.empty(0, np.int64)
    bare = replace(
        timeline, host=timeline.host.take_rows(none), device=timeline.device.take_rows(none)
    )
    diagnosis = diagnose_job([bare])
    assert diagnosis.verdict.state == "inconclusive"
    assert diagnosis.attribution.unknown == 1.0


@pytest.mark.parametrize("kind", list(HostKind))
def test_any_kind_of_host_event_may_be_missing(kind):
    timeline = SICK["synchronising"]().timeline()
    rows = timeline.host.kind != kind
    diagnosis = diagnose_job([replace(timeline, host=timeline.host.take_rows(rows))])
    shares = [getattr(diagnosis.attribution, b) for b in diagnosis.attribution.__struct_fields__]
    assert sum(shares) == pytest.approx(1.0, abs=1e-6)


def test_a_recording_of_the_device_alone_is_diagnosed():
    job = Builder()
    for _ in range(8):
        job.op("aten::mm", kernels=[("ampere_bf16_s16816gemm_bf16_128x64_tn", us(500))])
        job.op("aten::add", kernels=[("multi_tensor_apply_kernel<Adam>", us(50))])
        job.sync()
        job.quiet(us(2000))
    job.events = [event for event in job.events if event["cat"] == "kernel"]
    diagnosis = diagnose_job([job.timeline()])
    assert diagnosis.verdict.state == "inconclusive"
    assert "does not show why" in diagnosis.verdict.headline


def test_a_wait_for_work_that_was_not_recorded_is_named():
    job = Builder()
    for _ in range(4):
        with job.step():
            job.op("aten::mm", kernels=[("gemm", us(500))])
            with job.span("aten::item", "cpu_op"):
                job.runtime("cudaStreamSynchronize", us(3000))
    diagnosis = diagnose_job([job.timeline()])
    assert diagnosis.verdict.state == "inconclusive"
    assert "in cudaStreamSynchronize of aten::item" in diagnosis.verdict.headline


@pytest.mark.parametrize("compiled", [False, True])
def test_what_is_compiled_is_not_to_be_compiled(compiled):
    job = Builder()
    for _ in range(4):
        with job.step(), job.span(f"{'Torch-Compiled Region: 0/0' if compiled else 'x'}", "cpu_op"):
            for _ in range(100):
                job.op("aten::mm", kernels=[("gemm", us(3))], host=us(20))
    (finding,) = [
        finding
        for finding in diagnose_job([job.timeline()]).findings
        if finding.cause == "launch-bound-small-kernels"
    ]
    knobs = {edit.knob for fix in finding.fixes for edit in fix.edits}
    assert ("model.compile" in knobs) == (not compiled)
    assert "model.compile_mode" in knobs


def test_without_steps_nothing_is_per_step():
    job = Builder()
    for _ in range(400):
        job.op("aten::mm", kernels=[("gemm", us(3))], host=us(20))
    diagnosis = diagnose_job([job.timeline()])
    assert diagnosis.findings
    assert "per step" not in diagnosis.verdict.headline


def test_a_larger_batch_of_inference_changes_no_result():
    job = Builder()
    for _ in range(6):
        with job.step():
            for _ in range(100):
                job.op("aten::mm", kernels=[("gemm", us(3))], host=us(20))
    fixes = [fix for finding in diagnose_job([job.timeline()]).findings for fix in finding.fixes]
    larger = next(fix for fix in fixes if fix.fix == "larger-batch")
    assert larger.summary.startswith("batch x")
    assert (larger.consent, larger.automatic) == ("none", False)
    assert larger.changes_batch


def test_without_training_no_gradients_are_exchanged():
    job = Builder(rank=0, world_size=2)
    for _ in range(6):
        with job.step():
            for _ in range(60):
                job.op("aten::mm", kernels=[("gemm", us(50))])
                job.collective(us(60), elements=4_000)
                job.join()
    fixes = [fix for finding in diagnose_job([job.timeline()]).findings for fix in finding.fixes]
    assert not [edit.knob for fix in fixes for edit in fix.edits if edit.knob.startswith("ddp.")]


def test_on_a_job_of_the_cpu_nobody_waits_for_the_gpu():
    """Nor does the CPU wait for the CPU."""
    job = Builder()
    for _ in range(4):
        with job.step():
            job.op("aten::mm", host=us(300))
            job.quiet(us(50))
            for _ in range(20):
                job.op("aten::view", host=us(1))
    diagnosis = diagnose_job([replace(job.timeline(), info=DeviceInfo())])
    assert diagnosis.device.kind == "cpu"
    said = " ".join([diagnosis.verdict.headline, *diagnosis.coverage.notes])
    assert "GPU" not in said
    assert "the CPU to launch" not in said


def test_recording_again_is_not_said_to_be_faster():
    """A cold start is no speed-up to be had by looking elsewhere."""
    job = Builder()
    for pause in (ms(400), 0, 0, 0, 0, 0):
        with job.step():
            if pause:
                job.python("torch/_inductor/compile_fx.py(900): compile_fx", pause)
            job.op("aten::mm", kernels=[("ampere_bf16_s16816gemm_bf16_128x64_tn", us(9000))])
            job.sync()
    diagnosis = diagnose_job([job.timeline()])
    found = next(f for f in diagnosis.findings if f.cause == "compile-autotune-warmup")
    again = next(p for p in found.fixes if p.fix == "steady-recording")
    assert again.predicted is None
    assert "repeat=1" in again.summary


@pytest.mark.parametrize(
    ("name", "virtual"),
    [("GRID T4-8Q", True), ("NVIDIA A100-40C", True), ("NVIDIA A100-SXM4-80GB", False)],
)
def test_a_virtual_gpu_is_named_as_such(name, virtual):
    job = Builder(device=name)
    for _ in range(6):
        with job.step():
            job.op("aten::mm", kernels=[("gemm", us(300))], host=us(20))
    spoils = diagnose_job([job.timeline()]).coverage.spoils
    assert any("virtual GPU" in text for text in spoils) == virtual
