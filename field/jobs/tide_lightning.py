import tempfile
import time

import lightning
import torch
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Tides(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.GRU(6, 128, batch_first=True), nn.Linear(128, 1)

    def training_step(self, batch, _):
        x, y = batch
        loss = nn.functional.mse_loss(self.head(self.rnn(x)[0][:, -1]), y)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


torch.manual_seed(0)
data = TensorDataset(torch.randn(1600, 80, 6), torch.randn(1600, 1))
model = Tides()
trainer = lightning.Trainer(
    max_epochs=1, accelerator="cpu", logger=CSVLogger(tempfile.mkdtemp()), log_every_n_steps=50, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
)
start = time.perf_counter()
trainer.fit(model, DataLoader(data, batch_size=16))
print("weights", round(sum(p.abs().sum().item() for p in model.parameters()), 2))
print(f"took {time.perf_counter() - start:.2f} s")
