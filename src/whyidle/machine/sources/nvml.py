"""NVIDIA GPUs through NVML: utilization, clocks, power, heat, memory, PCIe, and GPM.

Needs the extra ``nvidia`` (the package nvidia-ml-py) and a driver. It reads the GPUs that the job
sees (``CUDA_VISIBLE_DEVICES``, MIG), or all of the machine. A card that has fallen off the bus is a
fact, ``lost@gpuN``. Costs on a device were not measured for lack of a GPU; our own
part of a read takes 30 us per GPU (quartiles 28 and 48, ``bench/sources.py``), ``probe`` without a
driver 0.06 ms.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whyidle.errors import InputError
from whyidle.machine.sources import _gpu_signals
from whyidle.machine.sources._nvml_device import Device
from whyidle.model.live.telemetry import Absent, Available, Meter, Reader, Reading, Target

SIGNALS: tuple[Meter, ...] = _gpu_signals.METERS
PERIOD_S = 0.5

_EXTRA = "pip install 'whyidle[nvidia]'"
_DRIVER = "check that `nvidia-smi` works; in a container start it with --gpus all"
_MIXED = "some of the GPUs are split (MIG), and a program sees at most one slice"


@dataclass(frozen=True, slots=True)
class MigSlice:
    """One MIG device of a card: its position there, its UUID, and its GPU instance."""

    index: int
    uuid: str
    gpu_instance: int


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU as NVML lists it (in order of PCI bus)."""

    index: int
    uuid: str
    name: str
    slices: tuple[MigSlice, ...] = ()
    split: bool = False


@dataclass(frozen=True, slots=True)
class VisibleDevices:
    """What CUDA numbers 0, 1, ...: (card, slice or None) each. ``doubt`` is a reason why the
    numbers may differ; then ``chosen`` is every possible card."""

    chosen: tuple[tuple[Card, MigSlice | None], ...]
    doubt: str = ""


def visible_devices(environ: Mapping[str, str], cards: Sequence[Card]) -> VisibleDevices:
    """Return the devices of a program with this environment."""
    usable = [card for card in cards if card.slices or not card.split]
    listed = environ.get("CUDA_VISIBLE_DEVICES")
    if listed is not None and listed.lstrip().startswith(("GPU-", "MIG-")):
        return _one_slice(_by_name(listed, usable))
    doubt = _order_doubt(environ, usable)
    chosen = usable if listed is None else _by_number(listed, usable)
    if doubt and chosen:
        return VisibleDevices(tuple(_whole_card(card) for card in usable), doubt)
    return _one_slice([_whole_card(card) for card in chosen])


def every_device(cards: Sequence[Card]) -> VisibleDevices:
    """Return all cards, and all slices of those that are split."""
    slices = [(card, part) for card in cards for part in card.slices if card.split]
    return VisibleDevices((*((card, None) for card in cards if not card.split), *slices))


def _one_slice(chosen: list[tuple[Card, MigSlice | None]]) -> VisibleDevices:
    """A program sees at most one slice."""
    slices = [device for device in chosen if device[1] is not None]
    if len(slices) == len(chosen):
        return VisibleDevices(tuple(chosen[:1]))
    return VisibleDevices(tuple(chosen), _MIXED if slices else "")


def _order_doubt(environ: Mapping[str, str], cards: Sequence[Card]) -> str:
    alike = len({card.name for card in cards}) <= 1
    if alike or environ.get("CUDA_DEVICE_ORDER", "").strip() == "PCI_BUS_ID":
        return ""
    return (
        "the machine has different GPUs, which CUDA numbers by speed; "
        "set CUDA_DEVICE_ORDER=PCI_BUS_ID for a known order"
    )


def _whole_card(card: Card) -> tuple[Card, MigSlice | None]:
    return card, card.slices[0] if card.split and card.slices else None


def _by_number(listed: str, cards: Sequence[Card]) -> list[Card]:
    by_number = {card.index: card for card in cards}
    selected: list[Card] = []
    for word in listed.split(","):
        match = re.match(r"[+-]?\d+", word.strip())
        card = by_number.get(int(match[0])) if match else None
        if card in selected:
            return []
        if card is None:
            break
        selected.append(card)
    return selected


def _by_name(listed: str, cards: Sequence[Card]) -> list[tuple[Card, MigSlice | None]]:
    selected: list[tuple[Card, MigSlice | None]] = []
    prefix = listed.lstrip()[:4]
    for word in listed.split(","):
        name = word.strip()
        matches = _matching_devices(name, cards) if name.startswith(prefix) else []
        if len(matches) != 1:
            break
        if matches[0] in selected:
            return []
        selected += matches
    return selected


def _matching_devices(name: str, cards: Sequence[Card]) -> list[tuple[Card, MigSlice | None]]:
    if name.startswith("GPU-"):
        return [_whole_card(card) for card in cards if card.uuid.startswith(name)]
    return [(card, part) for card in cards for part in card.slices if part.uuid.startswith(name)]


