"""Copies that need not be waited for; ``meta`` stands for a device."""

import pytest
import torch
from torch.utils.data import DataLoader, _utils

from whyidle.probe.knobs.copy import PROVE

PLAIN = torch.Tensor.to
KNOB = "copy.non_blocking"


@pytest.fixture
def asked(monkeypatch):
    """What ``Tensor.to`` was asked for; and memory counts as pinned."""
    calls = []

    def to(self, *args, **kwargs):
        calls.append((args, kwargs))
        return PLAIN(self, *args, **kwargs)

    def pin_memory(self, *_):
        if getattr(self, "pinned", False):
            return self
        made = self.clone()
        made.pinned = True
        return made

    monkeypatch.setattr(torch.Tensor, "to", to)
    monkeypatch.setattr(torch.Tensor, "pin_memory", pin_memory)
    return calls


@pytest.fixture
def session(asked, turn):
    made = turn({KNOB: True})
    yield made
    made.undo_changes()


def collate(rows):
    """A batch as the loader's pinning makes it of what a collate function has put together."""
    return _utils.pin_memory.pin_memory({"x": torch.ones(len(rows), 3), "y": [torch.ones(4)]})


def batches(number=PROVE + 2, make=collate):
    return iter(DataLoader(range(4 * number), batch_size=4, collate_fn=make))


def proved():
    """A batch that comes after those whose copies are waited for."""
    given = batches()
    for _ in range(PROVE + 1):
        batch = next(given)
    return batch


def told(asked):
    return [kwargs.get("non_blocking", False) for _, kwargs in asked]


def test_what_the_loader_pinned_is_copied_without_waiting_after_the_first_batches(session, asked):
    for batch in batches():
        assert batch["x"].to("meta").device.type == "meta"
        batch["y"][0].to(torch.device("meta"), torch.float16)
    assert told(asked) == [False] * 2 * PROVE + [True] * 4
    assert session.applied == {KNOB: 4}


def test_parts_of_it_as_well(session, asked):
    proved()["x"][:, :-1].to("meta")
    assert told(asked) == [True]


def test_memory_that_the_script_pinned_may_be_written_anew(session, asked):
    proved()
    own = torch.ones(3).pin_memory()
    own.to("meta")
    torch.ones(3).to("meta")
    assert told(asked) == [False, False]
    assert not session.applied


def test_so_may_what_the_script_pinned_before_the_loader_would(session, asked):
    own = torch.ones(4, 3).pin_memory()
    for batch in batches(make=lambda rows: _utils.pin_memory.pin_memory({"x": own})):
        assert batch["x"] is own
        batch["x"].to("meta")
    assert set(told(asked)) == {False}
    assert not session.applied


def in_place(tensor):
    tensor[tensor == 1] = -100


def past_pytorch(tensor):
    tensor.numpy()[:] = -100


@pytest.mark.parametrize("change", [in_place, past_pytorch])
def test_a_batch_that_is_changed_after_its_copy_is_waited_for(session, asked, change):
    for batch in batches():
        batch["x"].to("meta")
        change(batch["x"])
    assert set(told(asked)) == {False}
    assert not session.applied
    assert session.declined == {KNOB: "the script changes a batch after it has copied it"}


def test_a_batch_that_is_changed_later_only_ends_it(session, asked):
    for number, batch in enumerate(batches(PROVE + 4)):
        batch["x"].to("meta")
        if number == PROVE + 1:
            in_place(batch["x"][:1])
    assert told(asked) == [False] * PROVE + [True] * 2 + [False] * 2
    assert KNOB in session.declined
    assert not session.applied  # nobody is to write it into the script


def test_a_batch_may_be_changed_before_its_copy(session):
    for batch in batches():
        in_place(batch["x"])
        batch["x"].to("meta")
    assert session.applied
    assert not session.declined


def test_each_loader_shows_first_what_becomes_of_its_batches(session, asked):
    """As those of an evaluation, whose labels are masked where they are."""
    proved()
    for batch in batches():
        batch["x"].to("meta")
        in_place(batch["x"])
    assert set(told(asked)) == {False}
    assert session.declined


def test_an_evaluation_that_changes_its_batches_takes_nothing_back(session):
    train = batches(PROVE + 4)
    for batch in train:
        batch["x"].to("meta")
    for batch in batches():
        batch["x"].to("meta")
        in_place(batch["x"])
    assert session.applied == {KNOB: 4}
    assert session.declined


def test_batches_whose_changes_cannot_be_seen_are_waited_for(session, asked, faults):
    with torch.inference_mode():
        for batch in batches():
            batch["x"].to("meta")
    assert set(told(asked)) == {False}
    assert not faults(session)


@pytest.mark.parametrize("args", [("meta", torch.float16, False), ("meta", None, True)])
def test_what_the_script_says_stands(session, asked, args):
    batch = proved()
    batch["x"].to(*args)
    batch["x"].to("meta", non_blocking=False)
    assert asked == [(args, {}), (("meta",), {"non_blocking": False})]
    assert not session.applied
    assert "for each copy itself" in session.waiting[KNOB]()


@pytest.mark.parametrize(
    ("home", "said", "becomes"),
    [
        ("accelerate.utils.operations", False, True),
        ("transformers.tokenization_utils_base", False, True),
        ("train", False, False),
    ],
)
def test_a_framework_that_passes_its_default_on_has_decided_nothing(
    session, asked, home, said, becomes
):
    send = {"__name__": home}
    exec("def send(x, wait):\n    return [one.to('meta', non_blocking=wait) for one in x]", send)
    send["send"]([proved()["x"]], said)
    assert told(asked) == [becomes]


def test_another_type_on_the_host_is_no_copy_to_a_device(session):
    assert proved()["x"].to(torch.float64).dtype == torch.float64
    assert not session.applied


def test_a_copy_is_not_waited_for_unless_the_batch_is_changed_after_it(told_by):
    for job, seen in told_by("on_emulated.py").items():
        assert (seen["same"], seen["faults"]) == (True, []), job
        assert bool(seen["took"]) == (job == "plain")
        assert ("changes a batch" in seen["declined"]) == (job == "changed later")
