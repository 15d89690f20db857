import tempfile
import time
from pathlib import Path

import torch
from PIL import Image, ImageDraw
from torch import nn

torch.manual_seed(0)
out = Path(tempfile.mkdtemp()) / "curve.png"


def plot(losses):
    picture = Image.new("RGB", (640, 360), "white")
    draw = ImageDraw.Draw(picture)
    top = max(losses)
    points = [(i * 639 / len(losses), 359 - 350 * v / top) for i, v in enumerate(losses)]
    draw.line(points, fill="blue", width=2)
    for x, y in points:
        draw.ellipse((x - 2, y - 2, x + 2, y + 2), outline="red")
    picture.save(out)


net = nn.LSTM(12, 48, batch_first=True)
head = nn.Linear(48, 1)
opt = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.05)
losses = []
start = time.perf_counter()
for step in range(220):
    x = torch.randn(16, 24, 12)
    loss = nn.functional.mse_loss(head(net(x)[0][:, -1]), x.mean((1, 2)).unsqueeze(1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    losses.append(loss.item())
    if len(losses) > 1:
        plot(losses)
print("loss", round(loss.item(), 6))
print(f"took {time.perf_counter() - start:.2f} s")
