import random
import time

import torch
from torch import nn

random.seed(0)
torch.manual_seed(0)
USERS, ITEMS = 500, 2000
bought = [set(random.sample(range(ITEMS), 40)) for _ in range(USERS)]
pairs = [(u, i) for u in range(USERS) for i in bought[u]]
random.shuffle(pairs)
known = torch.zeros(USERS, ITEMS, dtype=torch.bool)
for u, i in pairs:
    known[u, i] = True


def draw_negatives(users):
    users = torch.tensor(users).unsqueeze(1)
    items = torch.randint(ITEMS, (len(users), 4))
    while (wrong := known[users, items]).any():
        items[wrong] = torch.randint(ITEMS, (int(wrong.sum()),))
    return items


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.items = nn.Embedding(USERS, 32), nn.Embedding(ITEMS, 32)

    def forward(self, users, items):
        return (self.users(users).unsqueeze(1) * self.items(items)).sum(-1)


model = Ranker()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
start = time.perf_counter()
for epoch in range(20):
    for i in range(0, len(pairs), 512):
        users, items = zip(*pairs[i : i + 512])
        negatives = draw_negatives(users)
        users, items = torch.tensor(users), torch.tensor(items)
        scores = model(users, torch.cat([items.unsqueeze(1), negatives], 1))
        loss = -nn.functional.logsigmoid(scores[:, :1] - scores[:, 1:]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print("loss", round(loss.item(), 1))
print(f"took {time.perf_counter() - start:.2f} s")
