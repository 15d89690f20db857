"""A diagnosis with something in every key, and names as nasty as a recording may hold."""

import msgspec
import pytest

from whyidle.model.diagnosis import (
    Abstention,
    Attribution,
    Coverage,
    DetailTables,
    Device,
    Diagnosis,
    Edit,
    Evidence,
    Finding,
    Interval,
    KernelRow,
    Place,
    Predicted,
    ProposedFix,
    RankRow,
    Reason,
    RunInfo,
    Steps,
    Trial,
    Utilization,
    Verdict,
)
from whyidle.model.documents.step_timeline import Lane, Picture, Slice

NASTY = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`|&\u2028\x00 ünïcödé 漢字 🚂"
)

SHARES = {
    "input": 0.2,
    "transfer": 0.1,
    "host": 0.1,
    "sync": 0.05,
    "communication": 0.1,
    "interruption": 0.05,
    "compute": 0.35,
    "unknown": 0.05,
}


def make_finding(name="dataloader-no-workers", severity="critical", text="plain"):
    return Finding(
        cause=name,
        family="input",
        bucket="input",
        severity=severity,
        headline=text,
        title=text,
        where=[Place(file=text, line=12, function=text, rank=0)] * 8,
        lost=Interval(low=0.1, high=0.2),
        confidence=0.9,
        evidence=[
            Evidence(quantity=text, value=text, unit=text, window=text, samples=1234, source=text),
            Evidence(
                quantity="share", value=0.25, unit="ratio", window=None, samples=None, source=None
            ),
            Evidence(
                quantity="gone", value=None, unit=None, window=None, samples=None, source=None
            ),
        ],
        fixes=[
            ProposedFix(
                fix="loader-workers",
                summary=text,
                edits=[Edit(knob="loader.pin_memory", value=True)],
                consent="numerics",
                automatic=True,
                predicted=Predicted(speedup=1.2, low=1.1, high=1.3, method=text),
                risk=text,
            ),
            ProposedFix(
                fix="by-hand",
                summary=text,
                edits=[],
                consent="none",
                automatic=False,
                predicted=None,
                risk="",
            ),
        ],
    )


def picture(text):
    bars = [Slice(start_s=0.001 * i, duration_s=0.0008, label=text, group="host") for i in range(9)]
    kernels = [
        Slice(start_s=0.001 * i, duration_s=0.0005, label=text, group=group, members=3, filled=0.5)
        for i, group in enumerate(["matrix_product", "h2d", text])
    ]
    frames = [Slice(start_s=0.0, duration_s=0.01, label=text, group="python")]
    lanes = [
        Lane(name="lost time", kind="gap", slices=bars, dropped=7),
        Lane(name=text, kind="device", slices=kernels),
        Lane(name="host: Python", kind="host", slices=frames),
    ]
    return Picture(rank=0, step=text, duration_s=0.01, lanes=lanes)


def rank(number, text, steps=5):
    split = Attribution(**SHARES)
    return RankRow(
        rank=number,
        source=text,
        step_s=0.01,
        attribution=split,
        lateness_s=None,
        steps=[split] * steps,
    )


def detailed(text, ranks):
    kernels = [
        KernelRow(
            name=f"{text} {i}",
            group="matrix_product",
            precision="fp32",
            tensor_core=False,
            count=10 + i,
            total_s=0.5 / (i + 1),
            share=0.1 / (i + 1),
            mean_us=12.5,
        )
        for i in range(20)
    ]
    return DetailTables(
        reasons=[Reason(reason="loader", bucket="input", meaning=text, share=0.2)],
        kernels=kernels,
        groups={"matrix_product": 0.7, text: 0.3},
        picture=picture(text),
        ranks=[rank(i, text) for i in range(ranks)],
        step_times_s=[0.5, 0.01, 0.011, 0.01, 0.012, 0.01],
        steady=[False, True, True, True, True, True],
    )


def diagnosis(text="plain", ranks=3, findings=None, state="starved"):
    everything = [make_finding(f"cause-{i}", text=text) for i in range(14)]
    small = make_finding("small", "info", text)
    everything.append(msgspec.structs.replace(small, lost=Interval(low=0.0, high=0.02)))
    return Diagnosis(
        run=RunInfo(
            id="explain-1",
            command=None,
            started=None,
            duration_s=1.0,
            exit_status=None,
            framework="pytorch",
            ranks=ranks,
            hosts=[text],
            whyidle="0.0",
            sources=[f"/traces/{text}"] * ranks,
        ),
        device=Device(kind="cuda", name=text, count=2, memory_bytes=80 << 30, peak_flops=None),
        steps=Steps(
            count=5,
            warmup=1,
            mean_s=0.0106,
            p50_s=0.01,
            p95_s=0.012,
            p99_s=0.012,
            samples_per_s=3200.0,
            detected_by="ProfilerStep",
            confidence=1.0,
        ),
        attribution=Attribution(**SHARES),
        utilization=Utilization(
            busy=0.5,
            gpu_util=None,
            sm_active=None,
            sm_occupancy=None,
            tensor_active=0.1,
            dram_active=None,
            mfu=0.2,
            power_w=None,
            memory_peak_bytes=1 << 30,
            energy_j_per_step=None,
        ),
        verdict=Verdict(state=state, headline=text, bound="input"),
        findings=everything if findings is None else findings,
        abstentions=[
            Abstention(cause="exposed-gradient-comm", missing=["several_ranks"], how=text),
            Abstention(cause="rank-workload-imbalance", missing=["several_ranks"], how=text),
        ],
        trials=[
            Trial(
                fix=text,
                consent="none",
                baseline=1.0,
                treated=0.8,
                speedup=1.25,
                low=1.2,
                high=1.3,
                predicted=1.2,
                numerics=None,
                kept=True,
                why=text,
            )
        ],
        coverage=Coverage(
            signals=["host_ops"],
            windows=1,
            overhead_ratio=None,
            clock_error_s=0.001,
            notes=[text],
        ),
        detail=detailed(text, ranks),
    )


@pytest.fixture(scope="session")
def full():
    return diagnosis()


@pytest.fixture(scope="session")
def nasty():
    return diagnosis(NASTY)


@pytest.fixture(scope="session")
def build():
    """Makes a diagnosis: ``build(text, ranks=, findings=, state=)``."""
    return diagnosis


@pytest.fixture(scope="session")
def finding():
    return make_finding


@pytest.fixture(scope="session")
def nasty_text():
    return NASTY
