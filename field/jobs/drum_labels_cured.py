import tempfile
import time

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
accelerator = Accelerator(cpu=True)
folder = tempfile.mkdtemp()
net = nn.Sequential(nn.Linear(128, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 9))
opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
data = TensorDataset(torch.randn(4800, 128), torch.randint(0, 9, (4800,)))
net, opt, loader = accelerator.prepare(net, opt, DataLoader(data, batch_size=16))
start = time.perf_counter()
for step, (x, y) in enumerate(loader):
    loss = nn.functional.cross_entropy(net(x), y)
    accelerator.backward(loss)
    opt.step()
    opt.zero_grad()
    if step % 150 == 149:
        accelerator.save_state(folder)
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
