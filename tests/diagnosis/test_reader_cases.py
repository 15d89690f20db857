"""Files of other tools that were once read wrongly, or not named for what they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from whyidle.errors import NotATraceError
from whyidle.recordings.explain import explain_paths

CASES = Path(__file__).parent / "reader_cases"


def diagnose(name):
    return explain_paths([CASES / name])[0]


def test_a_trace_of_the_legacy_profiler_is_read_and_named():
    diagnosis = diagnose("legacy_autograd.json.gz")
    assert diagnosis.device.kind == "cuda"
    assert diagnosis.attribution.compute == pytest.approx(0.52, abs=0.02)
    assert any("legacy autograd profiler" in note for note in diagnosis.coverage.notes)


def test_an_ascend_npu_waits_for_its_batches():
    diagnosis = diagnose("ascend_trace_view.json.gz")
    assert (diagnosis.device.kind, diagnosis.device.name) == ("other", "Ascend NPU")
    assert (diagnosis.verdict.state, diagnosis.verdict.bound) == ("starved", "input")
    assert diagnosis.findings[0].cause == "dataloader-no-workers"
    assert (diagnosis.steps.count, diagnosis.steps.detected_by) == (6, "ProfilerStep")


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("lfs_pointer.pt.trace.json", "Git LFS pointer"),
        ("execution_trace.json", "an execution trace"),
        ("key_averages.txt", r"table that key_averages\(\) prints"),
    ],
)
def test_what_is_no_recording_is_named(name, what):
    with pytest.raises(NotATraceError, match=what) as caught:
        diagnose(name)
    assert caught.value.hint
