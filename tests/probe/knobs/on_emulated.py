"""Jobs on the emulated device, with copies that are waited for and that are not; prints what became
of each."""

import json
import sys
import tempfile
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

from emulator import device as emulated
from whyidle.probe import knobs

KNOB = "copy.non_blocking"


class Rows(Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, index):
        made = torch.Generator().manual_seed(index)
        return {"x": torch.rand(256, generator=made), "n": index}


def train(move):
    """Losses, and sums of the batches that the device has computed."""
    torch.manual_seed(5)
    net = torch.nn.Sequential(
        torch.nn.Linear(256, 64), torch.nn.Dropout(0.2), torch.nn.Linear(64, 1)
    )
    net.to("emulated")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001)
    losses, sums = [], []
    for _ in range(2):
        for batch in DataLoader(Rows(), batch_size=4, num_workers=2, pin_memory=True):
            x = move(batch)
            sums.append((x.numbers.sum().item(), int(batch["n"].sum()), x.device.type))
            loss = net(x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss)
    return [loss.item() for loss in losses], sums


def changed_later(batch):
    moved = batch["x"].to("emulated")
    batch["x"][batch["x"] > 0.5] = -100.0
    return moved


MOVES = {"plain": lambda batch: batch["x"].to("emulated"), "changed later": changed_later}


def compare(move):
    """A job without the knob, and with it."""
    plain = train(move)
    with tempfile.TemporaryDirectory() as folder:
        session = knobs.KnobSession(folder, {"edits": {KNOB: True}, "was": {}})
        session.apply_knobs()
        again = train(move)
        session.undo_changes()
        faults = [path.read_text() for path in Path(folder).glob("*.faults")]
    return {
        "same": plain == again,
        "took": session.applied.get(KNOB, 0),
        "declined": session.declined.get(KNOB, ""),
        "faults": faults,
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    emulated.configure(peak_flops=2e9)
    json.dump({name: compare(move) for name, move in MOVES.items()}, sys.stdout)
