"""A small network whose layers can be replaced for real: ``--swap`` does what the look predicts."""

import argparse
import math
import sys
import time

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--channels", type=int, default=64)
parser.add_argument("--size", type=int, default=32)
parser.add_argument("--steps", type=int, default=0, help="time steps of a recurrent network")
parser.add_argument("--tokens", type=int, default=0, help="length of a transformer's sequences")
parser.add_argument("--swap", default="")
parser.add_argument("--asked", action="store_true", help="a step for each line of the input")
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


class Block(nn.Module):
    """A block with causal attention written out, as minGPT has it."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.qkv, self.out, self.drop = nn.Linear(c, 3 * c), nn.Linear(c, c), nn.Dropout(0.1)
        self.mlp = nn.Sequential(nn.Linear(c, 4 * c), nn.GELU(), nn.Linear(4 * c, c))
        mask = torch.tril(torch.ones(args.tokens, args.tokens))
        self.register_buffer("mask", mask[None, None])

    def attend(self, q, k, v):
        if args.swap == "attention":
            return nn.functional.scaled_dot_product_attention(q, k, v, None, 0.1, is_causal=True)
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.mask == 0, float("-inf"))
        return self.drop(nn.functional.softmax(scores, dim=-1)) @ v

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (part.view(b, t, 4, c // 4).transpose(1, 2)
                   for part in self.qkv(self.norm1(x)).split(c, dim=2))  # fmt: skip
        x = x + self.out(self.attend(q, k, v).transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(100, c), nn.Linear(c, 10)
        self.blocks = nn.Sequential(Block(), Block())

    def forward(self, ids):
        return self.head(self.blocks(self.embed(ids)).mean(1))


model = Sequences() if args.steps else Tokens() if args.tokens else Images()
if args.swap == "channels_last":
    model = model.to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
shape = (16, args.steps, 32) if args.steps else (16, 3, args.size, args.size)
x, y = torch.randn(shape), torch.randint(0, 10, (16,))
if args.tokens:
    x = torch.randint(0, 100, (16, args.tokens))


def step():
    begin = time.perf_counter()
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return time.perf_counter() - begin


for _ in sys.stdin if args.asked else range(args.count):
    print(step(), flush=True)
