"""What the probe's hooks cost per step, in microseconds: on against off in one process.

Started by ``bench/overhead.py`` with the probe in its environment. Everything that the probe
replaces in PyTorch is found by taking it off once and comparing; then short blocks of steps with
and without it follow each other, and a control of blocks that are both without. Prints JSON.
"""

from __future__ import annotations

import gc
import json
import os
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch.optim import optimizer as optimizers

from overhead_job import network, step_of

BLOCK, SETTLING, GROUP = 12, 3, 20
"""steps of a block, steps not counted after the switch, pairs of blocks of one result"""
ROW, ROWS = 500, 60
"""rounds of the hooks alone in a row, and rows"""
WARM = 110
"""steps before; after so many no batch is being measured from within, as after most steps"""
Places = dict[tuple[int, str], tuple[Any, str, Any]]


def attributes() -> Places:
    """Every attribute of PyTorch's modules and classes, and of ``gc``."""
    warnings.simplefilter("ignore")  # of deprecated names that nobody uses
    modules = [m for name, m in list(sys.modules.items()) if name.split(".")[0] == "torch"]
    owners = {id(one): one for one in [gc, *modules] if one is not None}
    for module in modules:
        for value in list(vars(module).values() if hasattr(module, "__dict__") else ()):
            if isinstance(value, type) and value.__module__.startswith("torch"):
                owners[id(value)] = value
    return {
        (id(owner), name): (owner, name, value)
        for owner in owners.values()
        for name, value in list(vars(owner).items())
    }


class Switch:
    """Puts everything that the probe has replaced on and off."""

    def __init__(self, loop: Any) -> None:
        on, hooks_on, gc_on = attributes(), self._hooks(), list(gc.callbacks)
        listeners = {listener.listener for listener in loop.listeners}
        for name in list(loop.undo)[::-1]:
            # without "compile" hooks would ask in every step whether it traces; listeners hear
            # nothing while the hooks are off
            if name != "compile" and name not in listeners:
                loop.undo.pop(name)()
        off, hooks_off, gc_off = attributes(), self._hooks(), list(gc.callbacks)
        self.changed = [
            (owner, name, value, off[key][2])
            for key, (owner, name, value) in on.items()
            if key in off and off[key][2] is not value and callable(value)
        ]
        self.hooks, self.callbacks = (hooks_off, hooks_on), (gc_off, gc_on)

    def only(self, step: Callable[[], None]) -> None:
        """Switch only what a step calls from now on: to set an attribute of a class, a module's
        say, empties what Python has cached of it and of all its heirs, which no job does."""
        self.turn(True)
        called = set()
        sys.setprofile(lambda frame, *_: called.add(frame.f_code))
        try:
            step()
        finally:
            sys.setprofile(None)
        self.changed = [one for one in self.changed if getattr(one[2], "__code__", None) in called]

    @staticmethod
    def _hooks() -> list[dict[Any, Any]]:
        return [
            dict(optimizers._global_optimizer_pre_hooks),
            dict(optimizers._global_optimizer_post_hooks),
        ]

    def turn(self, on: bool) -> None:
        """Everything on, or everything off."""
        for owner, name, with_probe, without in self.changed:
            setattr(owner, name, with_probe if on else without)
        live = (optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks)
        for target, kept in zip(live, self.hooks[on], strict=True):
            target.clear()
            target.update(kept)
        gc.callbacks[:] = self.callbacks[on]


def block(step: Callable[[], None]) -> list[float]:
    """Lengths of the steps of a block, s; of the first ones, which follow the switch, none."""
    lengths = []
    for _ in range(BLOCK):
        begin = time.perf_counter()
        step()
        lengths.append(time.perf_counter() - begin)
    return lengths[SETTLING:]


def undisturbed(lengths: list[float]) -> float:
    """Their lower quartile: above it stands what else the machine was doing."""
    return statistics.quantiles(lengths, n=4)[0]


def added(switch: Switch, step: Callable[[], None], on: bool) -> tuple[float, float]:
    """How much longer steps are with the probe, s, and their length without: of ``GROUP`` pairs of
    blocks in random order. ``on`` false: a control, nothing against nothing."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(GROUP):
        for state in random.sample((True, False), 2):
            switch.turn(state and on)
            found[state] += block(step)
    return undisturbed(found[True]) - undisturbed(found[False]), undisturbed(found[False])


def own(loop: Any, switch: Switch) -> list[float]:
    """What the hooks of a step take inside themselves, us, of rows of steps: all that they use is
    in the processor's caches then, which a job's own work has emptied."""

    class Batches:
        def __next__(self) -> None:
            return None

    batches, calls = Batches(), SimpleNamespace(backward=lambda: None)
    off = [partial(Batches.__next__, batches), calls.backward]
    hooks = "_whyidle_probe.frameworks.torch."
    sys.modules[f"{hooks}input_waits"].measure_input_waits(loop, Batches)
    sys.modules[f"{hooks}step_hooks"]._wrap_backward(loop, calls)
    (optimizer,) = [one for one in gc.get_objects() if isinstance(one, torch.optim.AdamW)]
    around = [hook for hooks in switch.hooks[True] for hook in hooks.values()]
    on = [
        partial(Batches.__next__, batches),
        calls.backward,
        *(partial(hook, optimizer, (), {}) for hook in around),
    ]
    switch.turn(True)
    return [1e6 * (row(on) - row(off)) for _ in range(ROWS)]


def row(calls: list[Callable[[], Any]]) -> float:
    """Seconds that all of them take together, one round after the other."""
    begin = time.perf_counter()
    for _ in range(ROW):
        for call in calls:
            call()
    return (time.perf_counter() - begin) / ROW


def watched() -> tuple[Any, Callable[[], None]]:
    """The probe's loop of this process, and a small training step that it has seen for a while."""
    torch.set_num_threads(1)
    step = step_of(network(16), 4)
    for _ in range(WARM):
        step()
    time.sleep(0.5)
    (loop,) = [thing for thing in gc.get_objects() if type(thing).__name__ == "Events"]
    return loop, step


def main() -> None:
    loop, step = watched()
    switch = Switch(loop)
    switch.only(step)
    told: dict[str, list[float]] = {"hooks": [], "control": []}
    lengths = []
    until = time.perf_counter() + float(os.environ["JOB_SECONDS"])
    while time.perf_counter() < until or len(lengths) < 8:
        for kind, on in (("hooks", True), ("control", False)):
            more, length = added(switch, step, on)
            told[kind].append(more * 1e6)
            lengths.append(length * 1e6)
    told["own"] = own(loop, switch)
    length = statistics.median(lengths)
    print(json.dumps({"added_us": told, "step_us": length, "replaced": len(switch.changed)}))


if __name__ == "__main__":
    main()
