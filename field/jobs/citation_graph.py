import time

import torch
from torch import nn

torch.manual_seed(0)
NODES = 900


def normalise(links):
    adjacency = links + torch.eye(NODES)
    degree = adjacency.sum(1).pow(-0.5)
    return torch.diag(degree) @ adjacency @ torch.diag(degree)


class Layer(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.linear = nn.Linear(a, b)

    def forward(self, x, links):
        return normalise(links) @ self.linear(x)


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = Layer(64, 32), Layer(32, 7)

    def forward(self, x, links):
        return self.two(self.one(x, links).relu(), links)


links = (torch.rand(NODES, NODES) < 0.01).float()
links = ((links + links.T) > 0).float()
x, y = torch.randn(NODES, 64), torch.randint(0, 7, (NODES,))
model = Graph()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
start = time.perf_counter()
for epoch in range(80):
    loss = nn.functional.cross_entropy(model(x, links), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
