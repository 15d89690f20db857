"""Batches of like length: the same samples, as often, in batches of the same sizes."""

from itertools import chain

import pytest
import torch
import torch.distributed as ranks
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    WeightedRandomSampler,
)
from torch.utils.data.distributed import DistributedSampler

from whyidle.probe.knobs import _grouping

EDIT = {"loader.batch_by_length": True}
KNOB = "loader.batch_by_length"


class Lines(Dataset):
    def __init__(self, length=lambda index: 1 + (index * 37) % 50, count=150):
        self.length, self.count = length, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return {"row": index, "words": torch.zeros(self.length(index))}


def rows(samples):
    return [one["row"] for one in samples]


def epochs(data, count=3, **named):
    """Batches of rows, by epoch, and what the job's own random numbers then are."""
    torch.manual_seed(7)
    asked = {"batch_size": 4, "shuffle": True, "collate_fn": rows} | named
    loader = DataLoader(data, **asked)
    return [(list(loader), torch.rand(1).item()) for _ in range(count)]


def spread(batches, length):
    """Mean difference of the longest and shortest of a batch."""
    return sum(max(map(length, b)) - min(map(length, b)) for b in batches) / len(batches)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "subset"])
def test_from_the_second_epoch_on_like_comes_with_like(turn, workers, whole):
    data = Lines() if whole else Subset(Lines(), range(150))
    plain = epochs(data, num_workers=workers)
    hand = turn(EDIT)
    treated = epochs(data, num_workers=workers)
    assert treated[0] == plain[0]
    for (one, drawn), (other, as_ever) in zip(treated[1:], plain[1:], strict=True):
        assert drawn == as_ever
        assert [len(batch) for batch in one] == [len(batch) for batch in other]
        assert sorted(chain(*one)) == list(range(150))
        assert one != other
        assert spread(one, Lines().length) < 0.3 * spread(other, Lines().length)
    assert treated[1][0] != treated[2][0]
    assert hand.applied == {KNOB: 2}
    assert not hand.declined


def test_batches_come_in_mixed_order(turn):
    turn(EDIT)
    _, (batches, _) = epochs(Lines(), count=2)
    lengths = [Lines().length(batch[0]) for batch in batches]
    assert lengths != sorted(lengths)
    assert lengths != sorted(lengths, reverse=True)


def test_each_pool_by_itself(turn, monkeypatch):
    monkeypatch.setattr(_grouping, "POOL", 5)
    plain = epochs(Lines(), count=2)[1][0]
    turn(EDIT)
    treated = epochs(Lines(), count=2)[1][0]
    for at in range(0, len(plain), 5):
        assert sorted(chain(*treated[at : at + 5])) == sorted(chain(*plain[at : at + 5]))


def test_all_ranks_mix_alike(turn):
    turn(EDIT)
    seen = []
    for rank in (0, 1):
        data = Lines()
        sampler = DistributedSampler(data, 2, rank, shuffle=True)
        loader = DataLoader(data, 3, sampler=sampler, collate_fn=rows)
        whole = DataLoader(data, 3, collate_fn=rows, shuffle=True)
        list(whole)  # all lengths are known
        seen.append([sum(map(data.length, batch)) for _ in range(2) for batch in loader][25:])
    apart = [abs(one - other) for one, other in zip(*seen, strict=True)]
    assert sum(apart) < 0.2 * sum(seen[0])


@pytest.fixture
def two_ranks():
    """This is one of them; the group has no network."""
    ranks.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield
    ranks.destroy_process_group()


def test_an_order_that_ranks_draw_in_common_is_left_alone(turn, two_ranks):
    """As accelerate does, which then gives each of them every second batch."""
    plain = epochs(Lines())
    hand = turn(EDIT)
    assert epochs(Lines()) == plain
    assert not hand.applied
    assert hand.declined == {
        KNOB: "its ranks share one order, and each of them knows other lengths"
    }


def test_a_rank_with_a_part_of_its_own_has_its_own_order(turn, two_ranks):
    sampler = DistributedSampler(Lines(), shuffle=True)
    hand = turn(EDIT)
    loader = DataLoader(sampler.dataset, 4, sampler=sampler, collate_fn=rows)
    whole = DataLoader(sampler.dataset, 4, shuffle=True, collate_fn=rows)
    list(whole)  # all lengths are known
    seen = [sorted(chain(*loader)) for _ in range(2)]
    assert seen[0] == seen[1]
    assert hand.applied == {KNOB: 2}
    assert not hand.declined


@pytest.mark.parametrize(
    "settings",
    [
        {"shuffle": False},
        {"shuffle": None, "sampler": SequentialSampler(range(150))},
        {"shuffle": None, "sampler": WeightedRandomSampler([1.0] * 150, 150)},
        {"shuffle": None, "sampler": RandomSampler(range(150), replacement=True)},
        {"batch_size": 1, "shuffle": None,
         "batch_sampler": type("Own", (BatchSampler,), {})(RandomSampler(range(150)), 4, True)},
    ],
    ids=["in order", "sequential", "weighted", "replacement", "own"],
)  # fmt: skip
def test_an_order_that_somebody_chose_is_left_alone(turn, settings):
    plain = epochs(Lines(), **settings)
    hand = turn(EDIT)
    assert epochs(Lines(), **settings) == plain
    assert not hand.applied


def test_samples_of_one_length(turn):
    data = Lines(lambda index: 50 - index % 2)
    plain = epochs(data)
    hand = turn(EDIT)
    assert epochs(data) == plain
    assert hand.declined == {KNOB: "its samples are all of about one length"}


def test_a_plain_list_is_left_alone(turn):
    data = [torch.zeros(n) for n in range(1, 9)]
    hand = turn(EDIT)
    loader = DataLoader(data, 2, shuffle=True, collate_fn=len)
    assert [list(loader) for _ in range(2)] == [[2] * 4] * 2
    assert hand.declined == {KNOB: "its dataset is a list"}


@pytest.mark.parametrize(
    ("sample", "length"),
    [
        ({"input_ids": torch.zeros(9), "attention_mask": torch.tensor([1, 1, 1, 0])}, 3),
        ({"attention_mask": [1, 1, 0]}, 2),
        ({"a": torch.zeros(4, 9), "b": 3}, 4),
        ((torch.zeros(5), 1), 5),
        ([1, 2, 3], 3),
        ("text", 4),
        (torch.zeros(()), 0),
        (None, 0),
    ],
)
def test_how_long_a_sample_is(sample, length):
    assert _grouping.length_of(sample) == length


def test_a_fault_in_the_knob_is_not_the_jobs(turn, faults, monkeypatch):
    def broken(_):
        raise ZeroDivisionError("a planted fault")

    monkeypatch.setattr(_grouping, "length_of", broken)
    plain = epochs(Lines())
    hand = turn(EDIT)
    assert epochs(Lines()) == plain
    assert "planted" in hand.declined[KNOB]
    assert len(faults(hand)) == 1
