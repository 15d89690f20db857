"""What watching costs: training steps with and without, in turns; the hooks alone; start-up.

    python bench/overhead.py [--seconds 60] [--traceml FOLDER]

A machine that does nothing else. ``--traceml`` names a folder that holds an installed TraceML
(``pip install --target FOLDER traceml-ai``).

Everything is switched on and off in turns inside one process, in pairs of blocks, for whole
processes differ by more than what is asked for: medians over the pairs, with their standard error.
The mean step counts everything that happened in a block; the median does not see rare events. The
control is nothing against nothing: differences within its error are noise.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src"
JOB, HOOKS, INSIDE, LOOKS = (
    HERE / f"overhead_{name}.py" for name in ("job", "hooks", "inside", "looks")
)
BOOT = SOURCE / "whyidle" / "probe" / "boot"
TRACEML = "import sys; from traceml_ai.launcher.cli import main; sys.exit(main())"


class Spread(NamedTuple):
    """Median, least and most."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        """Over all values."""
        return cls(statistics.median(values), min(values), max(values))

    @classmethod
    def quartiles(cls, values: list[float]) -> Spread:
        """With quartiles in the place of the extremes."""
        low, middle, high = statistics.quantiles(values, n=4)
        return cls(middle, low, high)

    def __format__(self, spec: str) -> str:
        return f"{self.median:{spec}} ({self.low:{spec}} to {self.high:{spec}})"


def environment(**settings: object) -> dict[str, str]:
    paths = [str(SOURCE), str(HERE), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(paths).rstrip(os.pathsep)
    told = {name: str(value) for name, value in settings.items()}
    compiled = {"PYTHONDONTWRITEBYTECODE": ""}  # as everywhere where nobody forbids it
    return {**os.environ, **compiled, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **told}


def commands(traceml: str | None) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Name -> command in front of the job, and environment."""
    watch = [sys.executable, "-m", "whyidle", "run", "--quiet", "--no-live", "--no-store"]
    found: dict[str, tuple[list[str], dict[str, str]]] = {
        "control": ([sys.executable], {}),
        "whyidle run": ([*watch, "--", sys.executable], {"JOB_INSTRUMENT": "watched"}),
        "torch.profiler, all the time": ([sys.executable], {"JOB_INSTRUMENT": "profiler"}),
    }
    if traceml:
        front = [sys.executable, "-c", TRACEML, "run"]
        path = {"PYTHONPATH": os.pathsep.join([traceml, str(SOURCE), str(HERE)])}
        found["TraceML"] = (front, {"JOB_INSTRUMENT": "traceml", **path})
    return found


