"""Which lines of a training loop only report."""

from textwrap import dedent

import pytest

from whyidle.analysis.lines.needed_lines import NeededLines, judge_sources

BEGINNING = """
import copy, torch, wandb
from lightning import LightningModule
from torch.nn.functional import cross_entropy
outputs = []
numbers = {}
def accuracy(out, y):
    return (out.argmax(1) == y).float().mean()
"""


def reporting(text):
    """The stripped lines that only report."""
    text = BEGINNING + dedent(text).strip()
    lines = text.splitlines()
    first = BEGINNING.count("\n")
    return [
        lines[number - 1].strip()
        for number in sorted(judge_sources({"a.py": text})["a.py"].reporting)
        if number > first
    ]


def test_a_metric_over_outputs_is_not_needed():
    assert reporting("""
        for x, y in loader:
            out = net(x)
            loss = criterion(out, y)
            loss.backward()
            opt.step()
            outputs.append(out.detach())
            right = (torch.cat(outputs).argmax(1) == y).float().mean()
    """) == [
        "outputs.append(out.detach())",
        "right = (torch.cat(outputs).argmax(1) == y).float().mean()",
    ]


def test_norms_into_a_dictionary_are_not_needed():
    assert reporting("""
        for x, y in loader:
            criterion(net(x), y).backward()
            for name, p in net.named_parameters():
                numbers[name] = p.grad.norm().item()
            opt.step()
    """) == ["for name, p in net.named_parameters():", "numbers[name] = p.grad.norm().item()"]


NEEDED = {
    "clipping by hand": """
        for x, y in loader:
            criterion(net(x), y).backward()
            total = torch.stack([p.grad.norm() for p in net.parameters()]).norm()
            scale = 1.0 / total.clamp(min=1.0)
            for p in net.parameters():
                p.grad.mul_(scale)
            opt.step()
    """,
    "averaged weights": """
        for x, y in loader:
            criterion(net(x), y).backward()
            opt.step()
            for e, p in zip(ema.parameters(), net.parameters()):
                e.data = 0.99 * e.data + 0.01 * p.data
    """,
    "averaged weights of a class": """
        class Ema:
            def update(self, model):
                for e, p in zip(self.copies, model.parameters()):
                    e.lerp_(p, 0.01)
        for x, y in loader:
            criterion(net(x), y).backward()
            opt.step()
            ema.update(net)
    """,
    "a teacher": """
        for x, y in loader:
            with torch.no_grad():
                target = teacher(x)
            loss = (net(x) - target).square().mean()
            loss.backward()
            opt.step()
    """,
    "two networks": """
        for x in loader:
            fake = maker(noise())
            judged = critic(fake.detach()) - critic(x)
            judged.mean().backward()
            critic_opt.step()
            (-critic(fake)).mean().backward()
            maker_opt.step()
    """,
    "an environment and its buffer": """
        for step in range(n):
            action = policy(state)
            state, reward, done = env.step(action)
            buffer.append((state, reward))
            batch = sample(buffer)
            loss_of(batch).backward()
            opt.step()
            if done:
                state = env.reset()
    """,
    "turns that functions keep in an object": """
        def select(state):
            action = model(state)
            model.saved.append(action)
            return action.item()
        def finish():
            loss = torch.stack([value for value in model.saved]).sum() + sum(model.rewards)
            loss.backward()
            optimizer.step()
        for episode in range(n):
            state = env.reset()
            for t in range(1000):
                action = select(state)
                state, reward, done, _ = env.step(action)
                model.rewards.append(reward)
            finish()
    """,
    "a method that fills what another trains on": """
        class Agent:
            def collect(self):
                self.turns.append(self.env.turn())
            def learn(self):
                self.loss(self.turns).backward()
            def run(self):
                self.collect()
                self.learn()
    """,
    "a learning rate": """
        for x, y in loader:
            for group in opt.param_groups:
                group["lr"] = schedule(step)
            criterion(net(x), y).backward()
            opt.step()
            scheduler.step()
    """,
    "a guard": """
        for x, y in loader:
            loss = criterion(net(x), y)
            bad = torch.isnan(loss).any()
            if bad:
                continue
            loss.backward()
            opt.step()
    """,
    "a custom loss": """
        def distance(a, b):
            return (a - b).abs().mean()
        for x, y in loader:
            near = distance(net(x), y)
            near.backward()
            opt.step()
    """,
    "a step's hidden state": """
        def step(x, hidden):
            out, hidden = net(x, hidden)
            out.mean().backward()
            opt.step()
            kept = hidden.detach()
            return kept
        for x in loader:
            hidden = step(x, hidden)
    """,
    "an unknown call": """
        for x, y in loader:
            criterion(net(x), y).backward()
            opt.step()
            model_ema.update_average(net)
    """,
}


@pytest.mark.parametrize("text", NEEDED.values(), ids=NEEDED)
def test_training_is_needed(text):
    assert reporting(text) == []


def test_what_a_function_returns_only_to_be_printed_is_not_needed():
    text = """
        def train(loader):
            right = 0
            for x, y in loader:
                out = net(x)
                criterion(out, y).backward()
                opt.step()
                right += accuracy(out, y)
            return right / len(loader)
        for epoch in range(9):
            share = train(loader)
            print(epoch, share)
    """
    assert "right += accuracy(out, y)" in reporting(text)
    assert "print(epoch, share)" in reporting(text)


def test_a_trainer_s_step_needs_its_loss_only():
    assert reporting("""
        class Net(LightningModule):
            def training_step(self, batch, _):
                x, y = batch
                out = self.net(x)
                loss = cross_entropy(out, y)
                right = (out.argmax(1) == y).float().mean()
                self.log("right", right)
                return {"loss": loss, "right": right}
            def on_before_optimizer_step(self, optimizer):
                for name, p in self.named_parameters():
                    self.log(name, p.grad.norm())
            def on_train_batch_end(self, *_):
                for e, p in zip(self.ema.parameters(), self.net.parameters()):
                    e.lerp_(p, 0.1)
    """) == [
        "right = (out.argmax(1) == y).float().mean()",
        'self.log("right", right)',
        "for name, p in self.named_parameters():",
        "self.log(name, p.grad.norm())",
    ]


def test_functions_of_other_files_are_known():
    train = "for x in loader:\n    net(x).mean().backward()\n    {}(net, x)\n"
    tools = """def norms(net, x):
    print(net.weight.norm())
def average(net, x):
    copy.lerp_(net.weight, 0.1)
"""
    judged = {
        name: judge_sources({"a.py": train.format(name), "b.py": tools})["a.py"].reporting
        for name in ("norms", "average", "elsewhere")
    }
    assert judged == {"norms": {3}, "average": frozenset(), "elsewhere": frozenset()}


def test_code_that_does_not_train_is_not_judged():
    judged = judge_sources({"a.py": "def evaluate():\n    print(net(x))\n", "b.py": "def ("})
    assert judged == {"a.py": NeededLines()}


SELDOM = """for epoch in range(9):
    for step, batch in enumerate(batches):
        loss = criterion(net(batch))
        loss.backward()
        if (step + 1) % 2 == 0:
            opt.step()
            print(loss)
        if step % {} == 0:
            print(loss)
    print(epoch)
"""


@pytest.mark.parametrize(
    ("every", "rare"), [("100", {9, 10}), ("10", {10}), ("args.every", {9, 10}), ("(4)", {10})]
)
def test_lines_under_a_remainder_or_once_per_epoch_are_rare(every, rare):
    assert judge_sources({"a.py": SELDOM.format(every)})["a.py"].rare == rare
