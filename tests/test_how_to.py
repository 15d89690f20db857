"""The first command of each how-to page does what the page says, on a script of a few lines."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from own_sgd import OWN_SGD

PAGES = Path(__file__).parents[1] / "docs" / "how-to"
ELSEWHERE = {
    "alerts": "watches until it is stopped",
    "attach": "needs the number of a process",
    "deploy": "installs services",
    "fleet": "needs a scheduler",
    "monitor": "watches until it is stopped",
    "plug-ins": "begins with a package; tests/test_catalog.py",
    "ranks": "needs eight ranks",
    "serve": "serves until it is stopped",
}
SAYS = {
    "compare": "Where the step's time goes",
    "explain": "next",
    "fix": "whyidle",
    "history": "train.py",
    "memory": "at the peak of a step",
    "model": "forward and backward",
    "prepare": "prepared",
    "scale": "On 64 ranks each step takes",
    "tune": "val_loss",
    "watch": "next",
}
"""page -> what its command prints"""
SLOW = ("fix", "tune")
"""minutes of trials"""
TRAIN = f"""
import argparse
import time
{OWN_SGD}from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--batch-size", type=int, default=16)

class Rows(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.full((64,), index / 64.0), index % 4

def make_train_set():
    return Rows()

def main():
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 4))
    optimizer = SGD(model.parameters(), lr=args.lr)
    for epoch in range(12):
        for x, y in DataLoader(make_train_set(), args.batch_size, shuffle=True):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        print("val_loss:", loss.item(), flush=True)

if __name__ == "__main__":
    main()
"""


def first_command(page: str) -> str:
    """The first command of whyidle on a page, its continued lines joined."""
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    command = next(line for line in lines if line.startswith("whyidle "))
    return command.partition("  #")[0].strip()


def test_every_page_is_run_or_says_why_not():
    pages = {path.stem for path in PAGES.glob("*.md")} - {"python"}
    assert pages == (set(SAYS) | set(ELSEWHERE)) & pages


@pytest.mark.real_processes("each command runs a job")
@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=pytest.mark.live if p in SLOW else ()) for p in sorted(SAYS)],
)
def test_the_first_command_of_a_page_works(page, tmp_path):
    pytest.importorskip("torch")
    if page == "tune":
        pytest.importorskip("optuna")
    (tmp_path / "train.py").write_text(TRAIN)
    place = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": place, "OMP_NUM_THREADS": "1"}
    environment.pop("WHYIDLE_HOME", None)

    def run(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True,
            check=False, timeout=300,
        )  # fmt: skip

    if page == "history":
        run("whyidle run --quiet python train.py")
    for name in re.findall(r"\S+\.json\.gz", first_command(page)):
        run(f"python -m whyidle.testing.demo {name}")
    ended = run(first_command(page))
    told = ended.stdout + ended.stderr
    assert SAYS[page] in told, told
    assert "Traceback" not in told
    assert ended.returncode in {0, 130}, told
