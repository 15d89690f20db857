"""What healing is scored by."""

import msgspec

from clinic.healed import score
from clinic.healing import HARM, Healed


def one(name, gain, oracle, safe=1.0, tried=()):
    return Healed(
        id=name,
        mode="cpu",
        sick=[100.0, 50.0],
        planned=[100.0 * gain, 50.0 * gain],
        safe=[100.0 * safe, 50.0 * safe],
        cured=[100.0 * oracle, 50.0 * oracle] if oracle else [],
        tried=list(tried),
    )


def test_the_plan_is_held_against_the_cure_and_every_safe_fix():
    found = [one("c0011", 2.0, 2.0), one("c0012", 1.5, 2.0, safe=1.8), one("c0013", 1.0, 1.0)]
    told = "\n".join(score(found))
    assert "healed over oracle, median of 2 | 0.75 | 0.50 |" in told
    assert "10th percentile | 0.75 | 0.50 |" in told
    assert "left slower, of 3 | 0 | 0 |" in told


def test_a_healthy_job_that_became_slower_is_harm():
    told = "\n".join(score([one("c0019", 0.9, None, safe=0.5)]))
    assert "left slower, of 1 | 1 | 1 |" in told


def test_harm_is_shown_by_every_pair():
    drifting = msgspec.structs.replace(one("c0019", 0.9, None), planned=[70.0, 51.0])
    told = "\n".join(score([drifting]))
    assert drifting.gain is not None
    assert drifting.gain < HARM
    assert "left slower, of 1 | 0 | 0 |" in told


def test_a_cure_that_needs_consent_is_no_measure_of_a_plan_that_had_none():
    asked = msgspec.structs.replace(one("c0191", 1.0, 3.0), consent="convergence")
    told = "\n".join(score([asked]))
    assert "median of 0 | – |" in told
    assert "left slower, of 1 | 0 | 0 |" in told
