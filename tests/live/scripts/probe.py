"""An optimizer in a module beside the scripts that use it, which has the name of one of ours."""

import torch


class Descent(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    def add_param_group(self, group):  # PyTorch's own imports its compiler, which takes a second
        self.param_groups.append({**self.defaults, **group, "params": list(group["params"])})

    def zero_grad(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = None

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad, alpha=group["lr"])
