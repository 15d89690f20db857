import json
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(0)
path = Path(tempfile.mkdtemp()) / "training_logs.json"
net = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
history = []
start = time.perf_counter()
for step in range(600):
    x, y = torch.randn(64, 128), torch.randint(0, 10, (64,))
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    history.append({"step": step, "epoch": step / 600, "loss": loss.item(), "learning_rate": 0.05, "timestamp": time.time()})
    with open(path, "w") as file:
        json.dump(history, file, sort_keys=True, indent=4)
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
