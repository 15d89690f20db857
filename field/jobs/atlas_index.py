import random
import time

import torch
from torch import nn

start = time.perf_counter()
random.seed(0)
WORDS = ["".join(random.choices("abcdefgh", k=4)) for _ in range(2000)]
texts = [random.choices(WORDS, k=60) for _ in range(3000)]
index = {w: i for i, w in enumerate(sorted(set(WORDS)))}
ids = torch.tensor([[index[w] for w in text] for text in texts])
print("prepared", len(index), "words")

torch.manual_seed(0)
model = nn.Sequential(nn.EmbeddingBag(len(index), 256), nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 4))
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(3):
    for i in range(0, 3000, 50):
        batch = ids[i : i + 50]
        loss = nn.functional.cross_entropy(model(batch), batch[:, 0] % 4)
        opt.zero_grad()
        loss.backward()
        opt.step()
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
