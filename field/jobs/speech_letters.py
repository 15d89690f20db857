import time

import torch
from torch import nn

torch.manual_seed(0)
LETTERS = "_abcdefghijklmnopqrstuvwxyz"


def decode(scores, width=4):
    beams = [("", 0.0)]
    for frame in scores.tolist():
        longer = [(text + (LETTERS[k] if k else ""), total + value) for text, total in beams for k, value in enumerate(frame)]
        beams = sorted(longer, key=lambda b: -b[1])[:width]
    return beams[0][0]


def distance(a, b):
    last = list(range(len(b) + 1))
    for i, x in enumerate(a):
        row = [i + 1]
        for j, y in enumerate(b):
            row.append(min(last[j + 1] + 1, row[j] + 1, last[j] + (x != y)))
        last = row
    return last[-1]


class Listener(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.GRU(40, 64, batch_first=True), nn.Linear(64, len(LETTERS))

    def forward(self, x):
        return self.out(self.rnn(x)[0]).log_softmax(-1)


model = Listener()
opt = torch.optim.SGD(model.parameters(), lr=0.05)
start = time.perf_counter()
for step in range(120):
    x, y = torch.randn(4, 48, 40), torch.randint(1, len(LETTERS), (4, 12))
    out = model(x)
    loss = nn.functional.ctc_loss(out.transpose(0, 1), y, torch.full((4,), 48), torch.full((4,), 12))
    opt.zero_grad()
    loss.backward()
    opt.step()
    words = ["".join(LETTERS[k] for k in row) for row in y.tolist()]
    error_rate = sum(distance(decode(o), w) for o, w in zip(out.detach(), words)) / 48
    if step % 40 == 39:
        print(step, round(loss.item(), 4), round(error_rate, 2))
print(f"took {time.perf_counter() - start:.2f} s")
