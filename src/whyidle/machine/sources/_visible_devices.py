"""The GPUs that a CUDA program sees, and their order. Rules are those of CUDA's programming guide
(CUDA environment variables) and otherwise of PyTorch (``torch.cuda._parse_visible_devices``): an
invalid identifier ends the list, a repeated one empties it, a UUID may be shortened while unique,
``1gpu2`` means 1. In MIG mode a program sees one slice of one card: the first, unless another is
named (MIG user guide, CUDA device enumeration)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
