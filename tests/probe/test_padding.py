"""Padding is counted from what batches hold, and nothing else is taken for it."""

import pytest
import standin

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch.nn.utils.rnn import pad_sequence  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402

from whyidle.probe.frameworks.torch import batch_checksum, padding  # noqa: E402
from whyidle.probe.frameworks.torch.padding import FRAMES, LENGTHS, MASK, TOKENS, padding_of_batch  # noqa: E402

SIZES = (10, 4, 7, 5)
REAL, ALL = sum(SIZES), 4 * 10


def tokens(length=10, first=5):
    rows = [torch.arange(first, first + n) for n in SIZES]
    padded = pad_sequence(rows, batch_first=True)
    return torch.nn.functional.pad(padded, (0, length - 10))


def vectors(first=True):
    return pad_sequence([torch.rand(n, 3) + 1 for n in SIZES], batch_first=first)


def mask(length=10):
    return (tokens(length) != 0).long()


def told(data):
    found = padding_of_batch(data)
    return None if found is None else (found[0], found[1], found[5])


@pytest.mark.parametrize(
    "data",
    [
        {"input_ids": tokens(), "attention_mask": mask()},
        {"x": {"attention_mask": mask().bool()}},
        {"input_ids": tokens(), "attention_mask": mask().flip(1)},
        {"src_key_padding_mask": mask() == 0},
        [torch.randn(4, 10, 3), mask().bool()],
    ],
)
def test_masks(data):
    assert told(data) == (REAL, ALL, MASK)


@pytest.mark.parametrize(
    "data",
    [
        {"x": torch.randn(4, 10, 3), "x_lens": torch.tensor(SIZES)},
        (vectors().sum(2), torch.tensor(SIZES), torch.zeros(4)),
        (vectors(first=False), list(SIZES)),
    ],
)
def test_lengths(data):
    assert told(data) == (REAL, ALL, LENGTHS)


@pytest.mark.parametrize("first", [True, False])
def test_vectors_of_zeros(first):
    rows = [torch.rand(n, 6) + 1 for n in SIZES]
    assert told((pad_sequence(rows, batch_first=first),)) == (REAL, ALL, FRAMES)


@pytest.mark.parametrize("data", [tokens(), tokens().T.contiguous(), {"ids": tokens().int()}])
def test_tokens(data):
    assert told(data) == (REAL, ALL, TOKENS)


def test_padding_to_a_maximum_is_told_from_padding_to_the_longest():
    found = padding_of_batch({"input_ids": tokens(64), "attention_mask": mask(64)})
    assert found[:3] == (REAL, 4 * 64, ALL)


@pytest.mark.parametrize(
    "data",
    [
        (torch.randn(4, 64), torch.tensor([1, 0, 3, 2])),
        (torch.randn(4, 64), torch.tensor([1, 64, 3, 2])),
        (torch.randn(4, 3, 32, 32), torch.tensor([1, 0, 3, 2])),
        {"image": torch.randn(4, 32, 32), "mask": (torch.rand(4, 32) > 0.5)},
        {"image": torch.randn(4, 32, 32), "mask": torch.rand(4, 32, 32) > 0.5},
        {"labels": torch.full((4, 16), -100)},
        "text",
        None,
        [],
        {"x": torch.randn(4, 10, dtype=torch.bfloat16)},
        torch.randn(4, 10, device="meta"),
    ],
)
def test_nothing_to_tell(data):
    assert told(data) is None


def test_blocks_of_text_hold_no_padding():
    torch.manual_seed(0)
    found = padding_of_batch(
        (torch.randint(0, 50_000, (8, 128)), torch.randint(0, 50_000, (8, 128)))
    )
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "data",
    [
        torch.randint(0, 2, (32, 50)),
        torch.nn.functional.pad(torch.rand(8, 20, 28) + 1, (0, 0, 4, 4)),
        torch.randint(0, 3, (64, 26)),
    ],
)
def test_what_is_as_frequent_elsewhere_is_no_padding(data):
    found = padding_of_batch((data,))
    assert found is None or found[0] == found[1]


def test_large_batches_are_read_in_part():
    length = padding.MOST_CELLS // 16
    real = torch.zeros(64, length, dtype=torch.bool)
    real[:, : length // 4] = True
    found = padding_of_batch({"attention_mask": real})
    assert found[0] * 4 == found[1] < real.numel() / 3


def test_looks_are_bought_from_a_budget(monkeypatch):
    clock = iter(range(0, 10**12, 1000))
    for name in ("clock_ns", "cpu"):
        monkeypatch.setattr(padding, name, lambda: next(clock))
    loop = standin.Loop()
    looking = padding.PaddingCounter(loop)
    looking.credit = 0
    for _ in range(5000):
        looking.note_batch({"attention_mask": mask()})
    assert 1 < len(loop.rows) < 8
    assert loop.rows[0][0] == "padding"
    assert loop.rows[0][1][1:3] == (REAL, ALL)


def test_the_first_looks_come_sooner(monkeypatch):
    clock = iter(range(0, 10**12, 1000))
    for name in ("clock_ns", "cpu"):
        monkeypatch.setattr(padding, name, lambda: next(clock))
    loop = standin.Loop()
    looking = padding.PaddingCounter(loop)
    for _ in range(5000):
        looking.note_batch({"attention_mask": mask()})
    assert 8 < len(loop.rows) < 80


def test_where_nothing_tells_nobody_looks_again(monkeypatch):
    loop = standin.Loop()
    looking = padding.PaddingCounter(loop)
    monkeypatch.setattr(padding, "EARLY_BUDGET", 1e9)
    seen = []
    monkeypatch.setattr(padding, "padding_of_batch", seen.append)
    for _ in range(50):
        looking.note_batch(1)
    assert len(seen) == padding.TRIES


def test_a_fault_ends_the_looking_and_nothing_else(monkeypatch):
    loop = standin.Loop()
    looking = padding.PaddingCounter(loop)
    monkeypatch.setattr(padding, "padding_of_batch", lambda data: 1 / 0)
    looking.note_batch(1)
    looking.note_batch(1)
    assert [where for where, _ in loop.faults] == ["padding"]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool, torch.float16])
def test_a_batch_that_was_looked_at_can_be_resized(dtype):
    batch = mask().to(dtype)
    assert padding.as_array(batch).shape == (4, 10)
    assert batch.resize_(64, 10).shape == (64, 10)


def test_a_mode_of_the_jobs_sees_no_look():
    class Mode(TorchFunctionMode):
        seen = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            Mode.seen += 1
            return func(*args, **(kwargs or {}))

    batch = mask()
    with Mode():
        assert padding.as_array(batch).shape == (4, 10)
        assert not Mode.seen
        batch.dim()
    assert Mode.seen == 1


def test_a_type_that_numpy_does_not_know_tells_nothing():
    assert padding.as_array(torch.zeros(4, 10).to(torch.float8_e5m2)) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.complex64])
def test_a_checksum_leaves_the_batch_as_it_is(dtype):
    batch = (torch.arange(40).reshape(4, 10) % 2).to(dtype)
    index, told = batch_checksum.checksum_sample([8, 1, 2, 3], batch)
    assert (index, told) == batch_checksum.checksum_sample([1, 8], batch[[1, 0]])
    assert told != batch_checksum.checksum_sample([8], batch[:1].logical_not().to(dtype))[1]
    assert batch.resize_(64, 10).shape == (64, 10)
