"""The problem in PyTorch, with a plain loop."""

import problem
import torch
from torch import nn

args = problem.parse_arguments()
images, classes, layers = problem.read_problem(args.problem, args.steps)

modules = []
for weight, bias in layers:
    linear = nn.Linear(*weight.shape)
    with torch.no_grad():
        linear.weight.copy_(torch.from_numpy(weight.T))
        linear.bias.copy_(torch.from_numpy(bias))
    modules += [linear, nn.Tanh()]
model = nn.Sequential(*modules[:-1])
optimizer = torch.optim.SGD(model.parameters(), lr=problem.LEARNING_RATE, momentum=problem.MOMENTUM)

losses = []
for x, y in problem.slice_batches(torch.from_numpy(images), torch.from_numpy(classes).long()):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if args.losses:
        losses.append(loss.detach())
problem.write_losses(args.losses, losses)
