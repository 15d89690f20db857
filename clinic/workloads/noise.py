"""Learns to take noise out of small pictures, step by step: a little U-Net."""

import argparse
import copy
import json
import math
import os
import time

import torch
import torch.nn.functional as F
from torch import nn


def settings():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pictures", type=int, default=512)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--blend-every", type=int, default=1)
    parser.add_argument("--save-every", type=int, default=0)
    parser.add_argument("--save-after", type=float, default=0.0)
    parser.add_argument("--extra", type=int, default=0)
    parser.add_argument("--draw-every", type=int, default=0)
    parser.add_argument("--draw-steps", type=int, default=24)
    parser.add_argument("--draw-count", type=int, default=1)
    parser.add_argument("--measure", type=int, default=0)
    parser.add_argument("--measured", action="store_true")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", type=str, default="cpu")
    parser.add_argument("--times", type=str, default="")
    return parser.parse_args()


class Unit(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(4, b)
        self.time = nn.Linear(32, b)

    def forward(self, x, t):
        return F.silu(self.norm(self.conv(x)) + self.time(t)[:, :, None, None])


class UNet(nn.Module):
    def __init__(self, w, extra):
        super().__init__()
        self.a, self.b, self.c = Unit(3, w), Unit(w, 2 * w), Unit(2 * w, 2 * w)
        self.d, self.e = Unit(4 * w, w), Unit(2 * w, w)
        self.out = nn.Conv2d(w, 3, 1)
        self.words = nn.Embedding(max(extra, 1), 512)  # prompts come later

    def forward(self, x, t):
        angle = t[:, None] * torch.exp(torch.arange(16, device=x.device) * (-math.log(1e4) / 16))
        t = torch.cat([angle.sin(), angle.cos()], 1)
        a = self.a(x, t)
        b = self.b(F.avg_pool2d(a, 2), t)
        c = F.interpolate(self.c(F.avg_pool2d(b, 2), t), scale_factor=2)
        d = F.interpolate(self.d(torch.cat([b, c], 1), t), scale_factor=2)
        return self.out(self.e(torch.cat([a, d], 1), t))


class Diffusion:
    def __init__(self, s):
        self.s = s
        torch.manual_seed(s.seed)
        self.pictures = self.paint(s.pictures, s.side)
        self.mean, self.spread = self.statistics()
        self.net = UNet(s.width, s.extra).to(s.device)
        self.smooth = copy.deepcopy(self.net).requires_grad_(False)
        self.optimizer = torch.optim.Adam(
            [p for n, p in self.net.named_parameters() if not n.startswith("words")],
            lr=2e-4,
            fused=True,
        )
        self.level = torch.cos(torch.linspace(0, math.pi / 2, 1001)) ** 2
        self.marks = []

    def paint(self, count, side):
        at = torch.linspace(-1, 1, side)
        centre = torch.rand(count, 3, 2, 1, 1) * 1.6 - 0.8
        far = (at.view(1, 1, -1, 1) - centre[:, :, 0]) ** 2
        far = far + (at.view(1, 1, 1, -1) - centre[:, :, 1]) ** 2
        return torch.exp(-4 * far)

    def statistics(self):
        """Mean and spread of the pixels, over as many pictures as asked for."""
        if self.s.measured or not self.s.measure:
            return 0.3, 0.3
        total = square = count = 0.0
        for picture in self.pictures.repeat(self.s.measure // len(self.pictures) + 1, 1, 1, 1):
            for value in picture[0].flatten().tolist():
                total += value
                square += value * value
                count += 1
        mean = total / count
        return mean, math.sqrt(square / count - mean * mean)

    def batch(self):
        index = torch.randint(len(self.pictures), (self.s.batch,))
        return ((self.pictures[index] - self.mean) / self.spread).to(self.s.device)

    def loss(self, x):
        t = torch.randint(1, 1000, (len(x),))
        level = self.level[t].view(-1, 1, 1, 1).to(x.device)
        noise = torch.randn_like(x)
        mixed = level.sqrt() * x + (1 - level).sqrt() * noise
        return F.mse_loss(self.net(mixed, t.float().to(x.device)), noise)

    def blend(self):
        with torch.no_grad():
            for old, new in zip(self.smooth.parameters(), self.net.parameters()):
                old.lerp_(new, 0.002)

    @torch.no_grad()
    def draw(self):
        """A few pictures from nothing, to look at."""
        self.smooth.eval()
        x = torch.randn(self.s.draw_count, 3, self.s.side, self.s.side, device=self.s.device)
        for i in range(self.s.draw_steps, 0, -1):
            t = torch.full((len(x),), 1000.0 * i / self.s.draw_steps, device=x.device)
            x = x - self.smooth(x, t) / self.s.draw_steps
        self.smooth.train()
        return x

    def keep(self):
        state = {"net": self.net.state_dict(), "smooth": self.smooth.state_dict()}
        with open("kept.tmp", "wb") as file:
            torch.save({**state, "optimizer": self.optimizer.state_dict()}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace("kept.tmp", "kept.pt")

    def age(self):
        return time.perf_counter() - self.marks[0] if self.marks else 0.0

    def train(self):
        s = self.s
        while True:
            loss = self.loss(self.batch())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            step = len(self.marks) + 1
            if step % s.blend_every == 0:
                self.blend()
            if s.draw_every and step % s.draw_every == 0:
                self.draw()
            if s.save_every and step % s.save_every == 0 and self.age() >= s.save_after:
                self.keep()
            if step % 50 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
            self.marks.append(time.perf_counter())
            if step == s.steps or (not s.steps and self.marks[-1] - self.marks[0] > s.seconds):
                return


if __name__ == "__main__":
    begin = time.perf_counter()
    chosen = settings()
    job = Diffusion(chosen)
    job.train()
    if chosen.times:
        with open(chosen.times, "w") as file:
            json.dump({"begin": begin, "marks": job.marks, "samples": chosen.batch}, file)
