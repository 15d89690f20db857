"""Tells leaves apart: a small residual network on a folder of JPEG files."""

import argparse
import json
import os
import random
import sys
import time

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageFilter
from torch import nn
from torch.utils.data import DataLoader, Dataset

SPECIES = 12


def grow(folder, count, size, seed):
    """Draws leaves and writes them as JPEG files."""
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(seed)
    ys, xs = np.mgrid[-1 : 1 : size * 1j, -1 : 1 : size * 1j]
    for i in range(count):
        kind = i % SPECIES
        angle = np.arctan2(ys, xs)
        edge = 0.55 + 0.25 * np.sin((kind % 6 + 2) * angle + rng.uniform(0, 3))
        inside = np.hypot(xs, ys * (1 + kind / SPECIES)) < edge
        picture = rng.integers(0, 70, (size, size, 3))
        picture[inside] += np.array([30 + 8 * kind, 120, 40])
        file = f"{folder}/{i:05}_{kind}.jpg"
        Image.fromarray(picture.clip(0, 255).astype(np.uint8)).save(file, quality=88)


STORAGE = """
def opened(event, arguments):
    if event == "open" and within(arguments[0]) and clock() >= begin.item():
        sleep(Random(clock()).expovariate(1.0 / delay))
"""


def put_far_away(folder, delay, begin):
    """From a moment on, whoever opens a file of the folder waits for it. That is the storage's own
    doing, so it shows in no line of this file."""
    folder = os.path.abspath(folder)
    names = {
        "within": lambda path: os.path.abspath(str(path)).startswith(folder),
        "delay": delay,
        "begin": begin,
        "Random": random.Random,
        "clock": time.perf_counter,
        "sleep": time.sleep,
    }
    exec(compile(STORAGE, "<storage>", "exec"), names)
    sys.addaudithook(names["opened"])


class LeafFolder(Dataset):
    def __init__(self, folder, side, variety, remember, repeat):
        self.files = sorted(os.path.join(folder, name) for name in os.listdir(folder))
        self.side = side
        self.variety = variety
        self.memory = {} if remember else None
        self.repeat = repeat

    def __len__(self):
        return len(self.files) * self.repeat

    def fetch(self, path):
        with open(path, "rb") as file:
            image = Image.open(file)
            image.load()
        return image.convert("RGB")

    def augment(self, image):
        for turn in range(self.variety):
            pick = (turn + random.randrange(2)) % 4
            if pick == 0:
                image = image.filter(ImageFilter.GaussianBlur(random.uniform(0.3, 1.6)))
            elif pick == 1:
                image = image.rotate(random.uniform(-25, 25), resample=Image.BICUBIC)
            elif pick == 2:
                image = ImageEnhance.Color(image).enhance(random.uniform(0.6, 1.4))
            else:
                image = ImageEnhance.Contrast(image).enhance(random.uniform(0.6, 1.4))
        return image

    def decode(self, path):
        image = self.fetch(path)
        image = self.augment(image).resize((self.side, self.side), Image.LANCZOS)
        pixels = np.asarray(image, dtype=np.float32) / 127.5 - 1.0
        return torch.from_numpy(pixels).permute(2, 0, 1).contiguous()

    def __getitem__(self, index):
        path = self.files[index % len(self.files)]
        kind = int(path.rsplit("_", 1)[1][:-4])
        if self.memory is None:
            return self.decode(path), kind
        if path not in self.memory:
            self.memory[path] = self.decode(path)
        return self.memory[path], kind


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.a = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.b = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, x):
        y = torch.relu(self.na(self.a(x)))
        return torch.relu(x + self.nb(self.b(y)))


class Net(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 5, stride=2, padding=2)
        self.blocks = nn.Sequential(*[Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, SPECIES)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class Trainer:
    def __init__(self, args):
        self.args = args
        self.device = torch.device(args.device)
        grow("leaves", args.files, args.pixels, args.seed)
        self.data = LeafFolder("leaves", args.side, args.variety, args.remember, args.repeat)
        self.crowded_from = torch.zeros(1, dtype=torch.float64).share_memory_()
        if args.delay_after > 0:
            self.crowded_from.fill_(float("inf"))
        if args.delay:
            put_far_away("leaves", args.delay / 1e3, self.crowded_from)
        self.net = Net(args.width, args.depth).to(self.device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.02, momentum=0.9, fused=True)
        self.loss = nn.CrossEntropyLoss()
        self.marks = []
        self.step = 0

    def loader(self):
        args = self.args
        more = {}
        if args.workers:
            more = {"persistent_workers": args.stay, "prefetch_factor": args.ahead}
        return DataLoader(
            self.data,
            batch_size=args.batch,
            shuffle=True,
            drop_last=True,
            num_workers=args.workers,
            **more,
        )

    def enough(self):
        if self.args.steps:
            return self.step >= self.args.steps
        return bool(self.marks) and time.perf_counter() - self.marks[0] > self.args.seconds

    def fit(self):
        loader = self.loader()
        epoch = 0
        while not self.enough():
            seen, right = 0, 0
            for images, kinds in loader:
                images, kinds = images.to(self.device), kinds.to(self.device)
                out = self.net(images)
                loss = self.loss(out, kinds)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.step += 1
                if self.step == 1:
                    self.crowded_from.fill_(time.perf_counter() + self.args.delay_after)
                seen += len(kinds)
                right += int((out.argmax(1) == kinds).sum())
                if self.args.save_every and self.step % self.args.save_every == 0:
                    self.save()
                self.marks.append(time.perf_counter())
                if self.enough():
                    break
            epoch += 1
            print(f"epoch {epoch}: {right / max(seen, 1):.1%} right after {self.step} steps")

    def save(self):
        torch.save(
            {"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict()}, "last.pt"
        )


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=256)
    parser.add_argument("--pixels", type=int, default=96, help="of the files")
    parser.add_argument("--side", type=int, default=48, help="of the network's input")
    parser.add_argument("--variety", type=int, default=2, help="augmentations per image")
    parser.add_argument("--delay", type=float, default=0.0, help="of the storage, ms")
    parser.add_argument("--delay-after", type=float, default=0.0, help="from then on, s")
    parser.add_argument("--remember", action="store_true")
    parser.add_argument("--repeat", type=int, default=4)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--stay", action="store_true")
    parser.add_argument("--ahead", type=int, default=2)
    parser.add_argument("--width", type=int, default=24)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--save-every", type=int, default=0)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--times")
    return parser.parse_args()


if __name__ == "__main__":
    begin = time.perf_counter()
    args = parse()
    torch.manual_seed(args.seed)
    random.seed(args.seed)
    trainer = Trainer(args)
    trainer.fit()
    if args.times:
        with open(args.times, "w") as file:
            json.dump({"begin": begin, "marks": trainer.marks, "samples": args.batch}, file)
