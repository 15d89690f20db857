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


def draw_negatives(users):
    negatives = []
    for user in users:
        own = []
        while len(own) < 4:
            item = random.randrange(ITEMS)
            if item not in bought[user]:
                own.append(item)
        negatives.append(own)
    return torch.tensor(negatives)


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
