"""An optimizer that calls a closure several times per step."""

import torch

torch.manual_seed(4)
torch.set_num_threads(1)
x = torch.randn(64, 5)
y = x @ torch.randn(5, 1) + 0.1 * torch.randn(64, 1)
model = torch.nn.Linear(5, 1)
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
calls = 0


def closure():
    global calls
    calls += 1
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss


for step in range(12):
    print(step, optimizer.step(closure).item(), calls)
