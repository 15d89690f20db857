import time

import torch
from torch import nn

torch.manual_seed(0)
LENGTH, WIDTH = 96, 64
MASK = torch.full((LENGTH, LENGTH), float("-inf")).triu(1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 128), nn.Linear(128, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        weights = (q @ k.transpose(1, 2) / WIDTH**0.5 + MASK).softmax(-1)
        x = x + self.out(weights @ v)
        return x + self.down(self.up(x).relu())


class Story(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.layers, self.head = nn.Embedding(300, WIDTH), nn.Sequential(Layer(), Layer()), nn.Linear(WIDTH, 300)

    def forward(self, ids):
        return self.head(self.layers(self.embed(ids)))


ids = torch.randint(0, 300, (64, LENGTH + 1))
model = Story()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
start = time.perf_counter()
for step in range(90):
    batch = ids[torch.arange(step * 4, step * 4 + 4) % 64]
    logits = model(batch[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
