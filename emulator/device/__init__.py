"""An emulated accelerator: a PyTorch device of type ``emulated`` on a machine without one.

Importing this makes it exist. Ordinary code then uses it: ``model.to("emulated")``,
``x.to("emulated", non_blocking=True)``, ``loss.backward()``, ``torch.emulated.synchronize()``. The
numbers are computed on the host at once; what is emulated is the time that a device would take,
asynchronously. It exists to test whyidle, see docs/emulated.md.
"""

from __future__ import annotations

from emulator.device.devices import config
from emulator.device.registration import install
from emulator.device.tensor import EmulatedTensor
from emulator.device.truth import truth, write_truth
from emulator.device.work import Work, spend, work

__all__ = [
    "EmulatedTensor",
    "Work",
    "config",
    "configure",
    "spend",
    "truth",
    "work",
    "write_truth",
]


def configure(**fields: object) -> None:
    """Change what the device is, before it is used; see ``config.Config`` for the fields."""
    config.change(**fields)


install()
