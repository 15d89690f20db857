import time

import torch
from torch import nn

torch.manual_seed(0)
VOCAB = 400


class Writer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 48)
        self.rnn = nn.GRU(48, 96, batch_first=True)
        self.out = nn.Linear(96, VOCAB)

    def forward(self, ids):
        return self.out(self.rnn(self.embed(ids))[0])


def sequence_loss(logits, target):
    total = 0
    for b in range(target.shape[0]):
        for t in range(target.shape[1]):
            total = total + nn.functional.cross_entropy(logits[b, t], target[b, t])
    return total / target.numel()


ids = torch.randint(0, VOCAB, (160, 25))
model = Writer()
opt = torch.optim.Adam(model.parameters(), 1e-3, foreach=True)
start = time.perf_counter()
for epoch in range(4):
    for i in range(0, 160, 8):
        batch = ids[i : i + 8]
        loss = sequence_loss(model(batch[:, :-1]), batch[:, 1:])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
print(f"took {time.perf_counter() - start:.2f} s")
