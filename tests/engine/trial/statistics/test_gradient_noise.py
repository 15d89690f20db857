"""The gradient noise scale, against jobs whose scale is known."""

import math
import random

import pytest

from whyidle.engine.trial.arms.process_report import ProcessReport
from whyidle.engine.trial.statistics.gradient_noise import NoiseScale, estimate_scale

torch = pytest.importorskip("torch")

from whyidle.probe.frameworks.torch import trial_state  # noqa: E402
from whyidle.probe.trial.gradient_noise import GradientNoise  # noqa: E402

PARAMETERS, SPREAD, MEAN = 50, 0.3, 0.1
"""of the gradient of one sample: standard deviation of each element, and its mean"""
TRUE = SPREAD**2 / MEAN**2


def gradients(size, steps=400, seed=1):
    """What is seen of batches of ``size`` samples, by the real code."""
    torch.manual_seed(seed)
    weights = [torch.nn.Parameter(torch.zeros(PARAMETERS // 2)) for _ in range(2)]
    optimizer = torch.optim.SGD([*weights, torch.nn.Parameter(torch.zeros(3))], lr=0.0)
    noise = GradientNoise()
    for _ in range(steps):
        for weight in weights:
            weight.grad = MEAN + SPREAD / math.sqrt(size) * torch.randn(PARAMETERS // 2)
        optimizer.step()
        noise.note_step(trial_state.gradients(optimizer))
    return noise.noise_terms()


def told(size, noise, world=1):
    marks = [int(1e7 * i) for i in range(100)]
    samples = [size * (i + 1) for i in range(100)]
    return ProcessReport("stopped", 0, marks, [], world=world, samples=samples, noise=noise)


@pytest.mark.parametrize("size", [1, 8, 32])
def test_it_is_the_same_whatever_the_batch_it_is_seen_with(size):
    found = estimate_scale(told(size, gradients(size)))
    assert found.low <= TRUE <= found.high
    assert found.high < 2.0 * found.low
    assert found.size == size


def test_its_interval_holds_what_is_true_about_as_often_as_it_says():
    found = [estimate_scale(told(8, gradients(8, 60, seed))) for seed in range(100)]
    assert 88 <= sum(one.low <= TRUE <= one.high for one in found) <= 100


def test_of_several_ranks_all_samples_count():
    """Gradients are the mean of the ranks'."""
    found = estimate_scale(told(4, gradients(8), world=2))
    assert found.size == 8
    assert found.low <= TRUE <= found.high


def test_without_any_mean_it_has_no_end():
    chance = random.Random(3)
    found = estimate_scale(told(8, [(2.0, chance.gauss(0, 0.1)) for _ in range(200)]))
    assert found.high == math.inf
    assert found.sample_worth(4.0, found.high) == 1.0
    assert "any number of" in NoiseScale(math.inf, 30.0, math.inf, 8.0).describe_scale(4.0, 2.0)


def test_steps_with_scaled_gradients_that_overflowed_are_left_out():
    noise = gradients(8)
    assert estimate_scale(told(8, [*noise, (math.inf, math.nan)])) == estimate_scale(told(8, noise))


@pytest.mark.parametrize(
    ("size", "steps"), [(8, 0), (0, 60), (8, 12)], ids=["nothing", "no samples", "few"]
)
def test_too_little_is_said_so(size, steps):
    assert estimate_scale(told(size, gradients(8, steps))) is None


def test_what_a_sample_of_a_larger_batch_teaches():
    """Pollux: (scale + b) / (scale + b times as many)."""
    found = NoiseScale(100.0, 50.0, 200.0, 20.0)
    assert found.sample_worth(5.0) == pytest.approx(120 / 200)
    assert (
        found.sample_worth(5.0, found.low)
        < found.sample_worth(5.0)
        < found.sample_worth(5.0, found.high)
    )
    assert found.sample_worth(1.0) == 1.0
