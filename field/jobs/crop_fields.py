import time

import torch
from sklearn.metrics import confusion_matrix, jaccard_score, precision_recall_fscore_support
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 6, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.05)


def report(out, y):
    guess, truth = out.argmax(1).flatten().numpy(), y.flatten().numpy()
    precision, recall, fscore, _ = precision_recall_fscore_support(truth, guess, average="weighted", zero_division=0)
    return precision, recall, fscore, jaccard_score(truth, guess, average="macro", zero_division=0), confusion_matrix(truth, guess)


start = time.perf_counter()
for step in range(150):
    x, y = torch.randn(4, 4, 48, 48), torch.randint(0, 6, (4, 48, 48))
    out = net(x)
    loss = nn.functional.cross_entropy(out, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    scores = report(out.detach(), y)
    if step % 50 == 49:
        print(step, round(loss.item(), 4), round(scores[2], 3))
print(f"took {time.perf_counter() - start:.2f} s")
