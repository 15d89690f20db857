"""No module and no torch.optim: torch.func gradients and a hand-written update."""

import torch
from torch.func import functional_call, grad_and_value, vmap

torch.manual_seed(2)
torch.set_num_threads(1)
net = torch.nn.Linear(6, 1)
params = {name: value.detach().clone() for name, value in net.named_parameters()}


def loss_of(params, x, y):
    return ((functional_call(net, params, (x,)) - y) ** 2).mean()


step = grad_and_value(loss_of)
for number in range(20):
    x, y = torch.randn(16, 6), torch.randn(16, 1)
    grads, loss = step(params, x, y)
    params = {name: value - 0.1 * grads[name] for name, value in params.items()}
    print(number, loss.item())
per_sample = vmap(grad_and_value(loss_of), in_dims=(None, 0, 0))(params, x, y)[1]
print(per_sample.sum().item())
