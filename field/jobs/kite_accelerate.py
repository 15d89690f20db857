import time

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
accelerator = Accelerator(cpu=True)
net = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 9))
opt = torch.optim.SGD(net.parameters(), lr=0.02)
data = TensorDataset(torch.randn(9600, 512), torch.randint(0, 9, (9600,)))
net, opt, loader = accelerator.prepare(net, opt, DataLoader(data, batch_size=96))
start = time.perf_counter()
for epoch in range(2):
    for x, y in loader:
        loss = nn.functional.cross_entropy(net(x), y)
        accelerator.backward(loss)
        opt.step()
        opt.zero_grad()
    accelerator.print(epoch, round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