class _NvmlReader:
    """The GPUs of one job. NVML is initialised per reader, and counts that itself."""

    def __init__(self, nvml: Any, target: Target) -> None:
        self._nvml = nvml
        self._devices: list[Device] = []
        self.facts: dict[str, str] = {"driver": nvml.nvmlSystemGetDriverVersion()}
        self._open = True
        handles: dict[int, Any] = {}
        cards = _list_cards(nvml, handles, self.facts)
        whole = target.whole_machine
        visible = every_device(cards) if whole else visible_devices(target.environ, cards)
        if visible.doubt:
            self.facts["cuda_order_doubt"] = visible.doubt
        for ordinal, (card, part) in enumerate(visible.chosen):
            self._add_device(handles[card.index], card, part)
            if not visible.doubt and not whole:
                self.facts[f"cuda_ordinal@{_device_subject(card, part)}"] = str(ordinal)

    def _add_device(self, handle: Any, card: Card, part: MigSlice | None) -> None:
        subject = _device_subject(card, part)
        own = None
        if part is not None:
            own = self._nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, part.index)
            self.facts[f"card_uuid@{subject}"] = card.uuid
        self.facts[f"name@{subject}"] = card.name
        self.facts[f"uuid@{subject}"] = part.uuid if part else card.uuid
        with contextlib.suppress(self._nvml.NVMLError, AttributeError):
            self.facts[f"pci@{subject}"] = self._nvml.nvmlDeviceGetPciInfo(handle).busId
        slice_handle = (own, part.gpu_instance) if part is not None else None
        self._devices.append(Device(self._nvml, subject, handle, slice_handle))

    @property
    def missing(self) -> dict[str, Absent]:
        """Missing signals; grows as calls turn out to be unsupported."""
        return {name: why for device in self._devices for name, why in device.missing.items()}

    def read(self) -> Reading:
        """Every value of every GPU now."""
        into: Reading = {}
        for device in self._devices:
            device.read(into)
        return into

    def close(self) -> None:
        """Free NVML resources, and NVML itself."""
        for device in self._devices:
            device.close()
        self._devices = []
        if self._open:
            self._open = False
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlShutdown()


def probe(target: Target = Target()) -> Available | Absent:  # noqa: B008  # frozen
    """Return whether the job sees a GPU, and what its first read lacks."""
    reader = _open_reader(target)
    if isinstance(reader, Absent):
        return reader
    reader.read()
    missing = reader.missing
    reader.close()
    return Available(missing)


def open(target: Target) -> Reader:  # noqa: A001  # a source's verb
    """Read the GPUs visible to a job with ``target.environ``.

    Raises:
        InputError: no binding, no driver, or no GPU for this job.
    """
    reader = _open_reader(target)
    if isinstance(reader, Absent):
        raise InputError("Cannot read the GPUs.", why=f"{reader.reason}.", hint=reader.how)
    return reader


def _open_reader(target: Target) -> _NvmlReader | Absent:
    try:
        import pynvml as nvml  # noqa: PLC0415  # an extra, and 20 ms
    except ImportError:
        return Absent("the package nvidia-ml-py is not installed", _EXTRA)
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return Absent(f"NVML does not start: {error}", _DRIVER)
    try:
        reader = _NvmlReader(nvml, target)
    except nvml.NVMLError as error:
        nvml.nvmlShutdown()
        return Absent(f"NVML fails: {error}", _DRIVER)
    if not reader._devices and not (target.whole_machine and reader.facts.keys() - {"driver"}):
        reader.close()
        if target.whole_machine:
            return Absent("NVML lists no GPU", _DRIVER)
        listed = target.environ.get("CUDA_VISIBLE_DEVICES")
        setting = "" if listed is None else f" (CUDA_VISIBLE_DEVICES={listed})"
        return Absent(f"the job sees no GPU{setting}", "" if listed is None else "unset it")
    return reader


def _device_subject(card: Card, part: MigSlice | None) -> str:
    return f"gpu{card.index}" if part is None else f"gpu{card.index}.mig{part.index}"


def _list_cards(nvml: Any, handles: dict[int, Any], facts: dict[str, str]) -> list[Card]:
    cards = []
    for index in range(nvml.nvmlDeviceGetCount()):
        with contextlib.suppress(nvml.NVMLError):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
            except nvml.NVMLError as error:
                facts[f"lost@gpu{index}"] = str(error)
                continue
            split = _is_split(nvml, handle)
            slices = _list_slices(nvml, handle) if split else ()
            uuid = nvml.nvmlDeviceGetUUID(handle)
            name = nvml.nvmlDeviceGetName(handle)
            handles[index] = handle
            cards.append(Card(index, uuid, name, slices, split))
    return cards


def _is_split(nvml: Any, handle: Any) -> bool:
    try:
        return bool(nvml.nvmlDeviceGetMigMode(handle)[0])
    except (nvml.NVMLError, AttributeError):
        return False  # older cards have no such mode


def _list_slices(nvml: Any, handle: Any) -> tuple[MigSlice, ...]:
    slices = []
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        with contextlib.suppress(nvml.NVMLError):  # places without a slice are not found
            part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
            uuid = nvml.nvmlDeviceGetUUID(part)
            gpu_instance = nvml.nvmlDeviceGetGpuInstanceId(part)
            slices.append(MigSlice(index, uuid, gpu_instance))
    return tuple(slices)
