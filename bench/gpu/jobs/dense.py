"""Trains wide linear layers in bfloat16 on data that stays on the device: bound by computing."""

import argparse

import torch
from torch import nn

from pace import Pace


def make_step(network, optimizer, device):
    """One training step on given inputs."""

    def step(x, y):
        with torch.autocast(device, torch.bfloat16):
            loss = nn.functional.mse_loss(network(x), y)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()
        return loss

    return step


def capture_graph(step, x, y):
    """The step as one CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(x, y)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(x, y)
    return graph.replay


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--graph", action="store_true")
    parser.add_argument("--steps-per-read", type=int, default=50)
    args = parser.parse_args()

    torch.manual_seed(0)
    layers = [
        part for _ in range(args.depth) for part in (nn.Linear(args.width, args.width), nn.ReLU())
    ]
    network = nn.Sequential(*layers).to(args.device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True, capturable=args.graph)
    x = torch.randn(args.batch, args.width, device=args.device)
    y = torch.randn(args.batch, args.width, device=args.device)
    step = make_step(network, optimizer, args.device)
    run = capture_graph(step, x, y) if args.graph else lambda: step(x, y)
    pace = Pace(args.device, args.seconds, args.batch)
    while True:
        run()
        if pace.steps % args.steps_per_read == 0:
            getattr(torch, args.device).synchronize()
        if pace.finish_step():
            break


if __name__ == "__main__":
    main()
