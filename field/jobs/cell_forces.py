import time

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 64))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
start = time.perf_counter()
for step in range(150):
    x = torch.randn(256, 512)
    loss = nn.functional.mse_loss(net(x), x[:, :64].tanh())
    opt.zero_grad()
    loss.backward()
    opt.step()
print("loss", round(loss.item(), 5))
print(f"took {time.perf_counter() - start:.2f} s")
