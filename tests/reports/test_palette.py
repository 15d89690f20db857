"""The eight buckets can be told apart by everybody, on white and on near-black."""

from itertools import combinations

import numpy as np
import pytest

from whyidle.model.buckets import BUCKETS
from whyidle.reports._palette import (
    HOST,
    KERNELS,
    LOOKS,
    relative_luminance,
    text_colour,
)

# Machado, Oliveira, Fernandes 2009, severity 1.0, on linear RGB
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
# Ottosson, Oklab
LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def linear(colour):
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def seen(colour, vision):
    return LAB @ np.cbrt(LMS @ np.clip(VISION[vision] @ linear(colour), 0, 1))


@pytest.mark.parametrize("vision", VISION)
def test_every_two_buckets_stay_apart(vision):
    for a, b in combinations(LOOKS, 2):
        apart = np.linalg.norm(seen(LOOKS[a].colour, vision) - seen(LOOKS[b].colour, vision))
        assert apart > 0.085, (a, b)


def test_every_bucket_has_a_look():
    assert set(LOOKS) == set(BUCKETS)


def contrast(a, b):
    bright, dark = sorted((relative_luminance(a), relative_luminance(b)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colour", [look.colour for look in LOOKS.values()])
def test_buckets_show_on_both_grounds(colour):
    assert contrast(colour, "#ffffff") > 1.7
    assert contrast(colour, "#0f1318") > 2.5


@pytest.mark.parametrize(
    "colour",
    [*(look.colour for look in LOOKS.values()), *(c for _, c in {**KERNELS, **HOST}.values())],
)
def test_text_on_colours_is_readable(colour):
    assert contrast(colour, text_colour(colour)) >= 4.5
