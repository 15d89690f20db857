"""Which GPU is the job's device 0."""

import pytest

from whyidle.machine.sources.nvml import Card, MigSlice, visible_devices

A, B = "GPU-aaaa1111-0000", "GPU-aaab2222-0000"
CARDS = [Card(0, A, "H100"), Card(1, B, "H100"), Card(2, "GPU-cccc", "H100")]
MIXED = [Card(0, A, "GT 710"), Card(1, B, "H100")]
SPLIT = Card(0, A, "A100", (MigSlice(0, "MIG-1111", 3), MigSlice(1, "MIG-2222", 5)), split=True)


def indices(listed, cards=CARDS, **environ):
    if listed is not None:
        environ["CUDA_VISIBLE_DEVICES"] = listed
    return [card.index for card, _ in visible_devices(environ, cards).chosen]


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("2,0", [2, 0]),
        ("0,2,-1,1", [0, 2]),  # the programming guide's own example
        ("0,7,1", [0]),
        ("1,1", []),
        ("1gpu,2ampere", [1, 2]),
        ("NoDevFiles", []),
        (f"{B},{A}", [1, 0]),
        ("GPU-cc,GPU-aaab", [2, 1]),
        ("GPU-aaa", []),  # two begin so
        ("GPU-cccc,0", [2]),
        ("GPU-cccc,GPU-ccc", []),
    ],
)
def test_list(listed, expected):
    assert indices(listed) == expected


def test_a_lost_card_keeps_the_others_numbers():
    assert indices("2", [CARDS[0], CARDS[2]]) == [2]


def test_different_cards_are_numbered_by_speed_and_that_is_not_known_here():
    seen = visible_devices({"CUDA_VISIBLE_DEVICES": "0"}, MIXED)
    assert [card.index for card, _ in seen.chosen] == [0, 1]
    assert "CUDA_DEVICE_ORDER" in seen.doubt
    ordered = {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert visible_devices(ordered, MIXED).chosen == ((MIXED[0], None),)
    assert not visible_devices({"CUDA_VISIBLE_DEVICES": B}, MIXED).doubt
    assert not visible_devices({"CUDA_VISIBLE_DEVICES": ""}, MIXED).chosen


@pytest.mark.parametrize(
    ("listed", "uuid"),
    [
        (None, "MIG-1111"),
        ("0", "MIG-1111"),
        (A, "MIG-1111"),
        ("MIG-2222", "MIG-2222"),
        ("MIG-2222,MIG-1111", "MIG-2222"),  # a program sees one slice
    ],
)
def test_slices(listed, uuid):
    environ = {} if listed is None else {"CUDA_VISIBLE_DEVICES": listed}
    chosen = visible_devices(environ, [SPLIT]).chosen
    assert [one.uuid for _, one in chosen] == [uuid]


def test_split_and_whole_cards_together_are_in_doubt():
    assert "MIG" in visible_devices({}, [SPLIT, Card(1, B, "A100")]).doubt


def test_a_card_that_is_split_into_nothing_is_not_seen():
    assert not visible_devices({}, [Card(0, A, "A100", split=True)]).chosen
