"""What changed between two runs, and whether it is real."""

from __future__ import annotations

import msgspec
import pytest

from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.errors import GateError, InputError
from whyidle.model.diagnosis import Diagnosis, KernelRow
from whyidle.model.documents.comparison import Comparison
from whyidle.runs.compare import check_regression, compare_diagnoses
from whyidle.testing.demo import job


def diagnosed(loader_ms: float) -> Diagnosis:
    return diagnose_job([job(loader_ms=loader_ms).timeline()])


@pytest.fixture(scope="module")
def slow() -> Diagnosis:
    return diagnosed(42.0)


@pytest.fixture(scope="module")
def fast() -> Diagnosis:
    return diagnosed(2.0)


def test_the_leading_change_is_the_one_that_was_made(slow: Diagnosis, fast: Diagnosis):
    found = compare_diagnoses(slow, fast)
    assert found.buckets[0].name == "input"
    assert found.reasons[0].name == "loader"
    assert found.reasons[0].delta_s == pytest.approx(-0.040, rel=0.1)
    assert "dataloader-no-workers" in found.gone
    assert found.step is not None
    assert found.step.real
    assert found.step.ratio < 0.6
    assert found.step.low <= found.step.ratio <= found.step.high


def test_sides_are_named_by_what_was_watched_or_by_the_recording(slow, fast):
    run = msgspec.structs.replace(fast.run, command=["python", "my train.py"], sources=["7.spans"])
    found = compare_diagnoses(slow, msgspec.structs.replace(fast, run=run))
    assert found.after.sources == ["python 'my train.py'"]
    assert found.before.sources == slow.run.sources


def test_what_changed_adds_up_to_the_step(slow: Diagnosis, fast: Diagnosis):
    found = compare_diagnoses(slow, fast)
    assert found.after.step_s is not None
    assert found.before.step_s is not None
    change = found.after.step_s - found.before.step_s
    assert sum(row.delta_s for row in found.buckets) == pytest.approx(change, abs=1e-6)


def test_mirrored(slow: Diagnosis, fast: Diagnosis):
    there, back = compare_diagnoses(slow, fast), compare_diagnoses(fast, slow)
    assert [row.delta_s for row in there.buckets] == pytest.approx(
        [-row.delta_s for row in back.buckets]
    )
    assert there.gone == back.appeared


def test_nothing_changed(slow: Diagnosis):
    found = compare_diagnoses(slow, slow)
    assert found.step is not None
    assert not found.step.real
    assert found.reasons == []
    assert found.kernels == []
    assert "same recording" in " ".join(found.notes)


def test_deterministic_and_round_trips(slow: Diagnosis, fast: Diagnosis):
    text = msgspec.json.encode(compare_diagnoses(slow, fast))
    assert text == msgspec.json.encode(compare_diagnoses(slow, fast))
    assert msgspec.json.encode(msgspec.json.decode(text, type=Comparison)) == text


def test_the_gate(slow: Diagnosis, fast: Diagnosis):
    check_regression(compare_diagnoses(slow, fast), 0.0)
    check_regression(compare_diagnoses(fast, slow), 1000.0)
    with pytest.raises(GateError, match="slower"):
        check_regression(compare_diagnoses(fast, slow), 5.0)


def with_rate(diagnosis: Diagnosis, samples_per_s: float) -> Diagnosis:
    steps = msgspec.structs.replace(diagnosis.steps, samples_per_s=samples_per_s)
    return msgspec.structs.replace(diagnosis, steps=steps)


def test_the_gate_judges_samples_where_batches_differ(slow: Diagnosis, fast: Diagnosis):
    step = compare_diagnoses(fast, slow).step
    assert step is not None
    four_times = compare_diagnoses(with_rate(fast, 100.0), with_rate(slow, 400.0 / step.ratio))
    assert four_times.times_the_samples == pytest.approx(4.0)
    check_regression(four_times, 0.0)
    with pytest.raises(GateError, match="a sample became"):
        check_regression(compare_diagnoses(with_rate(slow, 400.0), with_rate(fast, 100.0)), 0.0)


