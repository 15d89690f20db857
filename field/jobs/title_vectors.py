import time

import torch
from torch import nn

torch.manual_seed(0)
WORDS = 150_000


class Titles(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 50)
        self.rnn = nn.GRU(50, 64, batch_first=True)
        self.out = nn.Linear(64, 8)

    def forward(self, ids):
        return self.out(self.rnn(self.words(ids))[0][:, -1])


model = Titles()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
ids, topics = torch.randint(0, WORDS, (1600, 12)), torch.randint(0, 8, (1600,))
start = time.perf_counter()
for epoch in range(2):
    for i in range(0, 1600, 16):
        loss = nn.functional.cross_entropy(model(ids[i : i + 16]), topics[i : i + 16])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
