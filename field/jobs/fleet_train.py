import subprocess
import time

import torch
from torch import nn

torch.manual_seed(0)


def read_machine():
    lines = subprocess.check_output(["sh", "-c", "cat /proc/meminfo | grep Mem"], text=True).splitlines()
    return {line.split(":")[0]: int(line.split()[1]) for line in lines}


net = nn.Sequential(nn.Conv1d(4, 32, 5), nn.ReLU(), nn.Conv1d(32, 32, 5), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
history = []
start = time.perf_counter()
for step in range(300):
    x, y = torch.randn(16, 4, 128), torch.randint(0, 3, (16,))
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    history.append({"step": step, **read_machine()})
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
