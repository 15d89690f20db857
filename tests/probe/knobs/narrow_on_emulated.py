"""Jobs on the emulated device whose batches are 64 bits wide, sent so or narrower."""

import json
import sys

import torch
from on_emulated import changed_as_array, changed_in_place, treated
from torch.utils.data import DataLoader, Dataset

from emulator import device as emulated
from whyidle.probe.knobs import _narrowing, _prefetch


class Wide(Dataset):
    """Rows of 256 numbers, of some kind."""

    def __init__(self, make):
        self.make = make

    def __len__(self):
        return 48

    def __getitem__(self, index):
        made = torch.Generator().manual_seed(index)
        return {"x": self.make(made), "n": index}


def ids(made):
    return torch.randint(-(2**31), 2**31, (256,), generator=made)


def large_ids(made):
    return torch.randint(0, 2**40, (256,), generator=made)


def floats(made):
    found = torch.rand(256, generator=made).double()
    found[:4] = torch.tensor([float("nan"), float("inf"), -0.0, 1e-40])
    return found


def doubles(made):
    return torch.rand(256, generator=made, dtype=torch.float64)


def move(batch):
    return batch["x"].to("emulated")


def loader(make, **settings):
    asked = {"batch_size": 4, "num_workers": 2, "pin_memory": True} | settings
    return DataLoader(Wide(make), **asked)


def learning(moving):
    """Numbers that a model can be given."""

    def moved(batch):
        x = moving(batch)
        assert x.dtype == torch.float64 if batch["x"].is_floating_point() else torch.int64
        assert x.device.type == "emulated"
        return torch.nan_to_num(x.float() * 1e-12, posinf=1.0)

    return moved


def copied_ns():
    """How long copies to the device took since the last call. Intervals of long ago may be gone."""
    torch.emulated.synchronize()
    busy = [one for each in emulated.truth()["devices"][0]["streams"] for one in each["busy"]]
    begun, ENDS[:] = ENDS[-1], [max((one[1] for one in busy), default=0)]
    return sum(one[1] - one[0] for one in busy if one[2] == "copy_in" and one[0] >= begun)


ENDS = [0]


def both_ways():
    """A treated job whose copies take long, and how long they took without and with."""
    emulated.configure(pinned_bandwidth=2e6, copy_ns=0)
    copied_ns()
    found, took = None, []
    for knob in ("no.knob", _narrowing.KNOB):
        found = treated(lambda: loader(ids), learning(move), knob)
        took.append(copied_ns())
    return {**found, "narrower": took[1] / took[0]}


def main():
    torch.set_num_threads(1)
    emulated.configure(peak_flops=2e9)
    _narrowing.LEAST_BYTES = 8 * 256
    knob = _narrowing.KNOB
    makers = {"ids": ids, "large ids": large_ids, "floats": floats, "doubles": doubles}
    found = {
        name: treated(lambda make=make: loader(make), learning(move), knob)
        for name, make in makers.items()
    }
    changed = {"changed in place": changed_in_place, "changed as array": changed_as_array}
    for name, moving in changed.items():
        found[name] = treated(lambda: loader(floats), learning(moving), knob)
    ahead = {_prefetch.KNOB: 1, "copy.non_blocking": True}
    found["copied ahead"] = treated(lambda: loader(ids), learning(move), knob, **ahead)
    found["not pinned"] = treated(lambda: loader(ids, pin_memory=False), learning(move), knob)
    found["long copies"] = both_ways()
    _narrowing.LEAST_BYTES = 1 << 20
    found["small"] = treated(lambda: loader(ids), learning(move), knob)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
