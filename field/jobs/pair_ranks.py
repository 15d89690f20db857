"""Two balanced ranks on the CPU; the network is small beside its convolutions, so exchanges are short."""
import os
import socket
import time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def work(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    net = DistributedDataParallel(net, gradient_as_bucket_view=True)
    opt = torch.optim.SGD(net.parameters(), 0.01)
    data = torch.Generator().manual_seed(rank)
    x, y = torch.randn(16, 3, 64, 64, generator=data), torch.randint(10, (16,), generator=data)
    start = time.perf_counter()
    for step in range(60):
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 15 == 0:
            print(step, round(loss.item(), 4), flush=True)
    if rank == 0:
        print(f"took {time.perf_counter() - start:.2f} s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    torch.multiprocessing.spawn(work, (port,), 2)
