"""Labels every pixel of cut-outs of street scenes, which are as large as what they show."""

import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Scenes(Dataset):
    """Each batch is cut to one size: ``widest`` at most, ``narrowest`` at least."""

    def __init__(self, args):
        g = torch.Generator().manual_seed(args.seed)
        self.scenes = torch.rand(args.scenes, 3, args.widest, args.widest, generator=g)
        self.labels = (self.scenes.mean(1) * 8).long().clamp(0, 3)
        self.sizes = torch.randint(
            args.narrowest, args.widest + 1, (args.epoch // args.batch + 1, 2), generator=g
        )[torch.arange(args.epoch // args.batch + 1) % (args.kinds or args.epoch)]
        self.batch, self.count = args.batch, args.epoch

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        height, width = self.sizes[index // self.batch].tolist()
        index %= len(self.scenes)
        return self.scenes[index, :, :height, :width], self.labels[index, :height, :width]


class Labeller(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.head = nn.Conv2d(width, 4, 1)

    def forward(self, x):
        x = F.relu(self.stem(x))
        for block in self.blocks:
            x = x + F.relu(block(x))
        return self.head(x)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--scenes", type=int, default=64)
    p.add_argument("--epoch", type=int, default=100_000)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--widest", type=int, default=64)
    p.add_argument("--narrowest", type=int, default=32)
    p.add_argument("--kinds", type=int, default=0, help="of sizes; 0: any number")
    p.add_argument("--width", type=int, default=8)
    p.add_argument("--depth", type=int, default=3)
    p.add_argument("--search", action="store_true", help="let cuDNN search")
    p.add_argument("--steps", type=int, default=0)
    p.add_argument("--seconds", type=float, default=10.0)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--device", default="cpu")
    p.add_argument("--times")
    return p.parse_args()


def main():
    args = parse()
    begin = time.perf_counter()
    torch.manual_seed(args.seed)
    torch.backends.cudnn.benchmark = args.search
    loader = DataLoader(
        Scenes(args), args.batch, num_workers=1, pin_memory=True, persistent_workers=True
    )
    device = torch.device(args.device)
    net = Labeller(args.width, args.depth).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, fused=True)
    marks, drained, done, until = [], [], False, args.seconds
    while not done:
        for scenes, labels in loader:
            scenes = scenes.to(device, non_blocking=True)
            scenes = scenes.contiguous(memory_format=torch.channels_last)
            labels = labels.to(device, non_blocking=True)
            with torch.autocast(device.type, torch.bfloat16):
                loss = F.cross_entropy(net(scenes), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step = len(marks) + 1
            if step % 100 == 0:
                print(step, loss.item(), flush=True)
            past = time.perf_counter() - marks[0] if marks else 0.0
            done = step == args.steps if args.steps else past > until
            if args.times and (done or (not drained and past > args.seconds / 5)):
                # what is timed begins and ends with a device that has done all it was given
                getattr(torch, device.type).synchronize()
                drained.append(len(marks))
                until = time.perf_counter() - marks[0] + args.seconds * 4 / 5
            marks.append(time.perf_counter())
            if done:
                break
    if args.times:
        with open(args.times, "w") as file:
            told = {"begin": begin, "marks": marks, "samples": args.batch, "drained": drained}
            json.dump(told, file)


if __name__ == "__main__":
    main()
