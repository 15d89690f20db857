import time

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv3d(2, 8, 3), nn.ReLU(), nn.Conv3d(8, 8, 3), nn.ReLU(), nn.MaxPool3d(2), nn.Flatten(), nn.Linear(8 * 216, 1)
)
opt = torch.optim.SGD(net.parameters(), lr=1e-4)
held, wanted = torch.randn(48, 2, 16, 16, 16), torch.randn(48, 1)


def evaluate():
    net.eval()
    error = 0.0
    for i in range(0, 48, 8):
        error += nn.functional.mse_loss(net(held[i : i + 8]), wanted[i : i + 8])
    net.train()
    return float(error) / 6


start = time.perf_counter()
for step in range(120):
    x, y = torch.randn(8, 2, 16, 16, 16), torch.randn(8, 1)
    loss = nn.functional.mse_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 2 == 1:
        error = evaluate()
print("error", round(error, 4))
print(f"took {time.perf_counter() - start:.2f} s")
