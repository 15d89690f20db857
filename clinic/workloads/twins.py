"""A sequence tagger on several processes: start it with torchrun."""

import argparse
import contextlib
import json
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel


class Tagger(nn.Module):
    def __init__(self, words, dim, layers, spare):
        super().__init__()
        self.words = nn.Embedding(words, dim)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.LayerNorm(dim)) for _ in range(layers)
        )
        self.spare = nn.Linear(dim, 8) if spare else None
        self.tags = nn.Linear(dim, 16)

    def forward(self, x):
        x = self.words(x)
        for layer in self.layers:
            x = x + layer(x)
        return self.tags(x)


def sentences(args, rank, step):
    """Of this rank and step; the same whatever the number of processes does meanwhile."""
    g = torch.Generator().manual_seed(args.seed * 7919 + step * 64 + rank)
    length = args.length
    if args.skew:
        length = round(length * (1 + args.skew if rank else 1 - args.skew))
    return torch.randint(0, args.words, (args.batch, length), generator=g)


def report(loss, x, rows):
    """A line for the log: which words were how hard."""
    table = {}
    for row in x[:rows].tolist():
        for word in row:
            table[word] = table.get(word, 0) + len(str(word)) * 0.5
    return f"{loss:.3f} " + " ".join(f"{k}:{v}" for k, v in sorted(table.items())[:20])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--words", type=int, default=2000)
    p.add_argument("--dim", type=int, default=128)
    p.add_argument("--depth", type=int, default=4)
    p.add_argument("--length", type=int, default=64)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--skew", type=float, default=0.0)
    p.add_argument("--rounds", type=int, default=1, help="batches per update")
    p.add_argument("--hold", action="store_true", help="exchange once per update")
    p.add_argument("--search", action="store_true", help="look for unused parameters")
    p.add_argument("--bucket-mb", type=float, default=25.0)
    p.add_argument("--compress", action="store_true")
    p.add_argument("--log-rows", type=int, default=0, help="rank 0 writes so much")
    p.add_argument("--steps", type=int, default=0)
    p.add_argument("--seconds", type=float, default=10.0)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--device", default="cpu")
    p.add_argument("--times")
    args = p.parse_args()
    begin = time.perf_counter()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    model = DistributedDataParallel(
        Tagger(args.words, args.dim, args.depth, False),
        find_unused_parameters=args.search,
        bucket_cap_mb=args.bucket_mb,
    )
    if args.compress:
        model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    marks, more = [], True
    go = torch.ones(1)
    while more:
        for part in range(args.rounds):
            x = sentences(args, rank, len(marks) * args.rounds + part)
            quiet = args.hold and part + 1 < args.rounds
            with model.no_sync() if quiet else contextlib.nullcontext():
                out = model(x)
                loss = nn.functional.cross_entropy(out.flatten(0, 1), (x % 16).flatten())
                (loss / args.rounds).backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and args.log_rows:
            line = report(loss.item(), x, args.log_rows)
            if len(marks) % 200 == 0:
                print(line, flush=True)
        marks.append(time.perf_counter())
        if args.steps:
            more = len(marks) < args.steps
        elif len(marks) % 20 == 0:
            go[0] = float(marks[-1] - marks[0] < args.seconds)
            dist.broadcast(go, 0)
            more = bool(go[0])
    if rank == 0 and args.times:
        with open(args.times, "w") as file:
            each = args.batch * args.rounds * world
            json.dump({"begin": begin, "marks": marks, "samples": each}, file)
    dist.barrier()  # who leaves while another still talks may take that one down
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
