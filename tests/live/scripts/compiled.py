"""torch.compile: a whole model, a training step with its backward pass, a scripted function."""

import torch

torch.manual_seed(7)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
fast = torch.compile(model, backend="eager", fullgraph=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


@torch.jit.script
def scale(x: torch.Tensor) -> torch.Tensor:
    return x * 2.0


@torch.compile(backend="eager")
def whole_step(x):
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


for step in range(12):
    x = scale(torch.randn(4, 8))
    loss = fast(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())
for step in range(3):
    print("whole", whole_step(torch.randn(4, 8)).item())
traced = torch.jit.trace(model, torch.ones(1, 8))
print("traced", traced(torch.ones(1, 8)).item())
from torch._dynamo.utils import counters  # noqa: E402

print("breaks", sum(counters["graph_break"].values()))
