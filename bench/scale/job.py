"""A job of several ranks on the emulated device whose layers take a random time."""

import argparse
import random

import torch
import torch.distributed as dist

import emulator.device as emulated

parser = argparse.ArgumentParser()
parser.add_argument("--bandwidth", type=float, required=True, help="bytes/s of the network")
parser.add_argument("--sigma", type=float, required=True, help="of the logarithm of a step's time")
parser.add_argument("--width", type=int, default=256)
parser.add_argument("--bucket-mb", type=float, default=0.5)
parser.add_argument("--steps", type=int, default=74)
args = parser.parse_args()

emulated.configure(network_bandwidth=args.bandwidth, network_ns=300_000)
dist.init_process_group("emulated")
drawn = random.Random(100 + dist.get_rank())
slower = 1.0


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(args.width, args.width)

    def forward(self, x):
        return x + emulated.work(self.linear(x), 5.0 * slower)


torch.manual_seed(0)
model = torch.nn.Sequential(*[Layer() for _ in range(8)]).to("emulated")
model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=args.bucket_mb)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(4, args.width).to("emulated")
for _ in range(args.steps):
    slower = drawn.lognormvariate(-(args.sigma**2) / 2, args.sigma)
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    loss.item()
