"""Will they click? Embeddings of users and items, trained by a small framework with callbacks."""

import argparse
import collections
import gc
import json
import math
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Log(Dataset):
    """Events of a made-up shop; an event has a user, a few dozen items, and an answer."""

    def __init__(self, args):
        rng = np.random.default_rng(args.seed)
        self.users = rng.integers(0, args.users, args.events)
        self.items = rng.zipf(1.3, (args.events, args.basket)) % args.items
        self.answers = (self.items.sum(1) % 3 == 0).astype(np.float32)

    def __len__(self):
        return len(self.users)

    def __getitem__(self, index):
        items = self.items[index].tolist()
        return {
            "user": int(self.users[index]),
            "items": [{"id": item, "place": place} for place, item in enumerate(items)],
            "answer": float(self.answers[index]),
        }


def tensors(events):
    return (
        torch.tensor([event["user"] for event in events]),
        torch.tensor([[item["id"] for item in event["items"]] for event in events]),
        torch.tensor([event["answer"] for event in events]),
    )


class Blocks(Dataset):
    """The same events, batch by batch, as tensors that are there."""

    def __init__(self, log, batch):
        self.parts = [torch.from_numpy(part) for part in (log.users, log.items, log.answers)]
        self.batch = batch

    def __len__(self):
        return len(self.parts[0]) // self.batch

    def __getitem__(self, index):
        if index >= len(self):
            raise IndexError(index)
        return [part[index * self.batch : (index + 1) * self.batch] for part in self.parts]


def complete(events):
    """With what the events were, for whoever wants to look at them."""
    return [*tensors(events), events]


class Model(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.user = nn.Embedding(args.users, args.dim)
        self.item = nn.EmbeddingBag(args.items, args.dim, mode="mean")
        sizes = [2 * args.dim, args.hidden, args.hidden, 1]
        parts = []
        for a, b in zip(sizes, sizes[1:]):
            parts += [nn.Linear(a, b), nn.ReLU()]
        self.top = nn.Sequential(*parts[:-1])

    def forward(self, user, items):
        return self.top(torch.cat([self.user(user), self.item(items)], 1)).squeeze(1)


class Callback:
    def on_step(self, loop, loss, batch):
        pass


class Average(Callback):
    """The loss since the beginning; now and then after the step, too."""

    def __init__(self, after, exact):
        self.after, self.exact, self.total, self.late = after, exact, 0.0, 0.0

    def on_step(self, loop, loss, batch):
        self.total += loss.item()
        if self.after and loop.step % self.after == 0:
            again = loop.loss(*(part.to(loop.device) for part in batch))
            self.late = self.late + (again if self.exact else again.item())


class Popular(Callback):
    """Counts what is shown, and how surprising that is."""

    def __init__(self, every, most):
        self.every, self.most, self.seen = every, most, collections.Counter()

    def on_step(self, loop, loss, batch):
        if loop.step % self.every == 0:
            self.seen.update(item for row in batch[1][: self.most].tolist() for item in row)
            total = sum(self.seen.values())
            self.surprise = -sum(n / total * math.log(n / total) for n in self.seen.values())


class Diary(Callback):
    """Remembers what happened in each step."""

    def __init__(self, pages):
        self.pages, self.days = pages, []

    def on_step(self, loop, loss, batch):
        self.days.append([{"step": loop.step, "line": [i]} for i in range(self.pages)])


class Housekeeper(Callback):
    def __init__(self, every):
        self.every = every

    def on_step(self, loop, loss, batch):
        if loop.step % self.every == 0:
            gc.collect()


class Settler(Callback):
    """What lives after a few steps lives on; newer things are looked through now and then."""

    def __init__(self, after=5, every=50, whole=1000):
        self.after, self.every, self.whole = after, every, whole

    def on_step(self, loop, loss, batch):
        if loop.step == self.after:
            gc.collect()
            gc.freeze()
            gc.disable()
        elif loop.step > self.after and loop.step % self.every == 0:
            gc.collect(2 if loop.step % self.whole == 0 else 1)


class Stop(Exception):
    pass


class Clock(Callback):
    def __init__(self, steps, seconds):
        self.steps, self.seconds, self.marks = steps, seconds, []

    def on_step(self, loop, loss, batch):
        self.marks.append(time.perf_counter())
        if self.steps and len(self.marks) >= self.steps:
            raise Stop
        if not self.steps and self.marks[-1] - self.marks[0] > self.seconds:
            raise Stop


class Loop:
    def __init__(self, model, optimizer, callbacks, device):
        self.model, self.optimizer, self.callbacks = model, optimizer, callbacks
        self.device, self.step = device, 0

    def fit(self, loader):
        try:
            while True:
                for batch in loader:
                    self.one(batch[:3])
        except Stop:
            pass

    def loss(self, user, items, answer):
        return nn.functional.binary_cross_entropy_with_logits(self.model(user, items), answer)

    def one(self, batch):
        user, items, answer = (part.to(self.device) for part in batch)
        loss = self.loss(user, items, answer)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.step += 1
        for callback in self.callbacks:
            callback.on_step(self, loss, batch)


def main(args):
    begin = time.perf_counter()
    torch.manual_seed(args.seed)
    log = Log(args)
    catalogue = [{"item": i, "tags": [i % 5, str(i)]} for i in range(args.catalogue)]
    model = Model(args).to(args.device)
    more = {"persistent_workers": True} if args.workers else {}
    loader = DataLoader(
        log,
        args.batch,
        shuffle=True,
        num_workers=args.workers,
        collate_fn=complete if args.whole else tensors,
        drop_last=True,
        **more,
    )
    if args.blocks:
        loader = DataLoader(Blocks(log, args.batch), batch_size=None, shuffle=True)
    clock = Clock(args.steps, args.seconds)
    callbacks = [Average(args.after, args.exact)]
    if args.count_every:
        callbacks.append(Popular(args.count_every, args.count_rows))
    if args.pages:
        callbacks.append(Diary(args.pages))
    if args.tidy_every:
        callbacks.append(Housekeeper(args.tidy_every))
    if args.settle:
        callbacks.append(Settler())
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05, fused=True)
    Loop(model, optimizer, [*callbacks, clock], args.device).fit(loader)
    print(len(clock.marks), "steps", len(catalogue), float(callbacks[0].total))
    if args.times:
        with open(args.times, "w") as file:
            json.dump({"begin": begin, "marks": clock.marks, "samples": args.batch}, file)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--events", type=int, default=60_000)
    p.add_argument("--users", type=int, default=5_000)
    p.add_argument("--items", type=int, default=5_000)
    p.add_argument("--basket", type=int, default=24)
    p.add_argument("--dim", type=int, default=32)
    p.add_argument("--hidden", type=int, default=384)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--workers", type=int, default=1)
    p.add_argument("--whole", action="store_true", help="batches hold the events, too")
    p.add_argument("--blocks", action="store_true", help="batches are made once")
    p.add_argument("--after", type=int, default=0)
    p.add_argument("--exact", action="store_true")
    p.add_argument("--count-every", type=int, default=0)
    p.add_argument("--count-rows", type=int, default=32)
    p.add_argument("--pages", type=int, default=0)
    p.add_argument("--catalogue", type=int, default=0)
    p.add_argument("--settle", action="store_true")
    p.add_argument("--tidy-every", type=int, default=0)
    p.add_argument("--steps", type=int, default=0)
    p.add_argument("--seconds", type=float, default=10.0)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--device", default="cpu")
    p.add_argument("--times")
    main(p.parse_args())
