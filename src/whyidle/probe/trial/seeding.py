"""In a trial: what a job would have the system seed is seeded from a count, the same in every arm.

``np.random.default_rng()``, ``random.Random()`` or ``torch.seed()`` take their seed from the
system, so that two runs of the same job differ, and nothing could be held against anything. Here
each such seed is made of the arm's own seed, of who asks (which rank, which worker), and of how
many its module has asked for before: processes stay as different from each other as they would be.
What the script seeds itself, and what is not to be guessed (``secrets``, ``os.urandom``), is as it
was.

Loaded by ``boot/sitecustomize.py`` by its path, before any code of the job, for scripts may draw
before they import a framework: standard library only, and nothing of ours.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import sys
from collections.abc import Callable
from typing import Any

NAME = "_whyidle_unseeded"
NUMPY = "numpy.random.bit_generator"
"""the module in which NumPy asks the system: all of its generators take their seed by way of it"""
PLACES = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
"""by which launchers tell processes apart that are otherwise started alike"""
LEFT_ALONE = ("tempfile",)
"""modules whose numbers only name things: names must differ from process to process"""
OWN = (__name__, NAME, "random")
SPAWNED = "--multiprocessing-fork"
"""the word by which a worker that is spawned knows that it is one"""
MOST_BITS = 512


class SeedSequence:
    """Those of one process, and of the children that it forks."""

    def __init__(self, seed: int, complain: Callable[[Exception], None]) -> None:
        self.seed = seed
        self.complain = complain
        self.failed = False
        places = [os.environ.get(name, "") for name in PLACES]
        words = [
            os.path.basename(word) for word in _command_words()[1:]
        ]  # copies lie in other folders
        self.place = repr((places, words))
        self.process = _process_name()
        self.forks: tuple[int, ...] = ()
        """of children that no module of Python's started: which fork of its parent's each was"""
        self.forked = 0
        self.sown = False
        """whether the job has seeded Python's own generator itself"""
        self.counts: dict[str, itertools.count[int]] = {}
        os.register_at_fork(before=self._before_fork, after_in_child=self._after_fork)

    def _before_fork(self) -> None:
        self.forked += 1

    def _after_fork(self) -> None:
        self.forks, self.forked = (*self.forks, self.forked), 0
        self.counts.clear()
        random.seed()  # as Python itself does, from the system

    def next_bits(self, many: int) -> int:
        """The next seed of so many bits, of the module that asks for it; the system's, should that
        fail."""
        try:
            if not self.failed:
                return self._counted_bits(many)
        except Exception as error:
            self.failed = True
            self.complain(error)
        return random.SystemRandom().getrandbits(many)

    def _counted_bits(self, many: int) -> int:
        process = _process_name()
        if process != self.process:  # a worker: it knows which one only after it was forked
            self.process, self.forks = process, ()
            self.counts.clear()
        module = _calling_module()
        number = next(self.counts.setdefault(module, itertools.count()))
        named = (self.seed, self.place, self.process, self.forks, module, number)
        digest = hashlib.sha512(repr(named).encode()).digest()
        return int.from_bytes(digest, "big") >> max(MOST_BITS - many, 0)


def _command_words() -> list[str]:
    return getattr(sys, "argv", [])


def _process_name() -> Any:
    """Which process of ``multiprocessing``'s this is: its place among its parent's, or by name
    while that is not told yet."""
    found = sys.modules.get("multiprocessing.process")
    if found is None:
        return "MainProcess"
    own = found.current_process()
    return own._identity or own.name


def _calling_module() -> str:
    """The module of the job's, or of a library, that asks: what a fix has libraries draw leaves the
    job's own numbers alone."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") in OWN:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__")) if frame is not None else ""


def install(seed: int, complain: Callable[[Exception], None]) -> Callable[[Any], None]:
    """From here on, for the standard library; what is returned does the same for NumPy, given
    ``numpy.random.bit_generator`` before anything is made of it. ``complain`` is told of a fault,
    once."""
    seeds, original = SeedSequence(seed, complain), random.Random.seed
    _seeds[:] = [seeds]

    def of_python(self: Any, a: Any = None, *args: Any, **kwargs: Any) -> Any:
        if a is not None:
            seeds.sown |= self is random._inst
        elif _calling_module() not in LEFT_ALONE:
            a = seeds.next_bits(MOST_BITS)
        return original(self, a, *args, **kwargs)

    random.Random.seed = of_python  # type: ignore[method-assign]
    random.seed = random._inst.seed
    random.seed()
    if SPAWNED in _command_words():
        _once_it_knows()

    def of_numpy(module: Any) -> None:
        if hasattr(module, "randbits"):
            module.randbits = seeds.next_bits

    return of_numpy


def _once_it_knows() -> None:
    """A worker that is spawned knows only later which one it is: unless the script has seeded it by
    then, it starts anew."""
    from multiprocessing.process import BaseProcess

    original: Any = BaseProcess._bootstrap  # type: ignore[attr-defined]

    def begins(self: Any, *args: Any, **kwargs: Any) -> Any:
        _seeds[0].place += repr(self._identity)
        if not _seeds[0].sown:
            random.seed()
        return original(self, *args, **kwargs)

    BaseProcess._bootstrap = begins  # type: ignore[attr-defined]


def make_seed(sow: Callable[[int], Any]) -> Callable[[], int] | None:
    """What draws the next seed, of the module that asks for it, and gives it to ``sow``: for the
    generators of a framework. None where nothing is seeded here."""
    if not _seeds:
        return None

    def seed() -> int:
        value = _seeds[0].next_bits(63)
        sow(value)
        return value

    return seed


_seeds: list[SeedSequence] = []
