import time

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Genome(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Embedding(65, 32), nn.Flatten(), nn.Linear(32 * 64, 256), nn.ReLU(), nn.Linear(256, 65))

    def training_step(self, batch, _):
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y)

    def validation_step(self, batch, _):
        x, y = batch
        self.log("val", nn.functional.cross_entropy(self.net(x), y))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


def codons(n):
    return TensorDataset(torch.randint(0, 65, (n, 64)), torch.randint(0, 65, (n,)))


torch.manual_seed(0)
model = Genome()
train_loader, val_loader = DataLoader(codons(4800), batch_size=16), DataLoader(codons(640), batch_size=32)
trainer = lightning.Trainer(
    max_epochs=1, accelerator="cpu", val_check_interval=300, logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
)
start = time.perf_counter()
trainer.fit(model, train_loader, val_loader)
print("weights", round(sum(p.abs().sum().item() for p in model.parameters()), 1))
print(f"took {time.perf_counter() - start:.2f} s")
