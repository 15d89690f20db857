"""Seeds, in a trial, the random generators that would take a seed from the system.

``np.random.default_rng()``, ``random.Random()`` or ``torch.seed()`` take their seed from the
system, so that two runs of the same job differ and cannot be compared. Here each such seed is
derived from the arm's own seed, the process that asks (rank, worker), and the number of seeds that
its module has asked for before: processes stay as different from each other as they would be.
Explicit seeds of the script and cryptographic randomness (``secrets``, ``os.urandom``) stay
unchanged.

``boot/sitecustomize.py`` loads this file by its path, before any code of the job, as scripts may
draw before they import a framework. So it uses the standard library only, and nothing of whyidle.
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
"""the module in which NumPy asks the system for the seeds of all of its generators"""
PLACES = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
"""variables that distinguish the processes of a launcher"""
LEFT_ALONE = ("tempfile",)
"""modules whose numbers become names, which must differ from process to process"""
OWN = (__name__, NAME, "random")
SPAWNED = "--multiprocessing-fork"
"""argument of a spawned worker"""
MOST_BITS = 512


class SeedSequence:
    """The seeds of one process and of the children that it forks."""

    def __init__(self, seed: int, complain: Callable[[Exception], None]) -> None:
        self.seed = seed
        self.complain = complain
        self.failed = False
        places = [os.environ.get(name, "") for name in PLACES]
        words = [os.path.basename(word) for word in _command_words()[1:]]  # copies have other paths
        self.place = repr((places, words))
        self.process = _process_name()
        self.forks: tuple[int, ...] = ()
        """for children that ``os.fork`` started: the number of each fork in its parent"""
        self.forked = 0
        self.sown = False
        """whether the job has seeded Python's global generator itself"""
        self.counts: dict[str, itertools.count[int]] = {}
        os.register_at_fork(before=self._before_fork, after_in_child=self._after_fork)

    def _before_fork(self) -> None:
        self.forked += 1

    def _after_fork(self) -> None:
        self.forks, self.forked = (*self.forks, self.forked), 0
        self.counts.clear()
        random.seed()  # as Python itself does after a fork

    def next_bits(self, many: int) -> int:
        """Return the next seed for the calling module; one from the system if that fails."""
        try:
            if not self.failed:
                return self._counted_bits(many)
        except Exception as error:
            self.failed = True
            self.complain(error)
        return random.SystemRandom().getrandbits(many)

    def _counted_bits(self, many: int) -> int:
        process = _process_name()
        if process != self.process:  # a worker, which learns its number only after the fork
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
    """Identity of this process in ``multiprocessing``, or its name before it has one."""
    result = sys.modules.get("multiprocessing.process")
    if result is None:
        return "MainProcess"
    own = result.current_process()
    return own._identity or own.name


def _calling_module() -> str:
    """The module that asks for a seed. Seeds are counted per module, so that draws of a library
    that a fix adds do not change the job's own numbers."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") in OWN:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__")) if frame is not None else ""


def install(seed: int, complain: Callable[[Exception], None]) -> Callable[[Any], None]:
    """Seed Python's generators from now on. Returns a function that does the same for NumPy, called
    with ``numpy.random.bit_generator`` before its first use. ``complain`` receives a fault, once.
    """
    seeds, original = SeedSequence(seed, complain), random.Random.seed
    _seeds[:] = [seeds]

    def seed_python(self: Any, a: Any = None, *args: Any, **kwargs: Any) -> Any:
        if a is not None:
            seeds.sown |= self is random._inst
        elif _calling_module() not in LEFT_ALONE:
            a = seeds.next_bits(MOST_BITS)
        return original(self, a, *args, **kwargs)

    random.Random.seed = seed_python  # type: ignore[method-assign]
    random.seed = random._inst.seed
    random.seed()
    if SPAWNED in _command_words():
        _once_it_knows()

    def seed_numpy(module: Any) -> None:
        if hasattr(module, "randbits"):
            module.randbits = seeds.next_bits

    return seed_numpy


def _once_it_knows() -> None:
    """Seed a spawned worker again once it knows its number, unless the script has seeded it."""
    from multiprocessing.process import BaseProcess

    original: Any = BaseProcess._bootstrap  # type: ignore[attr-defined]

    def bootstrap(self: Any, *args: Any, **kwargs: Any) -> Any:
        _seeds[0].place += repr(self._identity)
        if not _seeds[0].sown:
            random.seed()
        return original(self, *args, **kwargs)

    BaseProcess._bootstrap = bootstrap  # type: ignore[attr-defined]


def make_seed(sow: Callable[[int], Any]) -> Callable[[], int] | None:
    """Return a function that passes the calling module's next seed to ``sow``, for the generators
    of a framework; None if this process is not seeded."""
    if not _seeds:
        return None

    def seed() -> int:
        value = _seeds[0].next_bits(63)
        sow(value)
        return value

    return seed


_seeds: list[SeedSequence] = []
