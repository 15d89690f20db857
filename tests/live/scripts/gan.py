"""Two models, two optimizers, several backward passes in a step."""

import torch
from probe import Descent
from torch import nn

torch.manual_seed(3)
torch.set_num_threads(1)
maker = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
judge = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
of_maker = Descent(maker.parameters(), lr=1e-3)
of_judge = Descent(judge.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()
real, fake = torch.ones(16, 1), torch.zeros(16, 1)
for step in range(20):
    of_judge.zero_grad()
    true_loss = bce(judge(torch.randn(16, 2) + 2), real)
    true_loss.backward()
    made = maker(torch.randn(16, 4))
    false_loss = bce(judge(made.detach()), fake)
    false_loss.backward()
    of_judge.step()
    of_maker.zero_grad()
    made_loss = bce(judge(made), real)
    made_loss.backward()
    of_maker.step()
    print(step, (true_loss + false_loss).item(), made_loss.item())
