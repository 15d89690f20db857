"""Several loaders at once, one with forked workers, and evaluation between the steps."""

import itertools

import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __init__(self, count, shift):
        self.count, self.shift = count, shift

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        made = torch.Generator().manual_seed(index)
        return torch.randn(8, generator=made) + self.shift


if __name__ == "__main__":
    torch.manual_seed(6)
    torch.set_num_threads(1)
    labelled = DataLoader(Numbers(48, 1.0), batch_size=4, shuffle=True, num_workers=2)
    unlabelled = DataLoader(Numbers(96, 0.0), batch_size=8)
    held_out = DataLoader(Numbers(16, 1.0), batch_size=8)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-2)
    for step, (one, many) in enumerate(zip(labelled, itertools.cycle(unlabelled))):
        loss = model(many).square().mean() + (model(one) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
        if step % 5 == 4:
            with torch.inference_mode():
                print("held out", [model(x).mean().item() for x in held_out])
