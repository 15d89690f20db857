"""A tracker trained in short epochs of pairs of frames, with workers that start by spawn as on Windows and macOS."""
import time
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Frames(Dataset):
    def __init__(self):
        self.notes = [{"id": i, "box": [i % 7, i % 5, 20, 20], "name": f"video_{i % 40}/frame_{i:06d}.jpg"} for i in range(60000)]

    def __len__(self):
        return 320

    def __getitem__(self, i):
        rng = np.random.default_rng(i)
        x = rng.standard_normal((2, 3, 40, 40)).astype(np.float32)
        return torch.from_numpy(x), torch.tensor(self.notes[i]["box"], dtype=torch.float32)


def main():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(0, 1), nn.Conv2d(3, 16, 5, 2), nn.ReLU(), nn.Conv2d(16, 16, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(784, 4))
    opt = torch.optim.SGD(net.parameters(), 1e-4)
    loader = DataLoader(Frames(), batch_size=16, num_workers=1, multiprocessing_context="spawn")
    start = time.perf_counter()
    for epoch in range(4):
        for x, box in loader:
            loss = nn.functional.l1_loss(net(x).reshape(len(x), 2, 4).mean(1), box)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, round(loss.item(), 5))
    print(f"took {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
