"""Latent diffusion fine-tuning with Accelerate: a small denoiser learns in the space of a frozen autoencoder."""
import time
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.SiLU(), nn.Conv2d(32, 48, 4, 2, 1), nn.SiLU(), nn.Conv2d(48, 64, 4, 2, 1), nn.SiLU(), nn.Conv2d(64, 4, 4, 2, 1)
        )

    def encode(self, x):
        return self.down(x) * 0.18


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Embedding(1000, 32)
        self.first, self.last = nn.Conv2d(4, 32, 3, padding=1), nn.Conv2d(32, 4, 3, padding=1)
        self.mid = nn.Sequential(nn.SiLU(), nn.Conv2d(32, 32, 3, padding=1), nn.SiLU())

    def forward(self, x, t):
        return self.last(self.mid(self.first(x) + self.time(t)[:, :, None, None]))


accelerator = Accelerator(cpu=True)
vae, unet = Autoencoder().requires_grad_(False).eval(), Denoiser()
opt = torch.optim.AdamW(unet.parameters(), 1e-3)
pictures = torch.rand(128, 3, 128, 128) * 2 - 1
loader = DataLoader(TensorDataset(pictures), batch_size=8, shuffle=True)
unet, opt, loader = accelerator.prepare(unet, opt, loader)
alpha = torch.linspace(0.9999, 0.98, 1000).cumprod(0)
start = time.perf_counter()
for epoch in range(7):
    for (x,) in loader:
        with torch.no_grad():
            latents = vae.encode(x)
        noise = torch.randn_like(latents)
        t = torch.randint(1000, (len(x),))
        a = alpha[t][:, None, None, None]
        loss = nn.functional.mse_loss(unet(a.sqrt() * latents + (1 - a).sqrt() * noise, t), noise)
        accelerator.backward(loss)
        opt.step()
        opt.zero_grad()
    accelerator.print(epoch, round(loss.item(), 5))
print(f"took {time.perf_counter() - start:.2f} s")
