"""The probe's thread: it looks, it ends when asked, and a process waits for that."""

import os
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

import pytest
import standin

from whyidle.probe.core import sampler as module
from whyidle.probe.core.events import Events
from whyidle.probe.core.recorder import Recorder
from whyidle.probe.core.sampler import Sampler

pytestmark = pytest.mark.real_processes("a thread samples beside the test")

SCHEDSTAT = Path("/proc/thread-self/schedstat")
LATE_S = 0.1
"""a thread that has been woken runs within this time, on a busy machine too"""


@pytest.fixture
def recorder(tmp_path):
    return Recorder(str(tmp_path))


@pytest.fixture
def sampler(recorder):
    found = Sampler(recorder, threading.get_ident())
    yield found
    found.stop()


def looking():
    return [f for f in sys._current_frames().values() if f.f_code.co_filename == module.__file__]


def gone():
    """Whether no thread looks any more: it tells that it has ended just before it is gone."""
    until = time.monotonic() + 5
    while looking() and time.monotonic() < until:
        time.sleep(0.001)
    return not looking()


def await_looks(sampler, count):
    until = time.monotonic() + 10
    while sampler.looks < count and time.monotonic() < until:
        time.sleep(0.01)
    assert sampler.looks >= count


def test_a_thread_that_is_asked_to_stop_wakes_at_once_and_is_gone(sampler, recorder, monkeypatch):
    monkeypatch.setattr(module, "WAITING_S", 60.0)
    sampler.start()
    until = time.monotonic() + 10
    while not looking() and time.monotonic() < until:
        time.sleep(0.01)
    assert looking()
    begin = time.monotonic()
    assert sampler.stop()
    assert time.monotonic() - begin < LATE_S
    assert gone()
    assert not recorder.samples
    assert sampler.stop()  # nothing to do any more


def test_what_it_saw_is_kept(sampler, recorder, monkeypatch):
    monkeypatch.setattr(module, "WAITING_S", 0.005)
    sampler.start()
    await_looks(sampler, 3)
    assert sampler.stop()
    assert len(recorder.samples) == sampler.looks


def test_a_thread_that_hangs_in_a_write_delays_the_end_for_a_moment_only(recorder, monkeypatch):
    monkeypatch.setattr(module, "PARTING_S", 0.05)
    monkeypatch.setattr(module, "WAITING_S", 0.001)
    monkeypatch.setattr(module, "FLUSH_S", 0.0)
    loop = Events(recorder, standin.Framework())
    recorder._lock.acquire()  # as a write that does not come back
    loop.sampler = Sampler(recorder, threading.get_ident())
    loop.sampler.start()
    await_looks(loop.sampler, 1)
    begin = time.monotonic()
    loop.finish_recording()
    assert 0.05 <= time.monotonic() - begin < 0.05 + LATE_S
    recorder._lock.release()


@pytest.mark.skipif(not SCHEDSTAT.exists(), reason="the kernel does not tell what a thread does")
def test_a_thread_that_works_is_waited_for(recorder, monkeypatch):
    """It may only be slow, on a machine that is busy; killed in C code it would end the process.
    On such a machine it must have run within each ``PARTING_S``, so that is not too short here."""
    monkeypatch.setattr(module, "PARTING_S", 0.25)
    monkeypatch.setattr(module, "CHORES_S", 0.0)
    ends, working = [], threading.Event()

    def chore():
        working.set()
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            sum(range(1000))
        ends.append(time.monotonic())

    recorder.facts = {"pid": os.getpid()}
    sampler = Sampler(recorder, threading.get_ident(), [chore])
    sampler.start()
    assert working.wait(10)
    assert sampler.stop()
    assert ends
    assert gone()


@pytest.mark.skipif(not SCHEDSTAT.exists(), reason="the kernel does not tell what a thread does")
def test_a_thread_that_works_for_ever_is_not(recorder, monkeypatch):
    monkeypatch.setattr(module, "PARTING_S", 0.05)
    monkeypatch.setattr(module, "LAST_S", 0.1)
    monkeypatch.setattr(module, "CHORES_S", 0.0)
    working, enough = threading.Event(), threading.Event()

    def chore():
        working.set()
        while not enough.is_set():
            sum(range(1000))

    recorder.facts = {"pid": os.getpid()}
    sampler = Sampler(recorder, threading.get_ident(), [chore])
    sampler.start()
    assert working.wait(10)
    assert not sampler.stop()
    enough.set()
    assert sampler.stop()