def test_a_smaller_last_batch_does_not_make_steps_differ(slow: Diagnosis):
    found = compare_diagnoses(with_rate(slow, 100.0), with_rate(slow, 102.0))
    assert found.times_the_samples == 1.0


def without_steps(diagnosis: Diagnosis) -> Diagnosis:
    replace = msgspec.structs.replace
    steps = replace(diagnosis.steps, mean_s=None, detected_by=None)
    return replace(diagnosis, steps=steps)


def test_without_steps_shares_are_compared_and_the_gate_cannot_be(slow: Diagnosis, fast: Diagnosis):
    found = compare_diagnoses(without_steps(slow), fast)
    assert found.step is None
    assert "no step boundaries" in found.notes[0]
    assert abs(sum(row.delta_s for row in found.buckets)) < 1e-6
    with pytest.raises(InputError, match="cannot be evaluated"):
        check_regression(found, 5.0)


def with_kernels(diagnosis: Diagnosis, shares: dict[str, float]) -> Diagnosis:
    rows = [
        KernelRow(
            name=name,
            group="other",
            precision=None,
            tensor_core=None,
            count=1,
            total_s=share,
            share=share,
            mean_us=1.0,
        )
        for name, share in shares.items()
    ]
    detail = msgspec.structs.replace(diagnosis.detail, kernels=rows)
    return msgspec.structs.replace(diagnosis, detail=detail)


def test_a_kernel_beyond_the_end_of_a_cut_table_may_still_have_run(slow: Diagnosis):
    full = {f"k{i}": 0.01 for i in range(60)}
    found = compare_diagnoses(with_kernels(slow, full), with_kernels(slow, {**full, "new": 0.05}))
    assert slow.steps.mean_s is not None
    (new,) = found.kernels
    assert new.name == "new"
    assert new.before_s is None
    assert new.delta_s == pytest.approx(0.04 * slow.steps.mean_s)


def test_a_kernel_that_a_whole_table_does_not_list_did_not_run(slow: Diagnosis):
    found = compare_diagnoses(with_kernels(slow, {"a": 0.1}), with_kernels(slow, {"b": 0.1}))
    assert {(row.name, row.before_s is not None) for row in found.kernels} == {
        ("a", True),
        ("b", True),
    }
    assert [row.before_s for row in found.kernels if row.name == "b"] == [0.0]


def test_operators_that_a_side_did_not_record_are_not_zero(slow: Diagnosis, fast: Diagnosis):
    detail = msgspec.structs.replace(fast.detail, kernels=[])
    without = msgspec.structs.replace(fast, detail=detail)
    for found, side in (
        (compare_diagnoses(slow, without), "B"),
        (compare_diagnoses(without, slow), "A"),
    ):
        assert found.kernels == []
        assert f"kernels and operators of {side} were not recorded" in " ".join(found.notes)
    neither = compare_diagnoses(without, without)
    assert "not recorded" not in " ".join(neither.notes)


def test_operators_of_a_cpu_are_no_kernels(slow: Diagnosis, fast: Diagnosis):
    device = msgspec.structs.replace(fast.device, kind="cpu")
    found = compare_diagnoses(slow, msgspec.structs.replace(fast, device=device))
    assert found.kernels == []
    assert "CPU operators" in " ".join(found.notes)


def test_other_commands_are_told(slow: Diagnosis, fast: Diagnosis):
    def notes(first: list[str] | None, second: list[str] | None) -> str:
        runs = (
            msgspec.structs.replace(one, run=msgspec.structs.replace(one.run, command=command))
            for one, command in ((slow, first), (fast, second))
        )
        return " ".join(compare_diagnoses(*runs).notes)

    assert "the commands differ" in notes(["python", "a.py"], ["python", "b.py"])
    assert "the commands differ" not in notes(["python", "a.py"], ["python", "a.py"])
    assert "the commands differ" not in notes(["python", "a.py"], None)
