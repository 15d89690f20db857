"""PyTorch's own ways of writing, its loader's workers and its launcher, isolated."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest
from isolated import run
from own_sgd import OWN_SGD

from whyidle.fix.isolation import isolate
from whyidle.fix.isolation.backend import Level

pytest.importorskip("torch")

KINDS = pytest.mark.parametrize("best", ["namespaces", "landlock"])

TRAIN = """
    import os, sys
    import torch.distributed as dist
    from torch.utils.data import DataLoader, Dataset

    class Written(Dataset):
        def __len__(self):
            return 16
        def __getitem__(self, index):
            open(f"cache-{index}", "w").write(str(index))
            return torch.full((8,), float(index))

    def main():
        if "WORLD_SIZE" in os.environ:
            dist.init_process_group("gloo")
        rank = int(os.environ.get("RANK", 0))
        torch.set_num_threads(1)
        torch.manual_seed(0)
        model = torch.nn.Linear(8, 1)
        optimizer = SGD(model.parameters(), lr=1e-4)
        for batch in DataLoader(Written(), batch_size=4, num_workers=2):
            model(batch).sum().backward()
            if dist.is_initialized():
                for each in model.parameters():
                    dist.all_reduce(each.grad)
            optimizer.step()
        torch.save(model.state_dict(), "last.pt")
        if dist.is_initialized():
            dist.barrier()  # the other rank writes it, too
        kept = torch.load("last.pt")
        torch.save(kept, "old.pt", _use_new_zipfile_serialization=False)
        found = len([name for name in os.listdir() if "cache" in name])
        sys.stdout.write(f"rank {rank} {len(kept)} {found}\\n")
        sys.stdout.flush()
        if dist.is_initialized():
            dist.barrier()
            dist.destroy_process_group()

    if __name__ == "__main__":
        main()
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(OWN_SGD + textwrap.dedent(TRAIN))
    (folder / "last.pt").write_bytes(b"the one that must not be lost")
    (tmp_path / "scratch").mkdir()
    monkeypatch.chdir(folder)
    return folder


def said_by(scratch: Path, best: Level, *words: str) -> str:
    with isolate(scratch, best=best) as guard:
        if guard.level != best:
            pytest.skip(f"no {best} to be had here: {guard.why}")
        done = run(guard, sys.executable, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout


def check(project: Path) -> None:
    assert sorted(each.name for each in project.iterdir()) == ["last.pt", "train.py"]
    assert (project / "last.pt").read_bytes() == b"the one that must not be lost"


@KINDS
def test_a_job_with_workers_saves_and_loads_its_checkpoint(
    project: Path, tmp_path: Path, best: Level
):
    said = said_by(tmp_path / "scratch", best, "train.py")
    assert said.split() == ["rank", "0", "2", "16"]
    check(project)


@pytest.mark.services
@KINDS
def test_two_ranks_meet_without_a_network(project: Path, tmp_path: Path, best: Level):
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "train.py"]
    said = said_by(tmp_path / "scratch", best, *launch)
    assert sorted(line.split()[1] for line in said.splitlines()) == ["0", "1"]
    check(project)
