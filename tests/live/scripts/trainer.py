"""A trainer class with callbacks, evaluation, gradient clipping, a schedule and checkpoints."""

import copy
import pathlib
import pickle
import sys
import tempfile

import torch
from probe import Descent
from torch import nn


class Callback:
    def on_step(self, trainer, loss):
        print(f"step {trainer.steps} loss {loss!r} lr {trainer.schedule.get_last_lr()[0]!r}")


class Trainer:
    def __init__(self, model, optimizer, callbacks):
        self.model, self.optimizer, self.callbacks = model, optimizer, callbacks
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
        self.steps = 0

    def training_step(self, batch):
        x, y = batch
        return nn.functional.mse_loss(self.model(x), y)

    def fit(self, batches, folder):
        for batch in batches:
            self.optimizer.zero_grad()
            loss = self.training_step(batch)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.schedule.step()
            self.steps += 1
            for callback in self.callbacks:
                callback.on_step(self, loss.item())
            if self.steps % 10 == 0:
                self.evaluate(batches[:3])
                self.save(folder)

    @torch.no_grad()
    def evaluate(self, batches):
        self.model.eval()
        print("eval", sum(self.training_step(batch).item() for batch in batches))
        self.model.train()

    def save(self, folder):
        place = folder / f"{self.steps}.pt"
        torch.save({"model": self.model.state_dict(), "opt": self.optimizer.state_dict()}, place)
        torch.save(self.model, folder / "whole.pt")
        back = torch.load(folder / "whole.pt", weights_only=False)
        again = pickle.loads(pickle.dumps(copy.deepcopy(self.model)))
        same = [torch.equal(a, b) for a, b in zip(back.parameters(), again.parameters())]
        print("saved", len(torch.load(place)["model"]), same)


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))
    batches = [(torch.randn(8, 8), torch.randn(8, 2)) for _ in range(20)]
    trainer = Trainer(model, Descent(model.parameters(), lr=1e-2), [Callback()])
    with tempfile.TemporaryDirectory() as folder:
        trainer.fit(batches, pathlib.Path(folder))
    print("done", file=sys.stderr)
    return 7


if __name__ == "__main__":
    sys.exit(main())
