"""How soon the command line answers: whole processes, warm file cache.

    python bench/startup.py [--runs 15]

Prints median, least and most for Python alone, for help, and for the version. The goal for help
is a quarter of a second.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "whyidle --help": [sys.executable, "-m", "whyidle", "--help"],
    "whyidle explain --help": [sys.executable, "-m", "whyidle", "explain", "--help"],
    "whyidle causes": [sys.executable, "-m", "whyidle", "causes"],
}


def seconds(command: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    for name, command in COMMANDS.items():
        seconds(command)
        times = sorted(1e3 * seconds(command) for _ in range(runs))
        middle = statistics.median(times)
        print(f"{name:<24} {middle:6.0f} ms   ({times[0]:.0f} to {times[-1]:.0f}, {runs} runs)")


if __name__ == "__main__":
    main()
