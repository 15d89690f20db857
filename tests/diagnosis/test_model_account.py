"""The model's section: what is predicted of swaps, and when nothing is."""

import pytest
from msgspec import structs

from whyidle.analysis.device import model_account
from whyidle.model.model_look import ModelLook, SwapTimes
from whyidle.reports._report import describe_swap

LOOK = ModelLook(
    state="measured",
    device="cuda",
    batch=8,
    modules=(("net", "Net"), ("net.a", "Conv2d"), ("net.b", "ReLU")),
    passes=(0.1, 0.1),
    calls=((1, 2, 0.02, 0.04, 1e9, 1_000_000), (2, 2, 0.01, 0.03, 0.0, 10_000_000)),
    peak_flops=1e11,
    peak_bytes=1e9,
)


def built(look, passes=1):
    return model_account.describe_look(look, 0.2, passes)


def swapped(pairs, kind="channels_last", **fields):
    return structs.replace(LOOK, swaps=(SwapTimes(kind=kind, pairs=pairs, **fields),))


def test_layers_by_share_and_distance_to_the_roofline():
    model = built(LOOK)
    first, second = model.layers
    assert (first.name, first.share) == ("net.a", pytest.approx(0.6))
    assert first.attained == pytest.approx(3e9 / 1e11 / 0.06)  # bound by computing
    assert second.attained == pytest.approx(3e7 / 1e9 / 0.04)  # and by memory
    assert second.flops is None


def test_a_swap_changes_the_step_by_what_it_saves_in_each_pass():
    pairs = ((0.1, 0.06), (0.1, 0.06), (0.105, 0.063), (0.095, 0.057))
    swap = built(swapped(pairs), passes=2).swaps[0]
    assert swap.step_s == pytest.approx(0.2 - 2 * 0.04)
    # the pass is the whole step, and a twentieth of it is the error
    assert swap.change == pytest.approx((1 / 0.65, 1 / 0.55))
    assert "1.54 to 1.82 times faster" in describe_swap(swap)
    assert "compare losses" in describe_swap(swap)


def test_what_a_swap_saves_is_a_share_of_the_jobs_own_passes():
    # a pass takes 0.1 s in the look, and those of the step of 0.2 s take three quarters of it
    swap = built(structs.replace(swapped(((0.1, 0.06),) * 5), job_shares=(0.7, 0.25))).swaps[0]
    assert swap.step_s == pytest.approx(0.2 * (0.25 + 0.75 * 0.6))


def test_a_slower_layer_is_called_slower():
    pairs = ((0.1, 0.14), (0.1, 0.15), (0.1, 0.14), (0.1, 0.16))
    swap = built(swapped(pairs)).swaps[0]
    assert swap.change[1] < 1.0
    assert "times slower" in describe_swap(swap)


@pytest.mark.parametrize(
    "pairs",
    [
        (),
        ((0.1, 0.05),) * 3,
        ((0.1, 0.096),) * 5,
        ((0.1, 0.08), (0.1, 0.12), (0.1, 0.09), (0.1, 0.13)),
    ],
)
def test_nothing_is_said_within_the_noise_or_of_few_pairs(pairs):
    swap = built(swapped(pairs)).swaps[0]
    assert swap.change is None
    assert "beyond the noise" in describe_swap(swap)


def test_what_does_not_fit_or_was_not_repeated_is_said():
    swap = built(swapped((), failed="RuntimeError: size")).swaps[0]
    assert "not applicable to this model" in describe_swap(swap)
    late = built(ModelLook(state="the model is compiled"))
    assert "the model is compiled" in late.unknown[0]
    assert late.layers == []
