"""Fits a multi-layer perceptron to rows of a table."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from pace import Pace


class Rows(Dataset):
    """Rows in host memory, read a whole batch at a time."""

    def __init__(self, batch, columns):
        self.rows = torch.randn(8, batch, columns)
        self.targets = torch.randn(8, batch, 1)

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return self.rows[index % 8], self.targets[index % 8]


def build_network(width, depth):
    """Linear layers of equal width."""
    layers = [part for _ in range(depth) for part in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(width, 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--pin", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--read-every", type=int, default=100)
    parser.add_argument("--empty-cache", action="store_true")
    parser.add_argument("--save-every", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high" if args.tf32 else "highest")
    loader = DataLoader(
        Rows(args.batch, args.width),
        batch_size=None,
        num_workers=2,
        pin_memory=args.pin,
        prefetch_factor=4,
    )
    network = build_network(args.width, args.depth).to(args.device)
    kind = {"fused": True} if args.fused else {"foreach": False}
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, **kind)
    total = 0.0
    pace = Pace(args.device, args.seconds, args.batch)
    for step, (rows, targets) in enumerate(loader, 1):
        rows = rows.to(args.device, non_blocking=args.pin)
        targets = targets.to(args.device, non_blocking=args.pin)
        with torch.autocast(args.device, torch.bfloat16, enabled=args.bf16):
            loss = nn.functional.mse_loss(network(rows).float(), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if args.empty_cache:
            getattr(torch, args.device).empty_cache()
        if args.save_every and step % args.save_every == 0:
            torch.save({"network": network.state_dict(), "step": step}, "checkpoint.pt")
        if step % args.read_every == 0:
            total += loss.item()
        if pace.finish_step(loss):
            break
    print(f"sum of the losses read: {total:.4f}")


if __name__ == "__main__":
    main()
