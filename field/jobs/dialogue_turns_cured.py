import json
import random
import tempfile
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

random.seed(0)
path = tempfile.mktemp(suffix=".jsonl")
offsets = []
with open(path, "w") as f:
    for n in range(2400):
        offsets.append(f.tell())
        turns = [{"speaker": t % 2, "ids": [random.randint(1, 4999) for _ in range(24)], "meta": {"time": t, "tags": ["a"] * 20}} for t in range(12)]
        f.write(json.dumps({"id": n, "turns": turns, "label": n % 5}) + "\n")


class Dialogues(Dataset):
    def __init__(self):
        with open(path) as f:
            records = [json.loads(line) for line in f]
        self.ids = torch.tensor([[t for turn in r["turns"] for t in turn["ids"]] for r in records])
        self.labels = [r["label"] for r in records]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.ids[i], self.labels[i]


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5000, 32)
        self.head = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 5))

    def forward(self, ids):
        return self.head(self.embed(ids).mean(1))


torch.manual_seed(0)
model = Classifier()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Dialogues(), batch_size=24, shuffle=True)
start = time.perf_counter()
for epoch in range(5):
    for ids, label in loader:
        loss = nn.functional.cross_entropy(model(ids), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{epoch}: {loss.item():.4f}")
print(f"took {time.perf_counter() - start:.2f} s")
