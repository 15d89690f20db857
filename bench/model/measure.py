"""Whether the whole step with other layers is what ``whyidle run --look model`` predicts.

    python bench/model/measure.py [--settings 0 3 ...]

Each setting: the job with the look, then steps of the job as it is and of the job with the layers
really replaced, two of each in turn, of which the second counts; lower quartiles.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

JOB = Path(__file__).parent / "job.py"
SETTINGS = (
    ("separable", "--channels 16 --size 64"),
    ("separable", "--channels 64 --size 32"),
    ("separable", "--channels 128 --size 16"),
    ("grouped", "--channels 16 --size 64"),
    ("grouped", "--channels 64 --size 32"),
    ("grouped", "--channels 128 --size 16"),
    ("channels_last", "--channels 16 --size 64"),
    ("channels_last", "--channels 64 --size 32"),
    ("layer", "--channels 64 --steps 64"),
    ("layer", "--channels 128 --steps 32"),
    ("attention", "--channels 192 --tokens 127"),
    ("attention", "--channels 64 --tokens 255"),
)
TURNS = 24
"""kind of swap, and the job's arguments"""


def time_jobs(*jobs):
    """The steps of these jobs, s."""
    command = [sys.executable, str(JOB), "--asked"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    workers = [subprocess.Popen([*command, *words], **pipes) for words in jobs]
    times = [[] for _ in workers]
    for turn in range(4 + TURNS):
        for worker, found in zip(workers, times, strict=True):
            for _ in range(2):
                worker.stdin.write("\n")
                seconds = float(worker.stdout.readline())
            if turn >= 4:
                found.append(seconds)
    for worker in workers:
        worker.stdin.close()
        worker.wait()
    return [statistics.quantiles(found, n=4)[0] for found in times]


def look(words, kind):
    """The step that is predicted with the swap, s, its change, and the step as it is."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "diagnosis.json"
        command = [sys.executable, "-m", "whyidle", "run", "-q", "--no-store", "--look", "model"]
        job = ["--profile", "off", "--json", str(place), "--", sys.executable, str(JOB), *words]
        subprocess.run([*command, *job], capture_output=True, check=True)
        model = json.loads(place.read_text())["architecture"]
    swap = next(swap for swap in model["swaps"] if swap["kind"] == kind)
    return swap["step_s"], swap["change"], model["step_s"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--settings", type=int, nargs="*", default=range(len(SETTINGS)))
    errors, signs = [], 0
    print("| swap | job | step, ms | predicted, ms | measured, ms | error | sign |")
    print("|---|---|--:|--:|--:|--:|---|")
    for kind, text in [SETTINGS[number] for number in parser.parse_args().settings]:
        words = text.split()
        predicted, change, step = look(words, kind)
        before, truth = time_jobs(words, [*words, "--swap", kind])
        ratio = predicted / step * before  # the look runs in another process
        errors.append(ratio / truth - 1)
        told = "none" if change is None else "faster" if change[0] > 1 else "slower"
        right = told == "none" or (told == "faster") == (truth < before)
        signs += right
        print(
            f"| {kind} | `{text}` | {1e3 * before:.1f} | {1e3 * ratio:.1f} | {1e3 * truth:.1f} | "
            f"{errors[-1]:+.1%} | {told}{'' if right else ', wrong'} |",
            flush=True,
        )
    within = sum(abs(error) <= 0.1 for error in errors)
    print(
        f"within 10 %: {within} of {len(errors)}; median {statistics.median(map(abs, errors)):.1%}"
    )
    print(f"sign right: {signs} of {len(errors)}")


main()
