"""What `whyidle watch` costs: its share of a core and its memory, at one look a second.

    python bench/watch_cost.py [--seconds 600] [--form json|table] [--gpus 8]

Cards are those of ``emulator/cards``; one of them is held by a process that sleeps. Run it in a PID
namespace of its own (``unshare -pf --mount-proc``) where other jobs run under `whyidle run`: these
would be watched, too.
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--form", choices=("json", "table"), default="json")
    parser.add_argument("--gpus", type=int, default=8)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(["sleep", "infinity"]) as holder:
        environ = write_cards(Path(folder, "cards.json"), args.gpus, holder.pid)
        watch = start_watch(args.form, environ)
        time.sleep(SETTLE_S)
        first, begin = sum(watch.cpu_times()[:2]), time.monotonic()
        time.sleep(args.seconds)
        share = (sum(watch.cpu_times()[:2]) - first) / (time.monotonic() - begin)
        status = Path(f"/proc/{watch.pid}/status").read_text(encoding="utf-8")
        peak = next(int(s.split()[1]) for s in status.splitlines() if s.startswith("VmHWM"))
        watch.terminate()
        holder.terminate()
    print(f"{args.form}: {share:.2%} of a core over {args.seconds:g} s, {peak / 1024:.1f} MiB peak")


if __name__ == "__main__":
    main()
