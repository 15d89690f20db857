import time

import torch
from torch import nn
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassAUROC, MulticlassConfusionMatrix, MulticlassF1Score

torch.manual_seed(0)
metrics = MetricCollection(
    [MulticlassAUROC(7, thresholds=50), MulticlassF1Score(7), MulticlassConfusionMatrix(7)]
)
net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 7))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
start = time.perf_counter()
for step in range(900):
    x, y = torch.randn(64, 64), torch.randint(0, 7, (64,))
    out = net(x)
    loss = nn.functional.cross_entropy(out, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    metrics.update(out.detach().softmax(1), y)
scores = metrics.compute()
print("f1", round(scores["MulticlassF1Score"].item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
