"""Decoding of the stack samples that the probe writes."""

import numpy as np

from whyidle.probe.core import sampler
from whyidle.readers.probe import samples as _samples


def test_what_a_sample_says_beside_its_wait():
    words = 900 | 1 << _samples.HELD_BITS, 140 | 2 << _samples.HELD_BITS | _samples.AWAKE, 300
    recorded = np.zeros(3, _samples.SAMPLE)
    recorded["held"], recorded["time"], recorded["thread"] = words, 50, (9, 4, 9)
    rows = _samples.decode_samples(recorded, np.array([4, 9], np.uint64), base=20)
    assert rows["waited_us"].tolist() == [900, 140, 300]
    assert rows["sleeps"].tolist() == [1, 2, 0]
    assert rows["awake"].tolist() == [False, True, False]
    assert rows["thread"].tolist() == [1, 0, 1]
    assert rows["time"].tolist() == [30, 30, 30]


def test_the_probe_writes_what_is_read_here():
    assert (_samples.HELD_BITS, _samples.AWAKE) == (sampler.HELD_BITS, sampler.AWAKE)
    assert sampler.MOST_SLEEPS << sampler.HELD_BITS | sampler.LONGEST_US == sampler.AWAKE - 1
