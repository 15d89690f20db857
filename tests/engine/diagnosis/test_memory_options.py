"""Options of other settings, on a look made by hand."""

import math
import random

import pytest

from whyidle.analysis.memory_plan import MemoryPlan, estimate_noise
from whyidle.engine.diagnosis.memory_options import OptionList
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
        "times": ((8, 0.3), (16, 0.5), (8, 0.31), (16, 0.52)),
        "module_times": (0.1, 0.02, 0.06),
        "part_size": 2, "products": ((2.0, 1.0), (1.0, 2.0)) * 2,
    }  # fmt: skip
    return MemoryLook(**(values | changes))


def options(**changes):
    found = OptionList(MemoryPlan(look(**changes), step_s=0.4))
    return {option.summary: option for option in found.build_options()}, found


def test_peak_and_step_of_another_batch():
    listed, _ = options()
    assert listed["batch of 32"].peak == 30 * MB + 64 * MB
    assert listed["batch of 32"].step_s == pytest.approx(0.4 + 0.6)
    assert listed["batch of 32"].samples_per_s == pytest.approx(32.0)
    assert listed["batch of 16"].fits
    assert not listed["batch of 32"].far


def test_the_jobs_own_passes_calibrate_those_of_the_look():
    # the job's pass takes 0.36 s where the look's takes 0.3 s, and the rest of its step 0.04 s
    listed, _ = options(job_shares=(0.9, 0.1))
    assert listed["batch of 8 (now)"].step_s == pytest.approx(0.4)
    assert listed["batch of 16"].step_s == pytest.approx(0.04 + 1.2 * 0.5)


def test_page_faults_grow_with_what_a_pass_holds():
    # before the look 10 ms a step in its passes and 2 ms in its rest, after it none
    listed, _ = options(job_shares=(0.75, 0.25), job_faults_s=(0.01, 0.002))
    held = [listed[name].peak - 30 * MB for name in ("batch of 8 (now)", "batch of 16")]
    assert held[0] < held[1]
    assert listed["batch of 8 (now)"].step_s == pytest.approx(0.4 + 0.012)
    assert listed["batch of 16"].step_s == pytest.approx(0.602 + 0.01 * held[1] / held[0])


def test_page_faults_of_a_size_in_the_look_are_the_least_of_it():
    seen = ((8, 0.001), (8, 0.0), (16, 0.03), (16, 0.02))
    listed, _ = options(job_shares=(0.75, 0.25), job_faults_s=(0.01, 0.0), fault_times=seen)
    assert listed["batch of 8 (now)"].step_s == pytest.approx(0.4 + 0.01)
    assert listed["batch of 16"].step_s == pytest.approx(0.6 + 0.02)
    assert listed["batch of 32"].step_s == pytest.approx(1.0 + 0.06)


def test_a_third_size_decides_what_lies_beyond_the_second():
    third = {"times": ((8, 0.3), (16, 0.5), (32, 1.0))}
    listed, found = options(**third)
    assert listed["batch of 16"].step_s == pytest.approx(0.6)
    assert found.at_batch(24).step_s == pytest.approx(0.4 + 0.45)
    assert found.at_batch(64).step_s == pytest.approx(0.4 + 1.7)


def test_what_does_not_fit_is_said():
    listed, found = options(free_bytes=20 * MB)
    # 40 MB are held, and 18 of the 20 free ones may be used
    assert found.plan.usable == 58 * MB
    assert not listed["batch of 16"].fits
    assert found.plan.largest_batch() == 14


def test_the_module_with_most_peak_for_least_time_comes_first():
    listed, found = options()
    assert found.recomputable[0] == [1]  # a takes a third of the time of b
    one = next(o for o in listed.values() if o.change == "recomputation")
    assert one.modules == ["a"]
    assert one.peak == 30 * MB + 8 * MB + 8 * MB or one.peak < 46 * MB
    assert one.step_s == pytest.approx(0.4 + 0.02)


def test_batch_norm_forbids_accumulation():
    _, found = options(modules=(("Net", "Net"), ("a", "BatchNorm2d"), ("b", "Linear")))
    assert "statistics over the parts" in found.why_no_accumulation()


@pytest.mark.parametrize(("whole", "declined"), [((1.0, 1.0, 1.0), False), ((2.0, 2.0, 9.0), True)])
def test_parts_must_make_the_whole(whole, declined):
    products = ((1.0, 1.0), (1.0, 1.0))
    _, found = options(products=products, whole_products=whole)
    assert ("no mean over samples" in found.why_no_accumulation()) == declined


def test_the_proposed_batch_is_the_smallest_near_the_best_rate():
    times = ((8, 0.3), (16, 0.5), (32, 0.9), (64, 1.75))
    _, found = options(free_bytes=10_000 * MB, times=times)
    best = found.best_batch
    rate = 64 / 1.85
    assert best.samples_per_s >= 0.97 * rate
    smaller = found.at_batch(round(best.batch / 2**0.5))
    assert smaller.samples_per_s < 0.97 * rate


def test_a_batch_that_was_not_timed_is_not_proposed():
    _, found = options(free_bytes=10_000 * MB)
    assert found.best_batch.batch == 16


def test_no_batch_below_the_measured_ones_is_proposed():
    # twice the batch takes more than twice the time, so that a line falls below zero
    slowing = look(times=((8, 0.1), (16, 0.3)), free_bytes=10_000 * MB)
    assert OptionList(MemoryPlan(slowing, step_s=0.1)).best_batch.batch == 8


def test_without_times_no_batch_is_proposed():
    _, found = options(times=())
    assert found.best_batch is None


def test_with_one_recorded_size_only_steps_of_others_are_known():
    listed, _ = options(replays=(recorded(8),))
    peaks = {o.batch: o.peak for o in listed.values() if o.change == "batch"}
    assert [batch for batch, peak in peaks.items() if peak] == [8]
    assert listed["batch of 16"].step_s == pytest.approx(0.6)


def made_products(phi, seed, parts=8, size=4, dimensions=400):
    """Products of the gradients of parts, made with a known noise scale."""
    draw = random.Random(seed)
    mean = [1.0 / math.sqrt(dimensions)] * dimensions
    spread = math.sqrt(phi / dimensions / size)
    grads = [[m + draw.gauss(0, spread) for m in mean] for _ in range(parts)]
    return tuple(
        tuple(sum(a * b for a, b in zip(one, two, strict=True)) for two in grads) for one in grads
    )


def test_gradients_without_a_common_direction_bound_no_noise_scale():
    products = [[1.0 if i == j else -0.2 for j in range(4)] for i in range(4)]
    assert estimate_noise(look(part_size=4, products=products)) is None


@pytest.mark.parametrize("phi", [5.0, 20.0, 200.0])
def test_the_noise_scale_is_in_its_interval(phi):
    hits = 0
    for seed in range(10):
        found = estimate_noise(look(part_size=4, products=made_products(phi, seed)))
        hits += found.low <= phi <= found.high
    assert hits >= 9
