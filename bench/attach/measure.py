"""What `whyidle attach` finds, how long it takes, and what it costs the job that it looks at.

    python bench/attach/measure.py python bench/attach/torch_job.py 0
    python bench/attach/measure.py --looks 3 /path/to/python bench/attach/keras_job.py

The job prints a time (``time.perf_counter``) at the end of each step. Looks alternate with equally
long times without one; the rate of steps during a look is told relative to the mean of the rates
before and after it. Without steps only the verdict is printed.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SECONDS = 8.0
WARM_STEPS = 20
BEGIN_S = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--looks", type=int, default=3)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with (
            log.open("wb") as output,
            subprocess.Popen(args.command, stdout=output, stderr=subprocess.DEVNULL) as job,
        ):
            try:
                measure(job.pid, log, Path(folder) / "d.json", args.looks)
            finally:
                job.kill()


def measure(pid: int, log: Path, target: Path, looks: int) -> None:
    trains = wait_for_steps(log)
    windows, rest = [], []
    spent = [resource.getrusage(resource.RUSAGE_CHILDREN)]
    for number in range(looks):
        if trains:
            rest.append(idle_window())
        begin = time.perf_counter()
        words = ["attach", str(pid), "--seconds", f"{SECONDS:g}", "--no-store", "-q"]
        subprocess.run([sys.executable, "-m", "whyidle", *words, "--json", str(target)], check=True)
        wall = time.perf_counter() - begin
        spent.append(resource.getrusage(resource.RUSAGE_CHILDREN))
        windows.append((begin, begin + SECONDS))
        told = json.loads(target.read_text())
        first = told["findings"][0]["cause"] if told["findings"] else "no finding"
        cost = f"{wall:.1f} s, {cpu_s(*spent[-2:]):.2f} s of CPU"
        print(f"look {number + 1}: {cost}, {first}: {told['verdict']['headline']}")
    if not trains:
        return
    rest.append(idle_window())
    steps = [float(line) for line in log.read_text().split()[:-1]]
    ratios = []
    for number, window in enumerate(windows):
        before, after = rate(steps, rest[number]), rate(steps, rest[number + 1])
        ratios.append(rate(steps, window) / ((before + after) / 2))
    shown = ", ".join(f"{ratio:.3f}" for ratio in ratios)
    print(f"{rate(steps, rest[0]):.1f} steps/s without; rate during the looks: {shown}")
    print(f"median {statistics.median(ratios):.3f}")


def wait_for_steps(log: Path) -> bool:
    """Whether the job trains: it prints more than one time."""
    deadline, lines = time.monotonic() + BEGIN_S, 0
    while lines < WARM_STEPS and time.monotonic() < deadline:
        before, lines = lines, len(log.read_text().split())
        if before == lines == 1:
            return False
        time.sleep(1.0)
    return lines >= WARM_STEPS


def cpu_s(before: resource.struct_rusage, after: resource.struct_rusage) -> float:
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def idle_window() -> tuple[float, float]:
    begin = time.perf_counter()
    time.sleep(SECONDS)
    return begin, begin + SECONDS


def rate(steps: list[float], window: tuple[float, float]) -> float:
    """Steps per second, by the first and the last step in the window."""
    inside = [one for one in steps if window[0] <= one <= window[1]]
    return (len(inside) - 1) / (inside[-1] - inside[0])


if __name__ == "__main__":
    main()
