"""Trains a small language model with mixed precision and accumulated gradients.

With --ideal the same steps run on tokens that are on the device already, and nothing is read: what
this machine could reach with this model.
"""

import argparse

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from pace import Pace


class Tokens(Dataset):
    """Blocks of consecutive tokens of a text that is in memory."""

    def __init__(self, vocabulary, length):
        self.text = torch.randint(vocabulary, (1_000_000,), generator=torch.Generator())
        self.length = length

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        begin = index * 7919 % (len(self.text) - self.length - 1)
        block = self.text[begin : begin + self.length + 1].tolist()
        return torch.tensor(block[:-1]), torch.tensor(block[1:])


class Block(nn.Module):
    """Attention, then two linear layers, each beside a shortcut."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before = nn.LayerNorm(width)
        self.inputs = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.between = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.inputs(self.before(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(functional.gelu(self.wide(self.between(x))))


class Language(nn.Module):
    """Scores of the next token."""

    def __init__(self, vocabulary, length, width, depth, heads):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.last = nn.LayerNorm(width)
        self.scores = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        return self.scores(self.last(self.blocks(self.tokens(tokens) + self.places)))


def repeat_batch(loader, device):
    """The first batch, on the device, for ever."""
    tokens, following = next(iter(loader))
    batch = tokens.to(device), following.to(device)
    while True:
        yield batch


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--vocabulary", type=int, default=32768)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--ideal", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    data = Tokens(args.vocabulary, args.length)
    workers = 0 if args.ideal else args.workers
    loader = DataLoader(data, batch_size=args.batch, num_workers=workers)
    network = Language(args.vocabulary, args.length, args.width, args.depth, args.heads)
    network.to(args.device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
    pace = Pace(args.device, args.seconds, args.batch * args.length * args.accumulate)
    total = 0.0
    batches = repeat_batch(loader, args.device) if args.ideal else loader
    for number, (tokens, following) in enumerate(batches, 1):
        tokens, following = tokens.to(args.device), following.to(args.device)
        with torch.autocast(args.device, torch.bfloat16):
            scores = network(tokens).flatten(0, 1)
            loss = functional.cross_entropy(scores.float(), following.flatten())
        (loss / args.accumulate).backward()
        if not args.ideal:
            total += loss.item()
        if number % args.accumulate:
            continue
        optimizer.step()
        optimizer.zero_grad()
        if pace.finish_step(loss):
            break
    if not args.ideal:
        print(f"mean loss {total / number:.4f}")


if __name__ == "__main__":
    main()
