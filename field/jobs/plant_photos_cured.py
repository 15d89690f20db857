import io
import time

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

rng = np.random.default_rng(0)
files = []
for _ in range(40):
    picture = Image.fromarray(rng.integers(0, 255, (24, 32, 3), dtype=np.uint8)).resize((1024, 768))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG")
    files.append(buffer.getvalue())


small = [Image.open(io.BytesIO(f)).convert("RGB").resize((64, 64), Image.BICUBIC) for f in files]


class Plants(Dataset):
    def __len__(self):
        return len(files)

    def __getitem__(self, i):
        x = torch.from_numpy(np.asarray(small[i], np.float32) / 255).permute(2, 0, 1)
        return x, i % 4


torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 15 * 15, 4)
)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
loader = DataLoader(Plants(), batch_size=4, shuffle=True)
start = time.perf_counter()
for epoch in range(9):
    for x, y in loader:
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
print("loss", round(loss.item(), 3))
print(f"took {time.perf_counter() - start:.2f} s")
