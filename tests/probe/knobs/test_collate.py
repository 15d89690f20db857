"""Batches without their padding: the same numbers but for rounding, or none of it."""

import collections
import re

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

from whyidle.probe.knobs import _unpadded, collate

EDIT = {"collate.pad_to": "longest"}
KNOB = "collate.pad_to"
ROWS, LONG, WORDS = 48, 64, 30


class Lines(Dataset):
    """Lines of up to 30 words, padded to 64."""

    def __init__(self, left_out=-100, **other):
        self.left_out, self.other = left_out, other

    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        made = torch.Generator().manual_seed(index)
        length = 5 + (index * 7) % 26
        words = torch.zeros(LONG, dtype=torch.long)
        words[:length] = torch.randint(1, WORDS, (length,), generator=made)
        mask = (torch.arange(LONG) < length).long()
        labels = torch.where(mask.bool(), words, self.left_out)
        sample = {"input_ids": words, "attention_mask": mask, "labels": labels, "row": index}
        return sample | {name: make(words) for name, make in self.other.items()}


class Reader(nn.Module):
    """Attends to what the mask leaves; ``end`` makes a row's numbers of its words'."""

    def __init__(self, end, between=nn.Identity, drop=0.0):
        super().__init__()
        self.words = nn.Embedding(WORDS, 16, padding_idx=0)
        self.attend = nn.MultiheadAttention(16, 2, batch_first=True)
        self.between, self.drop = between(), nn.Dropout(drop)
        self.out = nn.Linear(16, WORDS)
        self.end = end

    def forward(self, input_ids, attention_mask, **_):
        x = self.drop(self.words(input_ids))
        x = x + self.attend(x, x, x, key_padding_mask=attention_mask == 0)[0]
        x = self.between(x)
        return self.end(self.out(x), attention_mask)


def each(x, mask):
    """Numbers for each word."""
    return x


