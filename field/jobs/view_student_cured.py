import copy
import time

import torch
from torch import nn

torch.manual_seed(0)
student = nn.Sequential(*[m for _ in range(60) for m in (nn.Linear(32, 32), nn.LayerNorm(32), nn.GELU())], nn.Linear(32, 16))
teacher = copy.deepcopy(student).requires_grad_(False)
opt = torch.optim.SGD(student.parameters(), lr=0.01)


@torch.no_grad()
def update_teacher(momentum):
    torch._foreach_lerp_(list(teacher.parameters()), list(student.parameters()), 1 - momentum)


start = time.perf_counter()
for step in range(60):
    x = torch.randn(32, 32)
    with torch.no_grad():
        target = teacher(x + 0.1 * torch.randn_like(x)).softmax(-1)
    loss = nn.functional.cross_entropy(student(x), target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    update_teacher(0.99)
print("loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
