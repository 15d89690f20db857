"""What whyidle costs, as ratios to a floor of the same run, beside the figures recorded last.

    python bench/costs.py TRACE [--ranks FOLDER] [--runs 5] [--hta PYTHON] [--record]

The floor of reading and explaining is a process that unpacks and decodes the same text and keeps
nothing; that of help is a Python that does nothing. Floor and figure take turns, so a slow or busy
machine slows both. Ends with status 1 if a figure is 20 % worse than the one recorded last of the
same trace and number of cores: the processor time, the peak memory, or the least wall time, which
other programs disturb less than the median. ``--record`` appends the figures to
``bench/costs.json``. ``--hta`` adds Holistic Trace Analysis.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from explain import HTA

HERE = Path(__file__).parent
RECORDED = HERE / "costs.json"
WORSE = 1.2
CHECKED = ("least", "cpu_ratio", "memory_mb")
FLOOR = """
import gc, sys
import msgspec
from isal import igzip
from whyidle.readers._events.event_types import Event
class Document(msgspec.Struct, gc=False):
    traceEvents: list[Event] = []
gc.disable()
for path in sys.argv[1:]:
    with igzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
        text = file.read()
    msgspec.json.decode(text, type=list[Event] if text.lstrip()[:1] == b"[" else Document)
"""


class Run(NamedTuple):
    """Seconds of wall time and of processor time, helpers included, and the peak memory of the
    process in MB."""

    wall: float
    cpu: float
    memory: float


class Figure(NamedTuple):
    """A command and its floor; ``cores`` is on how many they may run (None: all)."""

    name: str
    command: list[str]
    floor: list[str]
    cores: int | None = None


def run_command(command: list[str], cores: int | None) -> Run:
    """Run a command, with compiled files kept as for a user."""
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    some = set(sorted(os.sched_getaffinity(0))[:cores])
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, some)  # inherited by the command
    begin = time.perf_counter()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    child = subprocess.Popen(command, env=environ, **quiet)
    os.sched_setaffinity(0, before)
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - begin
    child.returncode = status = os.waitstatus_to_exitcode(status)
    if status:
        raise SystemExit(f"{' '.join(command[:5])} ... failed with status {status}")
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def measure(figure: Figure, runs: int) -> dict[str, Any]:
    """Run figure and floor in turns, once more than counted."""
    pairs = [
        (run_command(figure.floor, figure.cores), run_command(figure.command, figure.cores))
        for _ in range(runs + 1)
    ][1:]
    ratios = [ours.wall / floor.wall for floor, ours in pairs]
    cpu_ratios = [ours.cpu / floor.cpu for floor, ours in pairs]
    return {
        "ratio": round(statistics.median(ratios), 3),
        "least": round(min(ratios), 3),
        "most": round(max(ratios), 3),
        "seconds": round(statistics.median(ours.wall for _, ours in pairs), 3),
        "floor_s": round(statistics.median(floor.wall for floor, _ in pairs), 3),
        "cpu_ratio": round(statistics.median(cpu_ratios), 3),
        "cpu_s": round(statistics.median(ours.cpu for _, ours in pairs), 3),
        "memory_mb": round(statistics.median(ours.memory for _, ours in pairs)),
    }


def list_figures(trace: Path, ranks: Path | None) -> list[Figure]:
    """What is measured."""
    python = sys.executable
    whyidle = [python, "-m", "whyidle"]
    decode = [python, "-c", FLOOR]
    quiet = ["--no-store", "--quiet"]
    explain = [*whyidle, "explain", str(trace), *quiet]
    size = f"{trace.stem.split('.')[0]}"
    figures = [
        Figure("help", [*whyidle, "--help"], [python, "-c", "pass"]),
        Figure(f"explain {size}", explain, [*decode, str(trace)]),
        Figure(f"explain {size}, one core", explain, [*decode, str(trace)], 1),
    ]
    if ranks is not None:
        files = sorted(map(str, ranks.iterdir()))
        explain = [*whyidle, "explain", str(ranks), *quiet]
        figures.append(Figure(f"explain {len(files)} ranks", explain, [*decode, *files]))
    return figures


def measure_hta(trace: Path, python: str, rank: int, runs: int) -> dict[str, Any]:
    """The same of HTA's load and four breakdowns, in whose time ours is the figure."""
    with tempfile.TemporaryDirectory() as folder:
        copied = shutil.copy(trace, folder)
        explain = [sys.executable, "-m", "whyidle", "explain", str(trace), "--no-store", "--quiet"]
        return measure(Figure("", explain, [python, "-c", HTA, copied, str(rank)]), runs)


def last_figure(recorded: list[dict[str, Any]], name: str, cores: int) -> dict[str, Any] | None:
    """The figure recorded last on as many cores, with its date."""
    for entry in reversed(recorded):
        if name in entry["figures"] and entry["cores"] == cores:
            return entry["figures"][name] | {"date": entry["date"]}
    return None


def compare(name: str, figure: dict[str, Any], last: dict[str, Any] | None) -> list[str]:
    """Print a figure beside the last one; what is worse."""
    spread = f"({figure['least']:.2f} to {figure['most']:.2f})"
    line = f"{name:44} {figure['seconds']:7.3f} s  {figure['ratio']:6.2f} x floor {spread:18}"
    line += f" cpu {figure['cpu_s']:7.3f} s {figure['cpu_ratio']:6.2f} x  {figure['memory_mb']} MB"
    if last is None:
        print(f"{line}   not recorded before")
        return []
    changes = {key: figure[key] / last[key] for key in CHECKED}
    listed = ", ".join(f"{key} {by - 1:+.0%}" for key, by in changes.items())
    print(f"{line}   since {last['date']}: {listed}")
    return [f"{name}: {key} is {by - 1:+.0%}" for key, by in changes.items() if by > WORSE]


def main() -> int:
    """Measure, compare, record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("--ranks", type=Path, help="a folder of ranks, as grown by grow_ranks.py")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--hta", help="a Python interpreter with HolisticTraceAnalysis installed")
    parser.add_argument("--rank", type=int, default=0, help="the rank that HTA files the trace as")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else []
    cores, figures, worse = len(os.sched_getaffinity(0)), {}, []
    for figure in list_figures(options.trace, options.ranks):
        figures[figure.name] = measure(figure, options.runs)
        worse += compare(
            figure.name, figures[figure.name], last_figure(recorded, figure.name, cores)
        )
    if options.hta:
        hta = measure_hta(options.trace, options.hta, options.rank, options.runs)
        figures[f"explain {options.trace.stem.split('.')[0]}, in HTA's time"] = hta
        print(f"HTA takes {hta['floor_s']} s, {1 / hta['ratio']:.1f} times as long as explain")
    if options.record:
        entry = {"date": str(date.today()), "cores": cores, "figures": figures}
        recorded.append(entry)
        RECORDED.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")
    print(*worse, sep="\n", file=sys.stderr)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
