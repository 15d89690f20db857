"""What a thread was doing at each stack sample: an operator, Python, or a wait."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.sampling.gil_waits import (
    HALF,
    LONG_WAIT_US,
    find_sleepers,
    is_asleep_locked,
    is_operator,
    match_frames,
    sum_sleep,
)
from whyidle.model.frames import INSTALLED, TORCH
from whyidle.model.timeline import HostKind, Timeline

Mask = NDArray[np.bool_]

_NATIVE: Final = re.compile(
    rf"{INSTALLED}(numpy|scipy|pandas|sklearn|PIL|cv2|matplotlib|librosa|skimage|pyarrow|h5py|tokenizers)/"
    r"|lib/python3\.\d+/(?!site-packages|dist-packages)"
)
"""code that is no operator of the framework, even while it runs outside the interpreter's lock"""
_WAITS: Final = re.compile(
    r"lib/python3\.\d+t?/(socket\.py\(\d+\): (readinto|create_connection|accept|sendfile)"
    r"|ssl\.py\(\d+\): (read|recv|recv_into|write|send|do_handshake)"
    r"|selectors\.py\(\d+\): select|subprocess\.py\(\d+\): (_try_wait|_communicate)"
    r"|threading\.py\(\d+\): (wait|_wait_for_tstate_lock)"
    r"|multiprocessing/(connection\.py\(\d+\): _recv|popen_fork\.py\(\d+\): poll))$"
)
"""a thread whose innermost line of Python is here, the interpreter's lock being free, waits in the
call that this function makes of the system, however short the wait"""
_GENERATED: Final = re.compile(r"/[a-z0-9]{2}/c[a-z2-7]{50,52}\.py\(\d+\): call$")
"""code that Inductor generated: it is the operators, even where it holds the interpreter's lock"""
_OPERATOR: Final = re.compile(r"/torch/(nn/|optim/|autograd/|functional\.py|_tensor\.py)")
"""code of the framework that calls operators, and neither loads nor saves"""
_FRAMEWORK: Final = re.compile(TORCH)
_LIBRARY: Final = re.compile(r"(^|/)((site|dist)-packages|lib/python3\.\d+t?)/|^<frozen ")
"""code that is not the user's own"""


def runs_operators_alone(timeline: Timeline) -> bool:
    """Whether the operators of a process never sleep: they run on the CPU, on the thread that calls
    them, and wait for no other rank."""
    return is_single_process(timeline) and timeline.process.operator_threads == 1


def is_single_process(timeline: Timeline) -> bool:
    """Whether operators run on the CPU and wait for no other rank: one that sleeps then waits for
    threads of its own."""
    return timeline.process.device == "cpu" and (timeline.world_size or 1) == 1


def classify_samples(
    samples: NDArray[Any],
    read: NDArray[np.int64],
    stacks: list[str],
    idle: Mask,
    ran: Mask,
    *,
    alone: bool,
    single: bool = False,
) -> tuple[NDArray[np.int64], Mask, Mask]:
    """Kind of every sample, whether its thread was waiting in a call, and whether it slept while
    the interpreter's lock was taken. A native operator leaves that lock free and keeps its thread
    busy; on a CPU that is the work itself.

    Args:
        samples: by time, with the stacks of what they speak for.
        read: when each sample was taken, ns.
        stacks: as text; the last one is of samples of which none is known.
        idle: samples at a thread that was hardly ever awake until the next one.
        ran: samples that found Python running.
        alone: operators never sleep.
        single: they wait for nothing but their own threads.
    """
    numbers = samples["stack"]
    leaf = [stack.split(";", 1)[0] for stack in stacks]
    native = match_frames(_GENERATED, leaf)[numbers]
    held = (samples["waited_us"] >= LONG_WAIT_US) & ~native
    stuck, blocked = find_sleepers(samples, read, leaf, held, idle)
    waits = match_frames(_WAITS, leaf)[numbers] & ~held & ~stuck
    python = ran & ~native
    blocked = blocked & ~samples["awake"]  # such a thread slept later, before the next look
    slept = sum_sleep(samples, read)
    if alone:
        works = is_operator(leaf)[numbers]
        if is_asleep_locked(slept, python, ~python & ~works):
            stuck = stuck | python
        blocked = blocked & ~works & ~stuck
    elif single:
        blocked = blocked & ~match_frames(_OPERATOR, leaf)[numbers]
    others = blocked & ~waits
    if slept - waits.sum() - stuck.sum() < HALF * others.sum():
        blocked = blocked & waits  # what it slept is found elsewhere
    blocked = blocked | waits
    blocked = blocked | (_find_waiting_calls(numbers, stacks, blocked) & ~stuck)
    work = ~python & ~blocked & ~match_frames(_NATIVE, leaf)[numbers]
    return np.where(work, HostKind.OP, HostKind.PYTHON).astype(np.int64), blocked, stuck


def _find_waiting_calls(numbers: NDArray[np.int64], stacks: list[str], blocked: Mask) -> Mask:
    """Samples inside calls of libraries that mostly wait: whoever makes such a call less often is
    spared the Python in it, too. It waits for at least half of its samples, and the framework has
    no part in it: that would be the training itself. Of the user's own functions each line
    counts."""
    if not blocked.any():
        return blocked
    paths, foreign = _number_calls(stacks, np.unique(numbers).tolist())
    every: defaultdict[int, int] = defaultdict(int)
    waiting: defaultdict[int, int] = defaultdict(int)
    for number, waits in zip(numbers.tolist(), blocked.tolist(), strict=True):
        for node in paths[number]:
            every[node] += 1
            waiting[node] += waits
    calls = {
        node for node, count in waiting.items() if node in foreign and count >= HALF * every[node]
    }
    inside = np.zeros(len(stacks), dtype=bool)
    inside[[number for number, path in paths.items() if not calls.isdisjoint(path)]] = True
    found: Mask = inside[numbers]
    return found


def _number_calls(stacks: list[str], numbers: list[int]) -> tuple[dict[int, list[int]], set[int]]:
    """For some stacks the calls they lie in, outermost first, each with a number; and which of
    these are of libraries and never reach the framework."""
    known: dict[tuple[int, str], int] = {}
    paths: dict[int, list[int]] = {}
    libraries: set[int] = set()
    trains: set[int] = set()
    for number in numbers:
        parent, path = -1, []
        for text in filter(None, stacks[number].split(";")[::-1]):
            parent = known.setdefault((parent, text), len(known))
            path.append(parent)
            if _LIBRARY.search(text):
                libraries.add(parent)
            if _FRAMEWORK.search(text):
                trains.update(path)
        paths[number] = path
    return paths, libraries - trains
