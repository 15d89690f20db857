"""What a complete diagnosis costs, as a whole process, beside Holistic Trace Analysis.

Runs ``whyidle explain TRACE`` and, where ``--hta PYTHON`` names an interpreter that has HTA
installed, HTA's load and its temporal, idle-time, kernel and overlap breakdowns of the same file,
in turn. Prints wall seconds and peak memory (median, min, max) and the ratio run by run::

    python bench/explain.py TRACE [--runs 7] [--hta /path/to/python]
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HTA = """
import logging, sys, warnings
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
found = TraceAnalysis(trace_files={int(sys.argv[2]): sys.argv[1]}, trace_dir="")
rank = int(sys.argv[2])
found.get_temporal_breakdown(visualize=False)
found.get_idle_time_breakdown(ranks=[rank], visualize=False)
found.get_gpu_kernel_breakdown(visualize=False)
found.get_comm_comp_overlap(visualize=False)
"""


def measure(command: list[str]) -> tuple[float, float]:
    """Wall seconds and peak memory (MB, largest process) of a command."""
    begin = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    took = time.perf_counter() - begin
    if status:
        raise SystemExit(f"{' '.join(command[:4])} ... failed with status {status}")
    return took, usage.ru_maxrss / 1024


def spread(values: list[float], unit: str) -> str:
    """Median and range."""
    low, high = min(values), max(values)
    return f"{statistics.median(values):8.3f} {unit} ({low:.3f} to {high:.3f})"


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path, nargs="+")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--hta", help="a Python interpreter with HolisticTraceAnalysis installed")
    parser.add_argument("--rank", type=int, default=0, help="the rank that HTA files the trace as")
    options = parser.parse_args()
    traces = [str(path) for path in options.trace]
    ours = [sys.executable, "-m", "whyidle", "explain", *traces, "--no-store", "--quiet"]
    theirs = [options.hta, "-c", HTA, traces[0], str(options.rank)] if options.hta else None
    results: dict[str, list[tuple[float, float]]] = {"whyidle explain": [], "HTA": []}
    with tempfile.TemporaryDirectory() as folder:
        if theirs:
            theirs[3] = shutil.copy(traces[0], folder)
        for run in range(options.runs + 1):
            for name, command in (("whyidle explain", ours), ("HTA", theirs)):
                if command:
                    figures = measure(command)
                    results[name] += [figures] if run else []
    for name, figures in results.items():
        if figures:
            print(f"{name:16} {spread([f[0] for f in figures], 's')}", end="   ")
            print(spread([f[1] for f in figures], "MB"))
    if theirs:
        pairs = zip(results["HTA"], results["whyidle explain"], strict=True)
        print("HTA / whyidle   ", spread([b[0] / a[0] for b, a in pairs], "times"))


if __name__ == "__main__":
    main()
