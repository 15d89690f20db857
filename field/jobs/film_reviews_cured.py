import random
import re
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

random.seed(0)
WORDS = ["".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(2, 9))) for _ in range(3000)]
VOCAB = {w: i + 1 for i, w in enumerate(WORDS)}
TEXTS = [" ".join(random.choices(WORDS, k=900)).capitalize() + "." for _ in range(600)]


def tokenize(text):
    tokens = re.findall(r"[a-z]+|[.,!?]", text.lower())
    return [VOCAB.get(t, 0) for t in tokens][:900]


IDS = [torch.tensor((ids := tokenize(t)) + [0] * (900 - len(ids))) for t in TEXTS]


class Reviews(Dataset):
    def __len__(self):
        return len(TEXTS)

    def __getitem__(self, i):
        return IDS[i], i % 2


torch.manual_seed(0)
model = nn.Sequential(nn.EmbeddingBag(3001, 64), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Reviews(), batch_size=12, shuffle=True)
start = time.perf_counter()
for epoch in range(7):
    for ids, label in loader:
        loss = nn.functional.cross_entropy(model(ids), label)
        opt.zero_grad()
        loss.backward()
        opt.step()
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
