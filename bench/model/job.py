"""A small network whose layers can be replaced for real: ``--swap`` does what the look predicts."""

import argparse
import time

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--channels", type=int, default=64)
parser.add_argument("--size", type=int, default=32)
parser.add_argument("--steps", type=int, default=0, help="time steps of a recurrent network")
parser.add_argument("--swap", default="")
parser.add_argument("--count", type=int, default=40)
args = parser.parse_args()
torch.manual_seed(0)
c, padded = args.channels, {"kernel_size": 3, "padding": 1}


def conv(channels):
    if args.swap == "separable":
        depth = nn.Conv2d(channels, channels, **padded, groups=channels, bias=False)
        return nn.Sequential(depth, nn.Conv2d(channels, channels, 1))
    return nn.Conv2d(channels, channels, **padded, groups=8 if args.swap == "grouped" else 1)


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, c, 3, padding=1)
        self.body = nn.ModuleList(
            nn.Sequential(conv(c), nn.BatchNorm2d(c), nn.ReLU()) for _ in range(4)
        )
        self.head = nn.Linear(c, 10)

    def forward(self, x):
        x = self.stem(x)
        for block in self.body:
            x = x + block(x)
        return self.head(x.mean((2, 3)))


class Sequences(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(32, c)
        self.cell = nn.LSTM(c, c) if args.swap == "layer" else nn.LSTMCell(c, c)
        self.head = nn.Linear(c, 10)

    def forward(self, x):
        x = self.embed(x).transpose(0, 1)
        if args.swap == "layer":
            return self.head(self.cell(x)[0][-1])
        state = None
        for step in range(x.shape[0]):
            state = self.cell(x[step], state)
        return self.head(state[0])


model = Sequences() if args.steps else Images()
if args.swap == "channels_last":
    model = model.to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
shape = (16, args.steps, 32) if args.steps else (16, 3, args.size, args.size)
x, y = torch.randn(shape), torch.randint(0, 10, (16,))
times = []
for _ in range(args.count):
    begin = time.perf_counter()
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    times.append(time.perf_counter() - begin)
steady = sorted(times[10:])
print(steady[len(steady) // 2])
