"""A small language model over lines of made-up text, in one file."""

import argparse
import json
import os
import time
from contextlib import nullcontext

import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, VOCABULARY = 0, 512


def corpus(count, shortest, longest, seed):
    """Lines of tokens; many short ones, few long ones."""
    g = torch.Generator().manual_seed(seed)
    lines = []
    for _ in range(count):
        u = torch.rand((), generator=g).item()
        length = int(shortest + (longest - shortest) * u**3)
        lines.append(torch.randint(1, VOCABULARY, (length,), generator=g))
    return lines


def order(lines, batch, grouped, g):
    """Indices of each batch of an epoch."""
    index = torch.randperm(len(lines), generator=g).tolist()
    if grouped:
        index.sort(key=lambda i: len(lines[i]))
    batches = [index[i : i + batch] for i in range(0, len(index) - batch + 1, batch)]
    return [batches[i] for i in torch.randperm(len(batches), generator=g).tolist()]


def stack(lines, width, multiple):
    longest = max(len(line) for line in lines)
    width = width or -(-longest // multiple) * multiple
    out = torch.full((len(lines), width), PAD)
    for row, line in zip(out, lines):
        row[: len(line)] = line
    return out


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.heads = heads

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Layer(nn.Module):
    def __init__(self, dim, heads, peek):
        super().__init__()
        self.attend = Attention(dim, heads)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.peek, self.largest = peek, 0.0

    def forward(self, x):
        x = x + self.attend(self.n1(x))
        if self.peek:
            self.largest = max(self.largest, float(x.detach().abs().amax()))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Model(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, args.dim, padding_idx=PAD)
        self.place = nn.Embedding(args.longest + 64, args.dim)
        self.layers = nn.ModuleList(Layer(args.dim, 4, args.peek) for _ in range(args.depth))
        self.norm, self.head = nn.LayerNorm(args.dim), nn.Linear(args.dim, VOCABULARY)

    def forward(self, tokens):
        x = self.token(tokens) + self.place.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def loss_of(model, tokens):
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=PAD)


def validate(model, lines, batch, gradients):
    model.eval()
    total = 0.0
    with nullcontext() if gradients else torch.no_grad():
        for i in range(0, len(lines), batch):
            total += loss_of(model, stack(lines[i : i + batch], 0, 1)).item()
    model.train()
    return total


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lines", type=int, default=1024)
    p.add_argument("--shortest", type=int, default=12)
    p.add_argument("--longest", type=int, default=160)
    p.add_argument("--width", type=int, default=0, help="of every batch; 0: its longest line")
    p.add_argument("--multiple", type=int, default=8)
    p.add_argument("--grouped", action="store_true", help="lines of like length together")
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--dim", type=int, default=96)
    p.add_argument("--depth", type=int, default=3)
    p.add_argument("--compile", action="store_true")
    p.add_argument("--dynamic", action="store_true")
    p.add_argument("--backend", default="inductor")
    p.add_argument("--peek", action="store_true", help="watch activations")
    p.add_argument("--validate-every", type=int, default=0)
    p.add_argument("--validate-batch", type=int, default=8)
    p.add_argument("--validate-lines", type=int, default=64)
    p.add_argument("--validate-gradients", action="store_true")
    p.add_argument("--save-every", type=int, default=0)
    p.add_argument("--steps", type=int, default=0)
    p.add_argument("--seconds", type=float, default=10.0)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--device", default="cpu")
    p.add_argument("--times")
    args = p.parse_args()

    begin = time.perf_counter()
    torch.manual_seed(args.seed)
    lines = corpus(args.lines, args.shortest, args.longest, args.seed)
    held = corpus(args.validate_lines, args.shortest, args.longest, args.seed + 1)
    device = torch.device(args.device)
    model = Model(args).to(device)
    if args.compile:
        from torch._dynamo import config

        config.cache_size_limit = 256
    trained = (
        torch.compile(model, dynamic=args.dynamic, backend=args.backend) if args.compile else model
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    g = torch.Generator().manual_seed(args.seed)
    marks, done = [], False
    while not done:
        for chosen in order(lines, args.batch, args.grouped, g):
            tokens = stack([lines[i] for i in chosen], args.width, args.multiple).to(device)
            loss = loss_of(trained, tokens)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            step = len(marks) + 1
            if args.validate_every and step % args.validate_every == 0:
                validate(model, held, args.validate_batch, args.validate_gradients)
            if args.save_every and step % args.save_every == 0:
                torch.save(model.state_dict(), "model.tmp")
                os.replace("model.tmp", "model.pt")
            if step % 50 == 0:
                print(f"{step}: {loss.item():.3f}", flush=True)
            marks.append(time.perf_counter())
            done = step == args.steps if args.steps else marks[-1] - marks[0] > args.seconds
            if done:
                break
    if args.times:
        with open(args.times, "w") as file:
            json.dump({"begin": begin, "marks": marks, "samples": args.batch}, file)


if __name__ == "__main__":
    main()
