"""Jobs on the emulated device that keep numbers on objects in every step; says how often they wait
for it."""

import copy
import importlib
import inspect
import json
import pickle
import sys

import torch
from reads_on_emulated import KNOB, steps, treated

from emulator import device as emulated

SHOWN = 8
"""steps, after which something is shown"""


class Trainer:
    def __init__(self, shown):
        self.total, self.seen, self.smooth = 0.0, 0, 0.0
        self.shown = shown

    def train(self):
        for number, loss in steps():
            self.total += loss.item()
            self.smooth = 0.9 * self.smooth + 0.1 * loss.item()
            self.seen += 1
            if number % SHOWN == SHOWN - 1:
                self.shown.append((self.total / self.seen, self.smooth, type(self.total).__name__))

    def train_and_look(self):
        for _number, loss in steps():
            self.total += loss.item()
            self.shown.append(self.total)


class Meter:
    """As many scripts have one."""

    def __init__(self, name):
        self.name = name
        self.reset()

    def reset(self):
        self.val = self.sum = self.avg = 0
        self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def __str__(self):
        return "{name} {val:.9f} ({avg:.9f})".format(**self.__dict__)


class Forwarding(Meter):
    def update(self, val, n=1):
        super().update(val, n)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))
        self.most, self.least = 0.0, float("inf")

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
            self.most = max(self.most, x.detach().max().item())
            self.least = min(x.detach().mean().item(), self.least)
        return x


class Slotted:
    __slots__ = ("total",)


class Given:
    """Everybody's is the same so far."""

    total = 0.0


class Derived:
    @property
    def total(self):
        return self.held

    @total.setter
    def total(self, value):
        self.held = float(value)


def on_an_object(shown):
    Trainer(shown).train()


def metered(shown):
    losses, right = Meter("loss"), Meter("right")
    for number, loss in steps():
        losses.update(loss.item(), 4)
        right.update(val=(loss > 0.1).sum().item())
        if number % SHOWN == SHOWN - 1:
            shown.append(f"{losses} {right}")
            shown.append((losses.avg, right.sum))
            losses.reset()


def extremes(shown):
    torch.manual_seed(3)
    net = Net().to("emulated")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for number in range(24):
        net(torch.rand(4, 8, device="emulated")).mean().backward()
        optimizer.step()
        if number % SHOWN == SHOWN - 1:
            shown.append((net.most, net.least, json.dumps([net.most])))
            shown.append(sorted(net.state_dict()))


def smooth(shown):
    mean = 0.0
    for number, loss in steps():
        mean = 0.9 * mean + 0.1 * loss.item()
        if number % SHOWN == SHOWN - 1:
            shown.append(f"{mean}")


def most(shown):
    top, low = 0, 1e9
    for number, loss in steps():
        top = max(top, loss.item())
        low = min(loss.item(), low)
        if number % SHOWN == SHOWN - 1:
            shown.append(f"{top} {low}")


def carried_away(shown):
    """Copies, and what is saved, hold the numbers themselves."""
    meter = Meter("loss")
    for number, loss in steps():
        meter.update(loss.item())
        if number % SHOWN == SHOWN - 1:
            for again in (
                copy.deepcopy(meter),
                pickle.loads(pickle.dumps(meter)),
                copy.copy(meter),
            ):
                shown.append([again.val, again.avg, type(again.sum).__name__])
            if hasattr(meter, "val"):
                del meter.val
            shown.append([hasattr(meter, "val"), hasattr(Meter, "val"), getattr(meter, "val", 3)])


def is_looked_at(shown):
    Trainer(shown).train_and_look()


def is_slotted(shown):
    one = Slotted()
    one.total = 0.0
    for _number, loss in steps():
        one.total += loss.item()
    shown.append(one.total)


def of_the_class(shown):
    one = Given()
    for _number, loss in steps():
        one.total += loss.item()
    shown.append([one.total, Given.total])


def derived(shown):
    one = Derived()
    for _number, loss in steps():
        one.total = loss.item()
    shown.append(one.total)


def forwarded(shown):
    meter = Forwarding("loss")
    for _number, loss in steps():
        meter.update(loss.item())
    shown.append(str(meter))


def no_number_yet(shown):
    """What is added to in place is held by others, too."""
    one = Trainer(shown)
    one.total = held = torch.zeros(())
    for _number, loss in steps():
        one.total += loss.item()
    shown.append(held.item())


def looked_into(shown):
    one = importlib.import_module("looked_into").Bare()  # from now on nothing is kept so
    for _number, loss in steps():
        one.update(loss.item())
    shown.append(one.all())


JOBS = (
    on_an_object, metered, extremes, smooth, most, carried_away, is_looked_at, is_slotted,
    of_the_class, derived, forwarded, no_number_yet, looked_into,
)  # fmt: skip


def main():
    emulated.configure(peak_flops=2e9)
    found = {job.__name__: treated(job) for job in JOBS}
    kinds = (Trainer, Meter, Net)
    names = ("total", "val", "sum", "most", "__reduce_ex__")
    own = [inspect.getattr_static(kind, name, None) for kind in kinds for name in names]
    left = [repr(one) for one in own if one not in (None, object.__reduce_ex__)]
    json.dump({"jobs": found, "left": left, "knob": KNOB}, sys.stdout)


if __name__ == "__main__":
    main()
