"""The emulated device's account becomes shares of the steady part of a run."""

import json

import pytest

from clinic import truth
from clinic.times import Times
from clinic.typed import environment

S = 1_000_000_000


def account(*busy):
    streams = [{"number": 0, "busy": [[int(a * S), int(b * S), kind, 1, 0] for a, b, kind in busy]}]
    return json.dumps({"schema": "whyidle/emulated/1", "devices": [{"streams": streams}]}).encode()


TIMES = Times(begin=0.0, marks=[10.0, 15.0, 20.0], samples=1)  # steady: 12 to 20


def test_a_moment_is_given_to_one_bucket():
    text = account((11, 14, "compute"), (13, 16, "communication"), (15, 18, "copy_in"))
    assert truth.shares([text], TIMES) == pytest.approx(
        {"compute": 2 / 8, "communication": 2 / 8, "transfer": 2 / 8}
    )


def test_devices_are_averaged_and_none_is_nothing():
    found = truth.shares([account((12, 20, "compute")), account((12, 16, "compute"))], TIMES)
    assert found["compute"] == pytest.approx(0.75)
    assert truth.shares([], TIMES) is None


def test_settings_of_the_device_travel_in_the_environment():
    told = environment({"%peak_flops": 2e9, "%clocks": "[[0, 0.5, 4]]", "width": 3})
    assert json.loads(told["WHYIDLE_EMULATED"]) == {"peak_flops": 2e9, "clocks": [[0, 0.5, 4]]}
