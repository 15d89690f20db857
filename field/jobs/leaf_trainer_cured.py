import time

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm, self.a, self.b = nn.LayerNorm(n), nn.Linear(n, n), nn.Linear(n, n)

    def forward(self, x):
        h = self.a(self.norm(x))
        return x + self.b(nn.functional.gelu(h)) * torch.sigmoid(h)


class Leaves(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(32, 64), *[Block(64) for _ in range(12)], nn.Linear(64, 10))

    def training_step(self, batch, _):
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


torch.manual_seed(0)
data = TensorDataset(torch.randn(3200, 32), torch.randint(0, 10, (3200,)))
model = Leaves()
trainer = lightning.Trainer(
    max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
)
start = time.perf_counter()
trainer.fit(model, DataLoader(data, batch_size=32))
print("weights", round(sum(p.abs().sum().item() for p in model.parameters()), 2))
print(f"took {time.perf_counter() - start:.2f} s")
