"""Options of other settings, on a look made by hand."""

import pytest
from msgspec import structs

from whyidle.analysis.memory.memory_plan import MemoryPlan
from whyidle.diagnosis.memory_account import OptionList
from whyidle.model.memory_look import MemoryLook, RecordedPass

MB = 1_000_000


def recorded(batch, kept=1 * MB):
    """Two modules that keep ``kept`` bytes a sample each."""
    rows = ((10, 1, kept * batch), (20, 2, kept * batch), (30, 2, -kept * batch),
            (40, 1, -kept * batch))  # fmt: skip
    marks = ((1, 25, 0, 0), (10, 15, 0, 1), (20, 24, 0, 2), (30, 30, 1, 2), (40, 40, 1, 1))
    saved = ((1, kept * batch, 1), (2, kept * batch, 2))
    return RecordedPass(batch, rows, marks, saved)


def look(**changes):
    values = {
        "state": "measured", "device": "cpu", "batch": 8,
        "parameters": 10 * MB, "gradients": 10 * MB,
        "optimizer": 20 * MB, "buffers": 0, "batch_bytes": 0, "results": 0, "others": 0,
        "free_bytes": 60 * MB, "kept_gradients": False,
        "modules": (("Net", "Net"), ("a", "Linear"), ("b", "Linear")),
        "replays": (recorded(8), recorded(16)),
        "times": ((8, 0.3),),
        "module_times": (0.1, 0.02, 0.06),
    }  # fmt: skip
    return MemoryLook(**(values | changes))


def options(**changes):
    found = OptionList(MemoryPlan(look(**changes), step_s=0.4))
    return {option.summary: option for option in found.build_options()}, found


def test_peak_and_step_of_another_batch():
    listed, _ = options()
    assert listed["batch of 32"].peak == 30 * MB + 64 * MB
    assert listed["batch of 32"].step_s is None
    assert listed["batch of 8 (now)"].step_s == pytest.approx(0.4)
    assert listed["batch of 16"].fits
    assert not listed["batch of 32"].far


def test_what_does_not_fit_is_said():
    listed, found = options(free_bytes=20 * MB)
    # 40 MB are held, and 18 of the 20 free ones may be used
    assert found.plan.usable == 58 * MB
    assert not listed["batch of 16"].fits
    assert found.plan.largest_batch() == 8  # of 14: a multiple of 8
    assert options(free_bytes=2 * MB)[1].plan.largest_batch() == 5


def test_the_module_with_most_peak_for_least_time_comes_first():
    listed, found = options()
    assert found.recomputable[0] == [1]  # a takes a third of the time of b
    one = next(o for o in listed.values() if o.change == "recomputation")
    assert one.modules == ["a"]
    assert one.peak == 30 * MB + 8 * MB + 8 * MB or one.peak < 46 * MB
    assert one.step_s == pytest.approx(0.4 + 0.02)


def test_one_recorded_step_is_scaled_by_what_grows_with_the_batch():
    fixed = recorded(8)
    rows = (*fixed.rows[:2], (25, 3, 5 * MB), *fixed.rows[2:], (50, 3, -5 * MB))
    alone = structs.replace(fixed, rows=rows, grows=(0, 1, 3, 4))
    listed, found = options(replays=(alone,))
    assert listed["batch of 8 (now)"].peak == 30 * MB + 16 * MB + 5 * MB
    assert listed["batch of 32"].peak == 30 * MB + 64 * MB + 5 * MB
    assert not listed["batch of 32"].far
    assert found.at_batch(64).far
    assert found.at_batch(8 * 17).peak is None


def test_a_step_whose_batch_is_not_known_has_a_peak_and_no_options():
    plan = MemoryPlan(look(batch=None, replays=(structs.replace(recorded(8), batch=0),)))
    assert plan.peak_at(0) == 30 * MB + 16 * MB
    assert plan.peak_at(16) is None
    assert OptionList(plan).build_options() == []


def test_a_device_that_is_planned_for_is_the_limit():
    listed, found = options(target=50 * MB, floating=10 * MB, module_parameters=(0, 6 * MB, 4 * MB))
    assert found.plan.limit == 50 * MB
    assert not listed["batch of 8 (now)"].fits  # 46 MB of 45
    half = next(option for option in listed.values() if option.change == "precision")
    assert half.peak == 23 * MB
    # the optimizer's 20 MB halved; stage 3 gathers two modules
    assert listed["ZeRO-1 over 2 ranks"].peak == 36 * MB
    assert listed["ZeRO-3 or FSDP over 2 ranks"].peak == (30 // 2 + 12 + 16) * MB


def test_on_a_cpu_the_process_is_what_counts():
    process = {"process_begin": 300 * MB, "process_bytes": 324 * MB}
    listed, found = options(**process)  # 16 MB of tensors took 24 MB
    assert listed["batch of 8 (now)"].peak == 324 * MB
    assert listed["batch of 16"].peak == 348 * MB
    assert found.plan.limit == 360 * MB
    assert options(**process, target=50 * MB)[0]["batch of 8 (now)"].peak == 46 * MB
