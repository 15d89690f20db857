import time

import torch
from torch import nn
from tqdm import trange

torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(96, 4, 192, dropout=0.0, batch_first=True)
model = nn.Sequential(nn.Linear(40, 96), nn.TransformerEncoder(layer, 2), nn.Linear(96, 40))
opt = torch.optim.SGD(model.parameters(), lr=0.01)
start = time.perf_counter()
bar = trange(110, mininterval=1.0)
for step in bar:
    x = torch.randn(8, 80, 40)
    loss = nn.functional.mse_loss(model(x), x.roll(1, 1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        bar.set_postfix(loss=round(loss.item(), 4))
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
