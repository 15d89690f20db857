"""An optimizer that a script brings along, for jobs of which only the steps matter.

PyTorch's own ones import its compiler when they are made, which takes as long as importing PyTorch
itself; this one does not, and is a ``torch.optim.Optimizer`` like any other. Tests that are about
PyTorch's own optimizers use those.
"""

OWN_SGD = """
import torch

class SGD(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    def add_param_group(self, group):
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
"""
