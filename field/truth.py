"""What is true of each job, as ``truth.toml`` says it."""

from __future__ import annotations

import json
import random
import re
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, get_args

import msgspec

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent
JOBS, TRUTH = FOLDER / "jobs", FOLDER / "truth.toml"
CURED = "_cured"
SEED = 38
"""of the draw that sets half of the jobs aside; a test draws again and compares"""

Half = Literal["known", "open", "reserved"]
HALVES: tuple[Half, ...] = get_args(Half)
HEADER = """\
# One table per job: field/README.md says what each key means. `python -m field measure` writes
# gain, low, high, pairs, seconds, cores, torch and method; everything else is written by hand.
"""


class TruthError(Exception):
    """The truth file, or a job that it names, makes no sense."""


class Job(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """One job.

    Attributes:
        half: "known" to the rules' authors, "open" to them, or "reserved" for the end.
        source: address of the public report that it was written from.
        kind: what is true of it, in words.
        command: run in the folder of the script, with an interpreter put for "python".
        cured: the command of the cured twin, where it is not the same with another script.
        place: pattern of the source line that a right finding points at.
        cause: causes that are right whatever their place.
        wrong: causes that are wrong at any place.
        healthy: whether nothing is to be cured.
        clock: "loop", the seconds that the job prints, or "whole", those of its process.
        waits: whether it spends time in sleep, on a disk or for other processes, so that only wall
            time tells its gain.
        results: whether the cured twin prints the same results, to one part in fifty.
        gain: measured speed-up of the cured twin, the median of ``pairs`` pairs of runs.
        low: the smallest of these.
        high: the largest.
        seconds: of the job as it is, the median.
        cores: of the machine that measured.
        torch: version of PyTorch that measured.
        method: "wall", or "thread": seconds of the main thread on a machine that did other work.
    """

    half: Half
    source: str
    kind: str
    command: str
    cured: str = ""
    place: str = ""
    cause: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    healthy: bool = False
    clock: Literal["loop", "whole"] = "loop"
    waits: bool = False
    results: Literal["equal", "differ"] = "equal"
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    pairs: int = 0
    seconds: float | None = None
    cores: int | None = None
    torch: str | None = None
    method: Literal["wall", "thread"] = "wall"

    @property
    def script(self) -> str:
        """The name of its script."""
        return next(word for word in shlex.split(self.command) if word.endswith(".py"))

    @property
    def cured_command(self) -> str:
        """The command of its cured twin."""
        cured = self.script.removesuffix(".py") + f"{CURED}.py"
        return self.cured or self.command.replace(self.script, cured)


def read_truth(path: Path = TRUTH) -> dict[str, Job]:
    """All jobs by name. Raises TruthError."""
    try:
        return msgspec.convert(tomllib.loads(path.read_text("utf-8")), dict[str, Job])
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, OSError) as error:
        raise TruthError(f"{path.name}: {error}") from None


def write_truth(jobs: dict[str, Job], path: Path = TRUTH) -> None:
    """Replace the file; hand-written order of the tables is kept."""
    tables = [
        "\n".join([f"[{name}]", *(f"{key} = {_literal(value)}" for key, value in _items(job))])
        for name, job in jobs.items()
    ]
    path.write_text("\n\n".join([HEADER.rstrip(), *tables]) + "\n", "utf-8")


def find_defects(jobs: dict[str, Job], folder: Path = JOBS) -> list[str]:
    """Everything that is missing from the truth of these jobs, or from their scripts."""
    return [f"{name}: {text}" for name, job in jobs.items() for text in _defects(job, folder)]


def draw_halves(jobs: dict[str, Job], seed: int = SEED) -> dict[str, Job]:
    """The same jobs; half of the sick and half of the healthy ones that are not known reserved."""
    drawn = dict(jobs)
    for healthy in (False, True):
        names = sorted(n for n, j in jobs.items() if j.half != "known" and j.healthy == healthy)
        aside = set(random.Random(seed).sample(names, len(names) // 2))
        for name in names:
            half: Half = "reserved" if name in aside else "open"
            drawn[name] = msgspec.structs.replace(jobs[name], half=half)
    return drawn


def _defects(job: Job, folder: Path) -> Iterable[str]:
    if not (folder / job.script).is_file():
        yield f"there is no {job.script}"
        return
    if not job.healthy:
        twin = next(w for w in shlex.split(job.cured_command) if w.endswith(".py"))
        cure = Path(twin.removesuffix(".py").removesuffix(CURED)).with_suffix(".patch")
        if not ((folder / twin).is_file() or (folder / cure).is_file()):
            yield f"there is neither {twin} nor {cure}"
        if not (job.place or job.cause):
            yield "neither a place nor a cause is said"
    lines = (folder / job.script).read_text("utf-8").splitlines()
    if job.place and not any(re.search(job.place, line) for line in lines):
        yield f"no line of {job.script} matches {job.place!r}"


def _items(job: Job) -> list[tuple[str, object]]:
    return list(msgspec.to_builtins(job).items())


def _literal(value: object) -> str:
    """A value as TOML, which shares numbers, lists and most strings with JSON."""
    if isinstance(value, str) and "\\" in value and "'" not in value:
        return f"'{value}'"
    return json.dumps(value, ensure_ascii=False)
