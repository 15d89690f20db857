"""Trains wide linear layers in bfloat16 on data that stays on the device: bound by computing."""

import argparse

import torch
from torch import nn

from pace import Pace


def make_pass(network, device):
    """The forward and the backward pass for given inputs."""

    def run_pass(x, y):
        with torch.autocast(device, torch.bfloat16):
            loss = nn.functional.mse_loss(network(x), y)
        loss.backward()

    return run_pass


def capture_pass(run_pass, optimizer, x, y):
    """The pass as one CUDA graph, which writes the gradients anew each time."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run_pass(x, y)
            optimizer.zero_grad()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run_pass(x, y)
    return graph


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--batch", type=int, default=16384)
    parser.add_argument("--width", type=int, default=8192)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--graph", action="store_true")
    parser.add_argument("--steps-per-read", type=int, default=50)
    args = parser.parse_args()

    torch.manual_seed(0)
    layers = [
        part for _ in range(args.depth) for part in (nn.Linear(args.width, args.width), nn.ReLU())
    ]
    network = nn.Sequential(*layers).to(args.device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
    x = torch.randn(args.batch, args.width, device=args.device)
    y = torch.randn(args.batch, args.width, device=args.device)
    run_pass = make_pass(network, args.device)
    graph = capture_pass(run_pass, optimizer, x, y) if args.graph else None
    pace = Pace(args.device, args.seconds, args.batch)
    while True:
        if graph is None:
            optimizer.zero_grad()
            run_pass(x, y)
        else:
            graph.replay()
        optimizer.step()
        if pace.steps % args.steps_per_read == 0:
            getattr(torch, args.device).synchronize()
        if pace.finish_step():
            break


if __name__ == "__main__":
    main()
