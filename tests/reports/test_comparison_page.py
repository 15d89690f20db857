"""A comparison for a terminal."""

from __future__ import annotations

import msgspec
import pytest

from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.reports._comparison_page import comparison_parts, shorten_kernel_name
from whyidle.reports._text_sections import render_text
from whyidle.runs.compare import compare_diagnoses
from whyidle.testing.demo import job


@pytest.mark.parametrize("width", [60, 80, 120])
def test_fits_and_says_what_changed(width: int):
    before, after = (diagnose_job([job(loader_ms=ms).timeline()]) for ms in (42.0, 2.0))
    text = render_text(comparison_parts(compare_diagnoses(before, after)), width=width)
    assert "as fast" in text
    assert "gone: dataloader-no-workers" in " ".join(text.split())
    assert text.isascii()
    assert not [line for line in text.split("\n") if len(line) > width]


def test_batches_that_differ_are_compared_by_samples_per_second():
    slow, fast = (diagnose_job([job(loader_ms=ms).timeline()]) for ms in (42.0, 2.0))
    replace = msgspec.structs.replace
    before, after = (
        replace(side, steps=replace(side.steps, samples_per_s=rate))
        for side, rate in ((fast, 100.0), (slow, 300.0))
    )
    text = " ".join(render_text(comparison_parts(compare_diagnoses(before, after))).split())
    assert "3.00x the samples per second: 100 to 300" in text
    assert "slower" not in text
    assert "assumes the same number of samples" not in text


def test_no_change_is_said():
    same = diagnose_job([job().timeline()])
    assert "did not change significantly" in render_text(
        comparison_parts(compare_diagnoses(same, same))
    )


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void cudnn::wgrad<float, pair<int, 2>>(int, float const*)", "cudnn::wgrad"),
        ("ampere_sgemm_128x128_tn", "ampere_sgemm_128x128_tn"),
        ("void at::native::(anonymous namespace)::f<float>(int)", "at::native::::f"),
        ("(odd)", "(odd)"),
    ],
)
def test_kernels_are_named_shortly(name: str, short: str):
    assert shorten_kernel_name(name) == short
