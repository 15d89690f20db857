#!/usr/bin/env python
"""An optimizer of one's own that is no torch.optim.Optimizer, and modules with common names."""

import probe
import recorder
import torch
import utils

torch.manual_seed(10)
torch.set_num_threads(1)


class SignDescent:
    def __init__(self, params, lr):
        self.params, self.lr = list(params), lr

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def step(self):
        for p in self.params:
            p -= self.lr * p.grad.sign()


model = torch.nn.Linear(4, 1)
optimizer = SignDescent(model.parameters(), lr=0.01)
for step in range(15):
    loss = utils.loss(model(torch.randn(8, 4)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    recorder.record(step, loss.item())
print(probe.NAME, recorder.losses)
