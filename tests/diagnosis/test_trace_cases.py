"""Recordings of kinds that were once judged wrongly, and what is true of each."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from whyidle.model.diagnosis import Diagnosis
from whyidle.recordings.explain import explain_paths

CASES = Path(__file__).parent / "trace_cases"
REAL = Path(__file__).parents[2].parent / "shared/cases/traces"


@cache
def diagnose(path: Path) -> Diagnosis:
    return explain_paths([path]).diagnosis


def case(name: str) -> Diagnosis:
    return diagnose(CASES / f"{name}.json.gz")


def real(name: str) -> Diagnosis:
    path = REAL / f"{name}.json.gz"
    if not path.exists():
        pytest.skip("the shared real recordings are not beside the repository")
    return diagnose(path)


def variant(tmp_path: Path, name: str, change: Callable[[list[dict]], list[dict]]) -> Diagnosis:
    """A case with other events."""
    document = json.loads(gzip.decompress((CASES / f"{name}.json.gz").read_bytes()))
    document["traceEvents"] = change(document["traceEvents"])
    path = tmp_path / "variant.json"
    path.write_text(json.dumps(document))
    return diagnose(path)


def causes(diagnosis: Diagnosis) -> list[str]:
    return [finding.cause for finding in diagnosis.findings if finding.severity != "info"]


def notes(diagnosis: Diagnosis) -> str:
    return " ".join(diagnosis.coverage.notes)


@pytest.mark.parametrize("name", ["most_times_zero", "half_of_times_zero"])
def test_zero_is_no_time(name):
    found = case(name)
    assert "events without a time (0)" in notes(found)
    assert 0.011 < found.steps.mean_s < 0.013
    assert causes(found)[0] == "dataloader-no-workers"
    assert found.run.duration_s < 1


def test_a_recording_may_begin_at_zero(tmp_path):
    def shift(events: list[dict]) -> list[dict]:
        first = min(event["ts"] for event in events)
        return [{**event, "ts": event["ts"] - first} for event in events]

    assert "events without a time (0)" not in notes(variant(tmp_path, "lightning_profiler", shift))


def test_kernels_that_outlast_later_ones_are_shortened(tmp_path):
    found = case("overlapping_kernels")
    assert "end after later kernels of their stream" in notes(found)
    assert found.steps.count == 6
    assert 0.45 < found.attribution.compute < 0.52

    def lengthen(events: list[dict]) -> list[dict]:
        rows = [event for event in events if event["cat"] == "kernel"]
        rows[-1]["dur"] = 7e6  # the last kernel has none after it
        return events

    last = variant(tmp_path, "lightning_profiler", lengthen)
    assert "last longer than the whole recording" in notes(last)
    assert last.steps.count == 6


def test_two_processes_are_two_ranks(tmp_path):
    def rename(events: list[dict]) -> list[dict]:
        """As a file merged without labels."""
        return [{**e, "pid": int(str(e["pid"]).rpartition(" ")[2])} for e in events]

    for found in (case("merged_ranks"), variant(tmp_path, "merged_ranks", rename)):
        assert [row.rank for row in found.detail.ranks] == [0, 1]
        assert found.steps.count == 6
        lengths = [row.step_s for row in found.detail.ranks]
        assert lengths == pytest.approx([0.0117, 0.0087], rel=0.02)
        assert "2 processes" in notes(found)


def test_an_id_that_all_launches_have_is_none(tmp_path):
    found = case("one_correlation_id")
    assert found.steps.count == 6
    assert found.steps.detected_by == "ProfilerStep"

    def reuse(events: list[dict]) -> list[dict]:
        """Ids that begin again with every step."""
        for kind in (("cuda_runtime",), ("kernel", "gpu_memcpy")):
            rows = [e for e in events if e["cat"] in kind and "Sync" not in e["name"]]
            rows.sort(key=lambda event: event["ts"])
            for i, row in enumerate(rows):
                row.setdefault("args", {})["correlation"] = 1 + i % (len(rows) // 6)
        return events

    again = variant(tmp_path, "lightning_profiler", reuse)
    assert again.attribution.compute == pytest.approx(
        case("lightning_profiler").attribution.compute, abs=0.01
    )
    assert "name several launches" in notes(again)


def test_a_step_within_a_step_is_one():
    found = case("lightning_profiler")
    assert found.steps.count == 6
    assert found.steps.mean_s == pytest.approx(0.0107, rel=0.02)


def test_lost_kernels_are_said_to_be_lost():
    found = case("lost_kernels")
    assert found.verdict.state == "inconclusive"
    assert "lost its kernels" in found.verdict.headline
    assert "DataLoader" in found.verdict.headline
    assert "ProfilerActivity" not in found.verdict.headline


def test_steps_without_their_kernels_do_not_count(tmp_path):
    found = case("first_kernels_lost")
    assert found.steps.count == 4
    assert 0.45 < found.attribution.compute < 0.52
    assert "kernels of 2 of 6 steps are missing" in notes(found)

    def lose(events: list[dict]) -> list[dict]:
        """Kernels of a step in the middle."""
        marks = sorted(e["ts"] for e in events if e["name"].startswith("ProfilerStep"))
        return [
            event
            for event in events
            if event["cat"] not in ("kernel", "gpu_memcpy")
            or not marks[3] <= event["ts"] < marks[4]
        ]

    middle = variant(tmp_path, "overlapping_kernels", lose)
    assert middle.steps.count == 5
    assert "kernels of 1 of 6 steps are missing" in notes(middle)


def test_work_from_before_the_recording_is_no_idle_time():
    for found in (case("earlier_work"), real("07_real_arc")):
        assert found.attribution.compute > 0.95
        assert "launched before the recording began" in notes(found)


def test_the_creation_of_the_context_is_told():
    found = real("19_real_context_init_unseen")
    assert found.run.duration_s > 19
    assert "19.6 s" in found.verdict.headline


def test_dispatch_and_combine_are_communication():
    found = case("expert_parallel")
    assert found.attribution.communication == pytest.approx(0.46, abs=0.02)
    assert found.verdict.bound == "communication"


def test_the_softmax_of_a_router_is_no_attention():
    for found in (case("moe_decode"), real("02_real_qwen3_moe_b300_decode")):
        assert "naive-attention" not in [finding.cause for finding in found.findings]
        assert found.detail.groups["attention"] < 0.1
        assert found.detail.groups.get("other", 0.0) < 0.05


def test_graph_capture_is_no_starvation():
    found = case("graph_capture")
    assert found.recording.kind == "graph_capture"
    assert found.verdict.state == "inconclusive"
    assert "capture of a CUDA graph" in found.verdict.headline
    assert found.findings == []


@pytest.mark.parametrize("name", ["moe_decode", "02_real_qwen3_moe_b300_decode"])
def test_a_decoding_server_gets_advice_in_its_own_terms(name):
    found = real(name) if name.startswith("02") else case(name)
    assert (found.recording.kind, found.recording.engine) == ("decode", "SGLang")
    assert causes(found) == ["gaps-between-graphs"]
    texts = " ".join(fix.summary for finding in found.findings for fix in finding.fixes)
    assert "overlap scheduler" in texts
    assert "--max-running-requests" in texts
    for training in ("DataLoader", "learning rate", "torch.compile", "loss"):
        assert training not in texts


def test_prefill_is_told_from_decode(tmp_path):
    def prefill(events: list[dict]) -> list[dict]:
        """As vLLM names its steps."""
        for event in events:
            if event["name"].startswith("step["):
                event["name"] = "execute_context_2(1024)_generation_0(0)"
        return events

    found = variant(tmp_path, "moe_decode", prefill)
    assert (found.recording.kind, found.recording.engine) == ("prefill", "vLLM")
    assert found.steps.count == 6


def test_cpu_work_is_told_from_launching(tmp_path):
    found = case("cpu_tensor_work")
    assert causes(found)[0] == "cpu-tensor-work"
    assert "aten::normal_" in found.verdict.headline
    assert "launch" not in found.verdict.headline
    assert "learning rate" not in str([finding.fixes for finding in found.findings])

    def multiply(events: list[dict]) -> list[dict]:
        """Another operator, on a CPU half as fast as the device."""
        names = {"aten::normal_": "aten::mul", "aten::randn": "aten::mul_out"}
        return [{**event, "name": names.get(event["name"], event["name"])} for event in events]

    assert "aten::mul" in variant(tmp_path, "cpu_tensor_work", multiply).findings[0].headline


def test_the_kind_of_recording_is_said():
    kinds = {name: case(name).recording.kind for name in ("lightning_profiler", "lost_kernels")}
    assert set(kinds.values()) == {"training"}
    assert case("earlier_work").recording.kind == "inference"
    assert real("19_real_context_init_unseen").recording.kind == "microbenchmark"


def test_a_cold_start_does_not_hide_what_autocast_gains():
    found = real("08_real_switch_autocast_prediction")
    (finding,) = [one for one in found.findings if one.cause == "no-mixed-precision"]
    assert finding.severity != "info"
    gain = next(fix.predicted for fix in finding.fixes if fix.fix == "autocast")
    assert gain.low >= 1.0
    assert gain.speedup > 1.2


def test_dispatch_is_to_be_overlapped():
    (finding,) = case("expert_parallel").findings
    assert "combine" in finding.headline
    assert "two-batch overlap" in finding.fixes[0].summary
