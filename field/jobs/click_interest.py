import time

import torch
from torch import nn


class Interest(nn.Module):
    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(5000, 32)
        self.mix = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32))
        self.score = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
        self.top = nn.Linear(64, 1)

    def forward(self, history, item):
        wanted = self.items(item)
        h = []
        for j in range(history.shape[1]):
            past = self.items(history[:, j])
            h.append(self.mix(torch.cat([past, wanted], 1)))
        h = torch.stack(h, 1)
        attention = torch.stack([self.score(h[:, j]) for j in range(h.shape[1])], 1).softmax(1)
        return self.top(torch.cat([(h * attention).sum(1), wanted], 1)).squeeze(1)


torch.manual_seed(0)
model = Interest()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
history, item = torch.randint(0, 5000, (3840, 60)), torch.randint(0, 5000, (3840,))
clicked = (torch.rand(3840) < 0.3).float()
start = time.perf_counter()
for epoch in range(4):
    for i in range(0, 3840, 128):
        rows = slice(i, i + 128)
        loss = nn.functional.binary_cross_entropy_with_logits(model(history[rows], item[rows]), clicked[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
