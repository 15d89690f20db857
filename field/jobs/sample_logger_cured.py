import os
import tempfile
import time

import torch
from torch import nn

torch.manual_seed(0)
torch.set_printoptions(profile="full")
log = open(os.path.join(tempfile.mkdtemp(), "train.log"), "w")
encoder = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 32))
decoder = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 256))
opt = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.01)
start = time.perf_counter()
for step in range(200):
    x = torch.randn(32, 256)
    mean, spread = encoder(x).chunk(2, 1)
    latent = mean + torch.randn_like(mean) * (0.5 * spread).exp()
    loss = nn.functional.mse_loss(decoder(latent), x) - 0.001 * (1 + spread - mean**2 - spread.exp()).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 100 == 99:
        print(f"step {step} loss {loss.item():.4f} latent {latent} mean {mean}", file=log)
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
