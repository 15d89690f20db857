"""Padding is counted from what a loss remembers of its ids; no code of the job is run for it."""

import pytest
import standin

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch.autograd.graph import saved_tensors_hooks  # noqa: E402

from whyidle.probe.frameworks.torch import embedding_ids, padding  # noqa: E402

SIZES, WIDTH = (10, 4, 7, 5), 12
REAL, ALL, LONGEST = sum(SIZES), 4 * WIDTH, 4 * 10


def batch(left=False):
    """Rows of numbers from 5 on, filled up with zeros."""
    rows = torch.zeros(len(SIZES), WIDTH, dtype=torch.long)
    for row, size in zip(rows, SIZES, strict=True):
        row[:size] = torch.arange(5, 5 + size)
    return rows.flip(1) if left else rows


class Net(torch.nn.Module):
    def __init__(self, pad=0):
        super().__init__()
        self.places = torch.nn.Embedding(WIDTH, 3)
        self.words = torch.nn.Embedding(20, 3, padding_idx=pad)
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x):
        y = self.places(torch.arange(x.shape[1]))[None] + self.words(x)
        return (y + self.layer(y)).sum()


SAVED = torch.nn.Embedding(2, 1)(torch.zeros(1, dtype=torch.long)).grad_fn._raw_saved_indices
readable = pytest.mark.skipif(
    not hasattr(SAVED, "unpack_hook"),
    reason="this PyTorch does not tell whether reading a saved tensor would run the job's code: "
    "so none is read",
)


def told(loss):
    found = embedding_ids.padding_of_loss(loss)
    return None if found is None else (found[0], found[1], found[5])


@readable
def test_what_the_embedding_calls_padding():
    assert told(Net()(batch())) == (REAL, ALL, embedding_ids.IDS)
    assert embedding_ids.padding_of_loss(Net()(batch()))[2] == LONGEST


@readable
@pytest.mark.parametrize("data", [batch(left=True), batch().T])
def test_on_the_other_side_and_with_time_first(data):
    net = Net()
    assert told(net.words(data).sum()) == (REAL, ALL, embedding_ids.IDS)


@readable
def test_what_rows_end_in_where_the_embedding_does_not_say():
    assert told(Net(pad=None)(batch())) == (REAL, ALL, padding.TOKENS)


def test_ids_that_are_padding_here_and_there_are_no_sequences():
    mixed = batch()
    mixed[:, 2] = 0
    assert told(Net()(mixed)) is None


@pytest.mark.parametrize(
    "loss",
    [
        torch.ones(1),
        torch.nn.Linear(3, 1)(torch.ones(3)),
        torch.nn.Embedding(9, 3)(torch.tensor(4)).sum(),
        None,
    ],
)
def test_a_loss_without_sequences(loss):
    assert told(loss) is None


def test_what_the_job_saves_in_its_own_way_is_not_read():
    read = []
    with saved_tensors_hooks(lambda kept: kept, lambda kept: read.append(kept) or kept):
        loss = Net()(batch())
    assert told(loss) is None
    assert not read
    loss.backward()
    assert read


@pytest.fixture
def looking():
    loop = standin.Loop()
    found = embedding_ids.EmbeddingIds(loop, padding.PaddingCounter(loop))
    loop.add_listener(found)
    loop.steps, loop.alerts = 1, 0
    return found


def backward(looking, loss):
    looking.events.notify("on_backward_begin", (loss,))
    loss.backward()


@readable
def test_it_looks_at_a_few_backward_passes_and_goes(looking, monkeypatch):
    monkeypatch.setattr(embedding_ids, "clock_ns", lambda: 1)  # a busy machine would run past it
    net = Net()
    looking.on_chore()
    looking.on_chore()
    assert looking.events.alerts == 1
    for _ in range(embedding_ids.LOOKS + 3):
        backward(looking, net(batch()))
    assert net.words.weight.grad is not None
    assert [row[0] for row in looking.events.rows] == ["padding"] * embedding_ids.LOOKS
    looking.on_chore()  # its rest is not over
    assert looking.events.alerts == 1
    assert not looking.left


def test_it_gives_up_where_nothing_is_told(looking):
    line = torch.nn.Linear(3, 1)
    for _ in range(padding.TRIES):
        looking.next = 0
        looking.on_chore()
        backward(looking, line(torch.ones(3)).sum())
    looking.next = looking.events.alerts = 0
    looking.on_chore()
    assert not looking.events.alerts
    assert not looking.events.rows


def test_it_does_not_look_where_batches_tell(looking):
    looking.counter.found = True
    looking.on_chore()
    assert not looking.events.alerts


def test_it_leaves_at_once_when_it_is_told_to(looking):
    looking.on_chore()
    looking.events.undo["ids"]()
    backward(looking, Net()(batch()))
    assert not looking.events.rows


def test_a_fault_of_its_own_never_reaches_the_job(looking, monkeypatch):
    monkeypatch.setattr(embedding_ids, "padding_of_loss", lambda loss: 1 / 0)
    net = Net()
    looking.on_chore()
    backward(looking, net(batch()))
    assert net.words.weight.grad is not None
    assert not looking.tries
    assert not looking.left
    assert [where for where, _ in looking.events.faults] == ["ids"]
