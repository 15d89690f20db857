"""What `whyidle watch` costs: its share of a core and its memory, at one look a second.

    python bench/watch_cost.py [--seconds 600] [--form json|table] [--gpus 8] [--job]

Cards are those of ``emulator/cards``; one of them is held by a process that sleeps. With ``--job``
a job under `whyidle run` is watched besides, and what its launcher uses is printed, too. Run it in
a PID namespace of its own (``unshare -pf --mount-proc``) where other jobs run under `whyidle run`:
these would be watched, too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
GIB = 1 << 30
SETTLE_S = 5.0
"""imports, and the first looks"""
JOB = """
import time, torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 1_000_000
    def __getitem__(self, index):
        time.sleep(0.02)
        return torch.zeros(8)
for x in torch.utils.data.DataLoader(Slow(), batch_size=4):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
"""


def write_cards(path: Path, count: int, holder: int) -> dict[str, str]:
    """Describe the cards; the environment in which a process sees them."""
    cards = [
        {"uuid": f"GPU-{n}", "memory": [4 << 20, 80 * GIB], "busy": 0.0, "power_w": 70.0}
        for n in range(count)
    ]
    cards[0] |= {"memory": [40 * GIB, 80 * GIB], "processes": {str(holder): 40 * GIB}}
    path.write_text(json.dumps(cards), encoding="utf-8")
    folders = [str(ROOT / "emulator" / "cards"), str(ROOT)]
    environ = {"PYTHONPATH": os.pathsep.join(folders), "WHYIDLE_CARDS": str(path)}
    return {**os.environ, **environ, "TERM": "xterm-256color", "COLUMNS": "160"}


def start_watch(form: str, environ: dict[str, str]) -> psutil.Process:
    command = [sys.executable, "-m", "whyidle", "watch", "--interval", "1"]
    if form == "json":
        return psutil.Popen([*command, "--json", os.devnull], env=environ)
    leader, follower = os.openpty()  # a table is drawn on terminals
    child = psutil.Popen(command, env=environ, stdin=subprocess.DEVNULL, stdout=follower)
    os.close(follower)
    if os.fork() == 0:  # reads what is drawn, or the watch would wait
        try:
            while os.read(leader, 1 << 16):
                pass
        finally:
            os._exit(0)
    return child


def start_job(folder: Path) -> psutil.Process:
    (folder / "job.py").write_text(JOB, encoding="utf-8")
    command = [sys.executable, "-m", "whyidle", "run", "-q", "--store", str(folder / "store")]
    job = psutil.Popen([*command, sys.executable, "job.py"], cwd=folder, stderr=subprocess.DEVNULL)
    time.sleep(4 * SETTLE_S)
    return job


def measure(processes: dict[str, psutil.Process], seconds: float) -> list[str]:
    """Share of a core over some seconds, and peak memory, of each process."""
    first = {name: sum(one.cpu_times()[:2]) for name, one in processes.items()}
    begin, lines = time.monotonic(), []
    time.sleep(seconds)
    for name, one in processes.items():
        share = (sum(one.cpu_times()[:2]) - first[name]) / (time.monotonic() - begin)
        status = Path(f"/proc/{one.pid}/status").read_text(encoding="utf-8")
        peak = next(int(s.split()[1]) for s in status.splitlines() if s.startswith("VmHWM"))
        lines.append(f"{name}: {share:.2%} of a core, {peak / 1024:.1f} MiB peak")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--form", choices=("json", "table"), default="json")
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--job", action="store_true", help="beside a job under whyidle run")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(["sleep", "infinity"]) as holder:
        environ = write_cards(Path(folder, "cards.json"), args.gpus, holder.pid)
        launcher = {"launcher of the job": start_job(Path(folder))} if args.job else {}
        before = measure(launcher, 4 * SETTLE_S)
        watch = start_watch(args.form, environ)
        time.sleep(SETTLE_S)
        lines = measure({f"watch, {args.form}": watch, **launcher}, args.seconds)
        watch.terminate()
        holder.terminate()
        for job in launcher.values():
            job.terminate()
            job.wait()
    print(*(f"before: {line}" for line in before), *lines, f"over {args.seconds:g} s", sep="\n")


if __name__ == "__main__":
    main()
