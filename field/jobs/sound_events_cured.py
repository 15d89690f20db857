import time

import torch
from torch import nn


class Events(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(40, 64, batch_first=True)
        self.out = nn.Linear(64, 6)

    def forward(self, x):
        return self.out(self.rnn(x)[0])


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
