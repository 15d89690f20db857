"""Jobs on the emulated device, with and without the next batch copied ahead, or copied without
waiting; says what it saw."""

import json
import sys
import tempfile
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

from emulator import device as emulated
from whyidle.probe import knobs

KNOB = "loader.device_prefetch"


class Bag:
    """A batch of a type of its own."""

    def __init__(self, samples):
        self.x = torch.stack([one["x"] for one in samples])

    def pin_memory(self):
        self.x = self.x.pin_memory()
        return self

    def __getitem__(self, name):
        return self.x if name == "x" else 0


class Rows(Dataset):
    def __init__(self, wide=256):
        self.wide = wide

    def __len__(self):
        return 48

    def __getitem__(self, index):
        made = torch.Generator().manual_seed(index)
        return {"x": torch.rand(self.wide, generator=made), "n": index, "kept": torch.ones(2)}


def train(loader, move, seen=None):
    """Losses, and how long the computing stream lay idle while batches were copied, in ms."""
    torch.manual_seed(5)
    net = torch.nn.Sequential(
        torch.nn.Linear(256, 64), torch.nn.Dropout(0.2), torch.nn.Linear(64, 1)
    )
    net.to("emulated")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001)
    losses = []
    for _ in range(2):
        for batch in loader:
            x = move(batch)
            if seen is not None:
                seen.append(
                    (x.numbers.sum().item(), int(torch.as_tensor(batch["n"]).sum()), x.device.type)
                )
            loss = net(x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss)
    return [loss.item() for loss in losses]


def loader(**settings):
    asked = {"batch_size": 4, "num_workers": 2, "pin_memory": True} | settings
    return DataLoader(Rows(), **asked)


def changed_in_place(batch):
    batch["x"].mul_(2.0)
    return batch["x"].to("emulated")


def changed_as_array(batch):
    batch["x"].numpy()[:] *= 2.0
    return batch["x"].to("emulated")


def changed_later(batch):
    moved = batch["x"].to("emulated")
    batch["x"][batch["x"] > 0.5] = -100.0
    return moved


def twice(batch):
    one, other = batch["x"].to("emulated"), batch["x"].to("emulated")
    assert one is not other
    one.zero_()
    return other


MOVES = {
    "plain": lambda batch: batch["x"].to("emulated"),
    "indexed": lambda batch: batch["x"].to(torch.device("emulated", 0), non_blocking=True),
    "changed in place": changed_in_place,
    "changed as array": changed_as_array,
    "another type": lambda batch: batch["x"].to("emulated", torch.float64).float(),
    "a part": lambda batch: batch["x"][:2].to("emulated"),
    "twice": twice,
    "some": lambda batch: (batch["n"].to("emulated"), batch["x"].to("emulated"))[1],
}
LOADERS = {
    "no workers": {"num_workers": 0},
    "not pinned": {"pin_memory": False},
    "persistent": {"persistent_workers": True},
    "one by one": {"batch_size": None},
}


def treated(make, move, knob=KNOB, **others):
    plain_seen, seen = [], []
    plain = train(make(), move, plain_seen)
    with tempfile.TemporaryDirectory() as folder:
        hand = knobs.KnobSession(folder, {"edits": {knob: 1, **others}, "was": {}})
        hand.apply_knobs()
        again = train(make(), move, seen)
        hand.undo_changes()

        faults = [path.read_text() for path in Path(folder).glob("*.faults")]
    return {
        "same": plain == again and plain_seen == seen,
        "took": hand.applied.get(knob, 0),
        "declined": hand.declined.get(knob, ""),
        "faults": faults,
    }


def exposed_ns():
    """Of the copies to the device since the last call: how long nothing was computed beside."""
    torch.emulated.synchronize()
    busy = [one for each in emulated.truth()["devices"][0]["streams"] for one in each["busy"]]
    begun = max((one[1] for one in MARK), default=0)
    MARK[:] = busy
    busy = [one for one in busy if one[0] >= begun]
    computed = sorted(one[:2] for one in busy if one[2] == "compute")
    copied = [one[:2] for one in busy if one[2] == "copy_in"]
    beside = sum(
        max(0, min(end, last) - max(begin, first))
        for begin, end in copied
        for first, last in computed
    )
    return sum(end - begin for begin, end in copied) - beside


MARK = []


def long_copies():
    """Copies that take about as long as computing, and are all there ahead: a step on the device
    is long beside what a slow machine takes to start workers and to make an epoch's batches."""
    emulated.configure(pinned_bandwidth=7e4, peak_flops=7e6)
    move, ahead = MOVES["indexed"], {"prefetch_factor": 6}
    exposed_ns()
    train(loader(**ahead), move)
    before = exposed_ns()
    with tempfile.TemporaryDirectory() as folder:
        hand = knobs.KnobSession(folder, {"edits": {KNOB: 1}, "was": {}})
        hand.apply_knobs()
        train(loader(**ahead), move)
        hand.undo_changes()
    return {"same": True, "faults": [], "exposed before": before, "exposed": exposed_ns()}


def main():
    torch.set_num_threads(1)
    emulated.configure(peak_flops=2e9)
    found = {name: treated(loader, move) for name, move in MOVES.items()}
    for name, settings in LOADERS.items():
        found[name] = treated(lambda settings=settings: loader(**settings), MOVES["plain"])
    found["own type"] = treated(lambda: loader(collate_fn=Bag), MOVES["plain"])
    for name, move in {"plain": MOVES["plain"], "changed": changed_later}.items():
        found[f"not waited for, {name}"] = treated(loader, move, "copy.non_blocking")
    found["long copies"] = long_copies()
    torch.emulated.mem_get_info = lambda device=None: (1000, 1000)
    found["little memory"] = treated(loader, MOVES["plain"])
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
