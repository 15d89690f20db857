"""What a thread was doing at each stack sample: an operator, Python, or a wait."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.arrays import I64, Mask
from whyidle.analysis.sampling.gil_waits import (
    LONG_WAIT_US,
    LeafFrames,
    find_sleepers,
    is_asleep_locked,
    match_role,
    sum_sleep,
)
from whyidle.model.cause import MOSTLY
from whyidle.model.frames import INSTALLED
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind, Timeline

_NATIVE: Final = re.compile(
    rf"{INSTALLED}(numpy|scipy|pandas|sklearn|PIL|cv2|matplotlib|librosa|skimage|pyarrow|h5py|tokenizers)/"
    r"|lib/python3\.\d+/(?!site-packages|dist-packages)"
)
"""code that is no framework operator, even while it runs without the GIL"""
_WAITS: Final = re.compile(
    r"lib/python3\.\d+t?/(socket\.py\(\d+\): (readinto|create_connection|accept|sendfile)"
    r"|ssl\.py\(\d+\): (read|recv|recv_into|write|send|do_handshake)"
    r"|selectors\.py\(\d+\): select|subprocess\.py\(\d+\): (_try_wait|_communicate)"
    r"|threading\.py\(\d+\): (wait|_wait_for_tstate_lock)"
    r"|multiprocessing/(connection\.py\(\d+\): _recv|popen_fork\.py\(\d+\): poll))$"
)
"""innermost functions that wait in a system call while the GIL is free, however briefly"""
_LIBRARY: Final = re.compile(r"(^|/)((site|dist)-packages|lib/python3\.\d+t?)/|//|^<frozen ")
"""code that is not the user's own"""


def runs_operators_alone(timeline: Timeline) -> bool:
    """Return whether the operators of a process run on the calling CPU thread alone."""
    return is_single_process(timeline) and timeline.process.operator_threads == 1


def is_single_process(timeline: Timeline) -> bool:
    """Return whether operators run on the CPU and wait for no other rank."""
    return timeline.process.device == "cpu" and (timeline.world_size or 1) == 1


def classify_samples(
    timeline: Timeline,
    samples: NDArray[Any],
    read: I64,
    stacks: list[str],
    *,
    idle: Mask,
    ran: Mask,
) -> tuple[I64, Mask, Mask]:
    """Return the kind of every sample, whether its thread waited in a call, and whether it slept
    while the GIL was taken. A native operator releases the GIL and keeps its thread busy.

    Samples are by time, with the stacks of the moments that they represent; ``read`` is when they
    were taken, ns. The last of ``stacks`` is unknown. ``idle`` samples found a thread that was
    hardly awake until the next one, ``ran`` samples found Python running.
    """
    numbers = samples["stack"]
    leaf = [stack.split(";", 1)[0] for stack in stacks]
    frames = LeafFrames.match_lines(timeline.vocabulary, leaf)
    native = match_role(timeline.vocabulary, Role.GENERATED_FRAME, leaf)[numbers]
    held = (samples["waited_us"] >= LONG_WAIT_US) & ~native
    stuck, blocked = find_sleepers(samples, read, frames, held, idle)
    system_waits = _match_lines(_WAITS, leaf)[numbers] & ~held & ~stuck
    python = ran & ~native
    blocked = blocked & ~samples["awake"]  # such a thread slept later, before the next sample
    slept = sum_sleep(samples, read)
    if runs_operators_alone(timeline):
        operators = frames.operator[numbers]
        if is_asleep_locked(slept, python, ~python & ~operators):
            stuck = stuck | python
        blocked = blocked & ~operators & ~stuck
    elif is_single_process(timeline):
        blocked &= ~match_role(timeline.vocabulary, Role.COMPUTE_FRAME, leaf)[numbers]
    other_waits = blocked & ~system_waits
    if slept - system_waits.sum() - stuck.sum() < MOSTLY * other_waits.sum():
        blocked = blocked & system_waits  # other samples account for its sleep
    blocked = blocked | system_waits
    blocked = blocked | (_find_waiting_calls(timeline, numbers, stacks, blocked) & ~stuck)
    work = ~python & ~blocked & ~_match_lines(_NATIVE, leaf)[numbers]
    return np.where(work, HostKind.OP, HostKind.PYTHON).astype(np.int64), blocked, stuck


def _match_lines(pattern: re.Pattern[str], leaf: list[str]) -> Mask:
    return np.array([bool(pattern.search(text)) for text in leaf], dtype=bool)


def _find_waiting_calls(timeline: Timeline, numbers: I64, stacks: list[str], blocked: Mask) -> Mask:
    """Samples inside library calls that wait at half of their samples or more, and never enter the
    framework: without the call its Python would disappear, too."""
    if not blocked.any():
        return blocked
    paths, foreign = _number_calls(timeline, stacks, np.unique(numbers).tolist())
    totals: defaultdict[int, int] = defaultdict(int)
    waiting: defaultdict[int, int] = defaultdict(int)
    for number, waits in zip(numbers.tolist(), blocked.tolist(), strict=True):
        for node in paths[number]:
            totals[node] += 1
            waiting[node] += waits
    calls = {
        node
        for node, count in waiting.items()
        if node in foreign and count >= MOSTLY * totals[node]
    }
    inside = np.zeros(len(stacks), dtype=bool)
    inside[[number for number, path in paths.items() if not calls.isdisjoint(path)]] = True
    waiting_samples: Mask = inside[numbers]
    return waiting_samples


def _number_calls(
    timeline: Timeline, stacks: list[str], numbers: list[int]
) -> tuple[dict[int, list[int]], set[int]]:
    """Numbered calls of each stack, and library calls that never enter the framework."""
    known: dict[tuple[int, str], int] = {}
    paths: dict[int, list[int]] = {}
    libraries: set[int] = set()
    entering_framework: set[int] = set()
    for number in numbers:
        parent, path = -1, []
        for text in filter(None, stacks[number].split(";")[::-1]):
            parent = known.setdefault((parent, text), len(known))
            path.append(parent)
            if _LIBRARY.search(text):
                libraries.add(parent)
            if timeline.vocabulary.plays(Role.FRAMEWORK_CODE, text):
                entering_framework.update(path)
        paths[number] = path
    return paths, libraries - entering_framework
