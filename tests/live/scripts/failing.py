"""A job that fails in its backward pass, behind another failure."""

import torch
from probe import Descent


class Fragile(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        try:
            {}["a key"]
        except KeyError as error:
            raise ValueError("the loss is not finite") from error


torch.manual_seed(12)
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = Descent(model.parameters(), lr=0.1)
for step in range(8):
    y = model(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    (Fragile.apply(y) if step == 7 else y).backward()
    optimizer.step()
    print(step, y.item())
