"""A signal whose exception Python would drop is sent again."""

import signal
import time

import pytest

from whyidle.probe.core.fault_containment import repeat_signal


class LateError(Exception):
    """What the job's own handler raises."""


def raise_late(*_):
    raise LateError


@pytest.fixture
def job_handler():
    before = signal.signal(signal.SIGUSR1, raise_late)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("job_handler")
def test_it_comes_after_the_callback_that_would_drop_it_again():
    left, repeated = [], []

    def callback():
        try:
            signal.raise_signal(signal.SIGUSR1)
        except LateError as error:
            repeated.append(repeat_signal(error, callback.__code__))
        until = time.monotonic() + 0.1
        while time.monotonic() < until:  # the thread that repeats it runs meanwhile
            pass
        left.append(True)

    def go_on():
        callback()
        time.sleep(10)

    begin = time.monotonic()
    with pytest.raises(LateError):
        go_on()
    assert time.monotonic() < begin + 5
    assert (repeated, left) == ([True], [True])


def test_an_error_that_no_handler_raised_is_not_repeated():
    assert not repeat_signal(ValueError(), raise_late.__code__)