def test_finishing_stops_the_thread_and_writes_the_rest_once(recorder, tmp_path):
    loop = Events(recorder, standin.Framework())
    loop.sampler = Sampler(recorder, threading.get_ident())
    loop.sampler.start()
    recorder.facts = {"pid": os.getpid(), "switches": {}}
    recorder.add((1, 2, 3, recorder.name_number("a"), 0))
    loop.finish_recording()
    assert gone()
    (spans,) = tmp_path.glob("*.spans")
    size = spans.stat().st_size
    loop.finish_recording()
    assert spans.stat().st_size == size
    assert not list(tmp_path.glob("*.faults"))


@pytest.mark.skipif(module._THREAD is None, reason="the kernel does not tell what a thread does")
@pytest.mark.parametrize("python", [False, True])
def test_the_kernel_tells_whether_a_look_found_the_lock_taken(sampler, recorder, python):
    done = threading.Event()

    def look():
        while len(recorder.samples) < 40:
            sampler.take_sample(0.002)
        done.set()

    thread = threading.Thread(target=look)
    thread.start()
    while python and not done.is_set():
        sum(range(100))
    assert done.wait(30)
    thread.join()
    sleeps = [row[4] >> module.HELD_BITS for row in recorder.samples]
    assert min(sleeps) >= 1
    assert (sorted(sleeps)[len(sleeps) // 2] > 1) == python
    assert all(row[4] & module.LONGEST_US < 10_000_000 for row in recorder.samples)


def looks_at(sampler, recorder, turn, count=60):
    """What looks at a thread tell that does something again and again: for the last line of each,
    whether the kernel said that it was awake."""
    done = threading.Event()

    def work():
        while not done.is_set():
            turn()

    thread = threading.Thread(target=work)
    thread.start()
    sampler.follow(thread.ident)
    while len(recorder.samples) < count:
        sampler.take_sample(0.01)
    done.set()
    thread.join()
    stacks = list(recorder.stacks)
    return [
        (stacks[stack].split(";")[0], told & module.AWAKE > 0)
        for _, _, _, stack, told in recorder.samples
    ]


@pytest.mark.skipif(not SCHEDSTAT.exists(), reason="the kernel does not tell what a thread does")
def test_a_thread_that_slept_before_is_asked_whether_it_sleeps_now(sampler, recorder):
    """However the time between two looks was spent. On a machine that is busy a thread is awake
    for a while before it runs."""
    data = bytes(1 << 22)

    def rest():
        time.sleep(0.02)

    def squeeze():
        zlib.compress(data)  # runs for as long without the interpreter's lock

    told = looks_at(sampler, recorder, lambda: (rest(), squeeze()))
    resting = [awake for line, awake in told if line.endswith("rest")]
    squeezing = [awake for line, awake in told if line.endswith("squeeze")]
    assert sum(resting) / len(resting) < 0.7 * sum(squeezing) / len(squeezing)


def test_a_thread_that_never_sleeps_is_not_asked(sampler, recorder):
    data = bytes(1 << 20)
    told = looks_at(sampler, recorder, lambda: zlib.compress(data))
    assert sum(awake for _, awake in told) < len(told) / 2


WAITING = """
import os, signal, sys, threading, time
from whyidle.probe.core.recorder import Recorder
from whyidle.probe.core.sampler import Sampler

sampler = Sampler(Recorder(sys.argv[1]), threading.get_ident())
sampler.start()
while not sampler.begun:
    time.sleep(0.001)
assert not signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.kill(os.getpid(), signal.SIGUSR1)
assert signal.sigwait([signal.SIGUSR1]) == signal.SIGUSR1
sampler.stop()
"""


def test_a_signal_that_the_job_waits_for_comes_to_the_job(tmp_path):
    """It holds it back in all of its threads, as jobs do that a scheduler warns of their end."""
    done = subprocess.run([sys.executable, "-c", WAITING, str(tmp_path)], check=False)
    assert done.returncode == 0
