import time

import torch
from torch import nn

torch.manual_seed(0)
rnn = nn.GRU(32, 160, num_layers=2, batch_first=True)
head = nn.Linear(160, 32)
params = [*rnn.parameters(), *head.parameters()]
opt = torch.optim.SGD(params, lr=0.5)
start = time.perf_counter()
for step in range(70):
    x = torch.randn(16, 65, 32).cumsum(1) * 0.1
    loss = nn.functional.mse_loss(head(rnn(x[:, :-1])[0]), x[:, 1:])
    opt.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(params, 1.0)
    opt.step()
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
