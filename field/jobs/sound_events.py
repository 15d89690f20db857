import time

import torch
from torch import nn


class Events(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(40, 64)
        self.out = nn.Linear(64, 6)

    def forward(self, x):
        h = x.new_zeros(len(x), 64)
        states = []
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            states.append(h)
        return self.out(torch.stack(states, 1))


torch.manual_seed(0)
model = Events()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
x = torch.randn(160, 128, 40)
y = (torch.rand(160, 128, 6) < 0.1).float()
start = time.perf_counter()
for epoch in range(5):
    for i in range(0, 160, 8):
        loss = nn.functional.binary_cross_entropy_with_logits(model(x[i : i + 8]), y[i : i + 8])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
