import time

import lightning
import numpy as np
import torch
from scipy import ndimage
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def post_process(probability, threshold, min_size):
    component, count = ndimage.label(probability > max(threshold, probability.mean()))
    mask = np.zeros(probability.shape, np.float32)
    for c in range(1, count + 1):
        p = component == c
        if p.sum() > min_size:
            mask[p] = 1
    return mask


def dice(probability, truth):
    masks = np.stack([post_process(p, 0.1, 3) for p in probability])
    return 2 * (masks * truth).sum() / max(1.0, masks.sum() + truth.sum())


class Steel(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 1))
        self.last = 0.0

    def training_step(self, batch, index):
        image, mask = batch
        out = self.net(image)
        if index % 60 == 59:
            self.last = dice(out.sigmoid().detach().numpy()[:, 0], mask.numpy()[:, 0])
        return nn.functional.binary_cross_entropy_with_logits(out, mask)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


torch.manual_seed(0)
data = TensorDataset(torch.randn(480, 1, 40, 40), (torch.rand(480, 1, 40, 40) < 0.4).float())
model = Steel()
trainer = lightning.Trainer(
    max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False,
)
start = time.perf_counter()
trainer.fit(model, DataLoader(data, batch_size=4))
print("weights", round(sum(p.abs().sum().item() for p in model.parameters()), 3))
print(f"took {time.perf_counter() - start:.2f} s")
