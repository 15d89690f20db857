"""A denoiser of pictures, trained on patches with noise."""
import time
import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
rng = np.random.default_rng(0)
pictures = [Image.fromarray((rng.random((180, 180)) * 255).astype(np.uint8)) for _ in range(20)]


def patches_of(picture, size=32, stride=12):
    found = []
    for scale in (1.0, 0.9, 0.8, 0.7):
        side = int(180 * scale)
        small = np.array(picture.resize((side, side), Image.Resampling.BICUBIC))
        for i in range(0, side - size + 1, stride):
            for j in range(0, side - size + 1, stride):
                patch = small[i : i + size, j : j + size]
                for turn in range(4):
                    found.append(np.ascontiguousarray(np.rot90(patch, turn)))
    return found


class Noisy(Dataset):
    def __init__(self, clean, sigma=25):
        self.clean, self.sigma = clean, sigma

    def __len__(self):
        return len(self.clean)

    def __getitem__(self, i):
        clean = self.clean[i]
        return clean + torch.randn(clean.size()) * (self.sigma / 255), clean


net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
opt = torch.optim.Adam(net.parameters(), 1e-3)
order = torch.Generator().manual_seed(0)
start = time.perf_counter()
for epoch in range(6):
    clean = [p for picture in pictures for p in patches_of(picture)]
    clean = torch.from_numpy(np.stack(clean)[:, None].astype(np.float32) / 255)
    loader = DataLoader(Noisy(clean), batch_size=128, sampler=torch.randperm(len(clean), generator=order)[:2560].tolist(), drop_last=True)
    for noisy, target in loader:
        loss = nn.functional.mse_loss(noisy - net(noisy), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, round(loss.item(), 5))
print(f"took {time.perf_counter() - start:.2f} s")
