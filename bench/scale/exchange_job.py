"""Two ranks that train a small network, for ``exchange_fixes.py``."""

import argparse
import json
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--layers", type=int, default=6)
parser.add_argument("--width", type=int, default=400)
parser.add_argument("--bucket-mb", type=float)
parser.add_argument("--find-unused", action="store_true")
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()

torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
layers = [torch.nn.Linear(args.width, args.width) for _ in range(args.layers)]
model = torch.nn.Sequential(*[torch.nn.Sequential(layer, torch.nn.Tanh()) for layer in layers])
model = DistributedDataParallel(
    model, bucket_cap_mb=args.bucket_mb, find_unused_parameters=args.find_unused
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(dist.get_rank())
times, loss = [], torch.zeros(())
for _ in range(args.steps):
    begin = time.perf_counter()
    optimizer.zero_grad()
    for _ in range(args.accumulate):
        x = torch.randn(8, args.width)
        loss = (model(x) - x.flip(1)).square().mean() / args.accumulate
        loss.backward()
    optimizer.step()
    times.append(time.perf_counter() - begin)
if dist.get_rank() == 0:
    print(json.dumps({"step_ms": 1e3 * statistics.median(times[10:]), "loss": loss.item()}))
dist.destroy_process_group()
