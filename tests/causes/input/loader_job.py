"""One training job per way of feeding it badly (or well); the first word chooses."""

import os
import pathlib
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

BATCH = 8


def work(seconds):
    """Burn CPU, whatever else the machine does."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class Samples(Dataset):
    length = 256

    def __init__(self, folder=None):
        self.folder = folder

    def __len__(self):
        return self.length


class Ready(Samples):
    length = 1200

    def __init__(self, folder=None):
        self.rows = torch.randn(self.length, 64)

    def __getitem__(self, index):
        return self.rows[index], index % 4


class Light(Samples):
    def __getitem__(self, index):
        work(0.0002)
        return torch.randn(64), index % 4


class Augmented(Samples):
    def __getitem__(self, index):
        work(0.003)  # the line
        return torch.randn(64), index % 4


class Parsed(Samples):
    length = 128

    def __getitem__(self, index):
        work(0.003)  # the line
        return torch.full((64,), float(index)), index % 4


class Remote(Samples):
    def __getitem__(self, index):
        time.sleep(0.006)  # the line
        return torch.randn(64), index % 4


class SmallFiles(Samples):
    def __getitem__(self, index):
        time.sleep(0.004)  # the line
        data = (self.folder / f"{index % 64}.bin").read_bytes()
        return torch.frombuffer(bytearray(data[:256]), dtype=torch.float32), index % 4


class Evicted(Samples):
    length = 48

    def __getitem__(self, index):
        file = os.open(self.folder / f"{index % 8}.big", os.O_RDONLY)
        data = os.read(file, 4 << 20)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
        time.sleep(0.01)  # a disk slower than the one that tests run on; the line
        return torch.frombuffer(bytearray(data[:256]), dtype=torch.float32), index % 4


class Bursty(Samples):
    def __getitem__(self, index):
        if index % (16 * BATCH) == 0:
            time.sleep(0.2)  # the line
        return torch.randn(64), index % 4


class Objects(Samples):
    def __getitem__(self, index):
        return torch.randn(64), index % 4, self.rows

    rows = tuple((i, float(i), str(i)) for i in range(12_000))


def keep(items):
    return (
        torch.stack([x for x, *_ in items]),
        torch.tensor([y for _, y, _ in items]),
        [[tuple(row) for row in rows] for *_, rows in items],
    )


class Crowded(Samples):
    matrix = torch.randn(384, 384)

    def __getitem__(self, index):
        rows = self.matrix
        for _ in range(4):
            rows = rows @ self.matrix * 0.01  # the line
        return rows[0, :64] * 0 + torch.randn(64), index % 4


def many_threads(_):
    torch.set_num_threads(8)


KEPT = {"persistent_workers": True}
ONE, TWO = {"num_workers": 1, **KEPT}, {"num_workers": 2, **KEPT}
JOBS = {
    "ready": (Ready, {}, 0.008, 2),
    "tuned": (Light, ONE, 0.008, 3),
    "few": (Augmented, ONE, 0.0, 1),
    "heavy": (Augmented, TWO, 0.0, 2),
    "parsed": (Parsed, TWO, 0.0, 4),
    "remote": (Remote, TWO, 0.002, 2),
    "small": (SmallFiles, TWO, 0.002, 2),
    "evicted": (Evicted, {"num_workers": 2}, 0.002, 4),
    "bursty": (Bursty, {**ONE, "shuffle": False}, 0.02, 3),
    "handoff": (Objects, {**TWO, "collate_fn": keep}, 0.0, 2),
    "crowded": (Crowded, {**TWO, "worker_init_fn": many_threads}, 0.002, 2),
    "restart": (Ready, {"num_workers": 2, "multiprocessing_context": "fork"}, 0.006, 6),
    "none": (Augmented, {}, 0.002, 1),
}
"""name -> dataset, settings of the loader, least length of a step (s), epochs"""


def main(name, folder):
    dataset, options, pause, epochs = JOBS[name]
    if name == "restart":
        dataset.length = 48
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Linear(64, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(dataset(folder), batch_size=BATCH, **{"shuffle": True, **options})
    begin = time.perf_counter()
    for _ in range(epochs):
        for x, y, *_ in loader:
            until = time.perf_counter() + pause
            while True:
                loss = torch.nn.functional.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                if time.perf_counter() >= until:
                    break
            optimizer.step()
    print(name, loss.item(), time.perf_counter() - begin)


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