def pooled(x, mask):
    """Of the words that are there."""
    return (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


def careless(x, mask):
    """Of the padding as well."""
    return x.mean(1)


def word_loss(out, batch):
    return nn.functional.cross_entropy(out.flatten(0, 1), batch["labels"].flatten())


def row_loss(out, batch):
    return nn.functional.cross_entropy(out, batch["input_ids"][:, 0])


class Backwards(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(16, 8, batch_first=True, bidirectional=True)

    def forward(self, x):
        return self.rnn(x)[0]


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(16)

    def forward(self, x):
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.times = 0

    def forward(self, x):
        self.times += 1
        return x


class Fixed(nn.Module):
    """Wants one length."""

    def __init__(self):
        super().__init__()
        self.place = nn.Parameter(torch.zeros(LONG, 16))

    def forward(self, x):
        return x + self.place


def train(model, data=None, loss_of=word_loss, epochs=2, call=None, **named):
    """Losses, and the width of each batch."""
    torch.manual_seed(3)
    for one in model.parameters():
        nn.init.normal_(one, std=0.2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = named.pop("make", DataLoader)(data or Lines(), batch_size=4, **named)
    losses, widths = [], []
    for _ in range(epochs):
        for batch in loader:
            widths.append(batch["input_ids"].shape[1])
            given = {k: v for k, v in batch.items() if k != "row"}
            loss = loss_of(call(batch) if call else model(**given), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses, widths


@pytest.mark.parametrize(("end", "loss_of"), [(each, word_loss), (pooled, row_loss)])
@pytest.mark.parametrize("workers", [0, 2])
def test_padding_is_cut_off_once_it_is_proven_to_be_for_nothing(turn, end, loss_of, workers):
    plain, _ = train(Reader(end), loss_of=loss_of, num_workers=workers)
    hand = turn(EDIT)
    losses, widths = train(Reader(end), loss_of=loss_of, num_workers=workers)
    assert losses == pytest.approx(plain, rel=1e-3)
    assert set(widths[: collate.PROVE]) == {LONG}
    assert max(widths[12:]) <= 32
    assert all(width % 8 == 0 for width in widths)
    assert not hand.declined
    assert hand.applied or workers


class Ahead(DataLoader):
    """Gives each batch once the next one has been fetched, as accelerate does."""

    def __iter__(self):
        rest = super().__iter__()
        now = next(rest)
        for following in rest:
            yield now
            now = following
        yield now


def test_a_loader_that_is_a_batch_ahead_of_the_script(turn):
    rows = sorted(range(ROWS), key=lambda index: (index * 7) % 26)
    short, long = rows[: ROWS // 2], rows[ROWS // 2 :]
    turns = [half[i : i + 4] for i in range(0, ROWS // 2, 4) for half in (long, short)]
    order = {"sampler": [index for four in turns for index in four]}
    plain, _ = train(Reader(each), **order)
    hand = turn(EDIT)
    losses, widths = train(Reader(each), make=Ahead, **order)
    assert not hand.declined
    assert losses == pytest.approx(plain, rel=1e-3)
    assert max(widths[12:]) <= 32
    assert min(widths[12:]) < max(widths[12:])


def evaluated(model, data, workers):
    """What it says of each word, put together as scripts do."""
    model.eval()
    loader = DataLoader(data, batch_size=4, num_workers=workers)
    with torch.no_grad():
        said = [model(b["input_ids"], b["attention_mask"]).argmax(-1) for b in loader]
    model.train()
    return torch.cat(said)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("held_out", [True, False], ids=["held out", "trained on"])
def test_an_evaluation_is_left_its_lengths(turn, workers, held_out):
    hand = turn(EDIT)
    model, data = Reader(each), Lines()
    part = Subset(data, range(8, 24)) if held_out else data
    _, widths = train(model, data, num_workers=workers)
    assert max(widths[12:]) <= 32
    assert evaluated(model, part, workers).shape == (len(part), LONG)
    assert max(train(model, data, num_workers=workers)[1]) <= 32
    assert not hand.declined


@pytest.mark.parametrize("workers", [0, 2])
def test_an_evaluation_before_the_training_teaches_nothing(turn, workers):
    turn(EDIT)
    model = Reader(each)
    base = Lines()
    kept, rest = Subset(base, range(16)), Subset(base, range(16, ROWS))
    assert evaluated(model, kept, workers).shape == (16, LONG)
    assert min(train(model, rest, num_workers=workers, epochs=3)[1]) <= 32
    assert evaluated(model, kept, workers).shape == (16, LONG)


def test_the_proof_changes_nothing(turn):
    plain, _ = train(Reader(each, drop=0.3))
    turn(EDIT)
    losses, _ = train(Reader(each, drop=0.3))
    assert losses[: collate.PROVE] == plain[: collate.PROVE]


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ((lambda: Reader(careless), Lines(), row_loss), "makes something else"),
        ((lambda: Reader(each, Backwards), Lines(), word_loss), "makes something else"),
        ((lambda: Reader(each, Normed), Lines(), word_loss), "normalises over batches"),
        ((lambda: Reader(each, Counts), Lines(), word_loss), "changes by being called"),
        ((lambda: Reader(each, Fixed), Lines(), word_loss), "refuses a batch without its padding"),
        ((lambda: Reader(each), Lines(left_out=0), word_loss), "'labels' in its batches does not"),
        (
            (lambda: Reader(each), Lines(square=lambda w: w[None] * w[:, None]), word_loss),
            "'square' in its batches is laid out otherwise",
        ),
        ((lambda: Reader(each), Lines(more=lambda w: [w, w]), word_loss), "is no tensor"),
    ],
    ids=["pooling", "backwards", "norm", "counts", "fixed", "targets", "square", "nested"],
)
def test_it_declines(turn, faults, case, why):
    model, data, loss_of = case
    made = model()
    if isinstance(made.between, Backwards):
        made.out = nn.Linear(16, WORDS)
    plain, _ = train(model(), data, loss_of)
    hand = turn(EDIT)
    losses, widths = train(made, data, loss_of)
    assert losses == plain
    assert set(widths) == {LONG}
    assert why in hand.declined[KNOB]
    assert not faults(hand)
    if isinstance(made.between, Counts):
        assert made.between.times == len(losses)


def test_without_a_mask_nothing_is_known(turn):
    def collated(samples):
        return {"input_ids": torch.stack([one["input_ids"] for one in samples])}

    net = nn.Sequential(nn.Embedding(WORDS, 4), nn.Linear(4, 1))
    hand = turn(EDIT)
    _, widths = train(
        net, loss_of=lambda out, _: out.mean(), call=lambda b: net(b["input_ids"]), epochs=3,
        collate_fn=collated,
    )  # fmt: skip
    assert set(widths) == {LONG}
    assert "no mask shows" in hand.declined[KNOB]


def test_batches_of_other_types_are_left_alone(turn):
    hand = turn(EDIT)
    loader = DataLoader(Lines(), batch_size=4, collate_fn=lambda some: [one["row"] for one in some])
    assert len(list(loader)) == 12
    assert hand.declined[KNOB] == "its batches are no dicts: builtins.list"


def test_where_the_loss_is_not_told_it_declines(turn):
    """Numbers for each word, and targets that are not seen to be left out."""
    data = Lines()
    data.other = {"labels": lambda w: int(w[0])}
    hand = turn(EDIT)
    _, widths = train(Reader(each), data, lambda out, batch: out.square().mean())
    assert set(widths) == {LONG}
    assert "whether its loss leaves padding out" in hand.declined[KNOB]


def test_between_several_models_anything_may_happen(turn):
    """Each makes the same without padding; the mean between them does not."""
    body, head = Reader(each), nn.Linear(WORDS, WORDS)
    both = nn.ModuleList([body, head])

    def call(batch):
        return head(body(batch["input_ids"], batch["attention_mask"]).mean(1))

    plain = train(both, loss_of=row_loss, call=call)
    hand = turn(EDIT)
    assert train(both, loss_of=row_loss, call=call) == plain
    assert "several models" in hand.declined[KNOB]


def test_compiled_models_see_no_new_lengths(turn):
    hand = turn(EDIT)
    model = Reader(each)
    model.attend._compiled_call_impl = model.attend._call_impl
    _, widths = train(model)
    assert set(widths) == {LONG}
    assert "compiled" in hand.declined[KNOB]


@pytest.mark.parametrize("kind", [collections.OrderedDict, collections.UserDict])
def test_dicts_keep_their_type(turn, kind):
    def collated(samples):
        return kind(torch.utils.data.default_collate(samples))

    hand = turn(EDIT)
    seen = []
    model = Reader(each)
    train(
        model, collate_fn=collated,
        call=lambda b: (seen.append(type(b)), model(b["input_ids"], b["attention_mask"]))[1],
    )  # fmt: skip
    assert set(seen) == {kind}
    assert hand.applied


def test_rows_that_are_all_real_are_whole():
    full = {"attention_mask": torch.ones(2, 16, dtype=torch.long)}
    assert collate.cut_of(full) is None
    left = {"attention_mask": torch.tensor([[0, 1] * 8, [1] * 16])}
    assert collate.cut_of(left) is None


def test_what_is_not_the_same_in_the_end_is_not_cut_off():
    mask = (torch.arange(32)[None] < torch.tensor([[5], [9]])).long()
    assert collate.cut_of({"attention_mask": mask}).keep == 16
    assert collate.cut_of({"attention_mask": mask, "place": torch.arange(64).view(2, 32)}) is None


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.00001]), True),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.01]), False),
        (torch.tensor([1.0, 2.0]).half(), torch.tensor([1.0, 2.01]).half(), True),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), False),
        (torch.tensor([1.0, float("nan")]), torch.tensor([1.0, 2.0]), False),
        (torch.ones(2, 8), torch.ones(2, 4), True),
        (torch.ones(2, 4), torch.ones(2, 8), False),
    ],
)
def test_the_same_but_for_rounding(one, other, near):
    assert _unpadded._near(one, other) is near


def test_a_fault_in_the_knob_is_not_the_jobs(turn, faults, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("a planted fault")

    monkeypatch.setattr(collate, "cut_of", broken)
    plain, _ = train(Reader(each))
    hand = turn(EDIT)
    assert train(Reader(each))[0] == plain
    assert re.search("planted", hand.declined[KNOB])
    assert len(faults(hand)) == 1
