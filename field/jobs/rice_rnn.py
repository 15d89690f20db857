import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(640, 96, 24), torch.randn(640, 1))
loader = DataLoader(data, batch_size=16, shuffle=True)
rnn, head = nn.LSTM(24, 128, batch_first=True), nn.Linear(128, 1)
opt = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.01)
start = time.perf_counter()
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(head(rnn(x)[0][:, -1]), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