def train(
    script: Path, front: list[str], told: dict[str, str], batch: int, seconds: float
) -> dict[str, Any]:
    """Run a job once, and return what it measured of itself."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        settings = {"JOB_BATCH": batch, "JOB_SECONDS": seconds, "JOB_OUT": out, **told}
        done = subprocess.run(
            [*front, str(script)],
            env=environment(**settings),
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if not out.exists():
            raise SystemExit(f"{front} failed:\n{done.stdout[-500:]}{done.stderr[-2000:]}")
        return json.loads(out.read_text(encoding="utf-8"))


def batch_for(step_s: float) -> int:
    """A batch size that makes steps about this long here."""
    batch = 64
    for _ in range(4):
        took = train(JOB, [sys.executable], {}, batch, 1.0)["median_s"]
        batch = max(1, round(batch * step_s / took))
    return batch


def steps_table(sizes: list[float], seconds: float, traceml: str | None) -> list[str]:
    lines = [
        "| instrument | steps of | slow-down of the mean step | of the median step | pairs |",
        "|---|---|---|---|---|",
    ]
    for step_ms in sizes:
        batch = batch_for(step_ms / 1e3)
        for name, (front, told) in commands(traceml).items():
            found = train(INSIDE, front, told, batch, seconds)
            length, pairs = statistics.median(found["step_ms"]), len(found["mean"])
            mean, middle = sure(found["mean"]), sure(found["median"])
            lines.append(f"| {name} | {length:.1f} ms | {mean} | {middle} | {pairs} |")
            print(lines[-1], flush=True)
    return lines


def sure(values: list[float]) -> str:
    """Median and its standard error, percent."""
    spread = Spread.quartiles(values)
    error = 1.2533 / 1.349 * (spread.high - spread.low) / len(values) ** 0.5
    return f"{spread.median:+.2f} % +- {error:.2f}"


def probed(folder: str) -> dict[str, str]:
    """The environment in which the probe starts, without a launcher."""
    paths = os.pathsep.join([str(BOOT), str(HERE)])
    return {"PYTHONPATH": paths, "WHYIDLE_RUN": folder}


def told_by(script: Path, seconds: float, **settings: str) -> Any:
    """What a script that ends soon prints under the probe."""
    with tempfile.TemporaryDirectory() as folder:
        told = {**probed(folder), "JOB_SECONDS": str(seconds), **settings}
        done = subprocess.run(
            [sys.executable, str(script)], env=environment(**told), capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return json.loads(done.stdout)


def looks_table(seconds: float) -> list[str]:
    lines = [
        "| the thread of looks | wakes a second | each takes from the job | of the time |",
        "|---|---|---|---|",
    ]
    for when, kinds in told_by(LOOKS, seconds, WHYIDLE_PROFILE="off").items():
        altogether = 0.0
        for kind, found in kinds.items():
            mean = statistics.mean(found["us"])
            error = statistics.stdev(found["us"]) / len(found["us"]) ** 0.5
            share = found["a_second"] * mean / 1e4
            altogether += share
            took = f"{mean:.0f} +- {error:.0f} us"
            lines.append(f"| {when}: {kind} | {found['a_second']:.1f} | {took} | {share:.3f} % |")
        lines.append(f"| {when}: all | | | **{altogether:.2f} %** |")
    return lines


def hooks_table(seconds: float) -> list[str]:
    found = told_by(HOOKS, seconds, WHYIDLE_PROFILE="auto")
    added = {kind: Spread.quartiles(values) for kind, values in found["added_us"].items()}
    blocks = len(found["added_us"]["hooks"])
    error = 1.2533 / 1.349 * (added["hooks"].high - added["hooks"].low) / blocks**0.5
    what = f"{found['replaced']} replaced functions and the optimizer's hooks"
    length, hooks, control = found["step_us"], added["hooks"], added["control"]
    return [
        f"All hooks that a step calls on against off in one process ({what}, {blocks} groups of "
        f"paired blocks, steps of {length:.0f} us), median and quartiles: **{hooks:.1f} us per "
        f"step**, standard error "
        f"{error:.1f}; control {control:.1f} us. Inside themselves, in a row with nothing between "
        f"them, those of a step take {added['own']:.2f} us."
    ]


def startup_table(runs: int) -> list[str]:
    lines = ["| process | alone | added under watch |", "|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        for name, words in (
            ("`python -c pass`", ["-c", "pass"]),
            ("`python -c 'import torch'`", ["-c", "import torch"]),
        ):
            alone, added = [], []
            for turn in range(runs + 1):
                pair = {}
                for watched in (True, False) if turn % 2 else (False, True):
                    env = environment(**(probed(folder) if watched else {}))
                    begin = perf_counter()
                    subprocess.run([sys.executable, *words], env=env, check=True)
                    pair[watched] = 1e3 * (perf_counter() - begin)
                if turn:  # the first warms the file cache
                    alone.append(pair[False])
                    added.append(pair[True] - pair[False])
            lines.append(
                f"| {name} | {Spread.of(alone):.1f} ms | {Spread.quartiles(added):.1f} ms |"
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each process")
    parser.add_argument("--steps-ms", type=float, nargs="+", default=[5.0, 50.0])
    parser.add_argument("--runs", type=int, default=21, help="of start-up")
    parser.add_argument("--traceml", metavar="FOLDER", help="where TraceML is installed")
    args = parser.parse_args()
    hooks = hooks_table(args.seconds / 2)
    looks = looks_table(args.seconds / 2)
    startup = startup_table(args.runs)
    print(*hooks, "", *looks, "", *startup, "", sep="\n", flush=True)
    print(*steps_table(args.steps_ms, args.seconds, args.traceml), sep="\n")


if __name__ == "__main__":
    main()
