"""No script, however it is written, has needed work among the lines that only report.

Scripts are generated: statements whose truth is known by construction, in any order, joined on a
line, wrapped in conditions, loops, functions and classes, with helpers in other files.
"""

import random

from whyidle.analysis.lines.needed_lines import judge_sources

BEGINNING = """import copy, json, logging, math, queue, random, time
import matplotlib.pyplot as plt
import numpy as np
import torch, wandb
import torch.nn.functional as F
from torch.utils.tensorboard import SummaryWriter
from hidden import Net, Average, Meter, tick, watch, draw_batch, make_step, dataset, loader, lock
from tools import accuracy, norms, advance, note, observe
net, ema, meter = Net(), Average(), Meter()
{opt} = torch.optim.SGD(net.parameters(), 0.1)
{sched} = torch.optim.lr_scheduler.StepLR({opt}, 3)
writer = SummaryWriter()
losses = []
seen = []
history = {{}}
total = 0.0
count = 0
best = 9.0
scale = 1.0
memory = []
it = iter(loader)
step = make_step(net)
p, s = net.init()
inbox = queue.Queue()
log = logging.getLogger("train")
"""
TOOLS = """import torch
turns = 0
def accuracy(out, y):
    return (out.argmax(1) == y).float().mean()
def norms(net):
    return {name: p.norm().item() for name, p in net.named_parameters()}
def advance(opt):
    opt.step()
    return 1.0
def note(net):
    for p in net.parameters():
        p.grad *= 0.5
    return 0.1
def observe(net, x):
    global turns
    turns += 1
    return float(net(x).mean())
def wrapped(function):
    def inner(*args):
        advance(function.opt)
        return function(*args)
    return inner
@wrapped
def shown(x):
    return x.mean()
"""
LOCAL = """def train_one(x):
    loss = net(x).mean()
    loss.backward()
    {opt}.step()
    return loss.item()
def load():
    time.sleep(0.01)
    return 3
def remember(x):
    global scale
    scale = float(x)
    return scale
class State:
    def __init__(self):
        self.level = 1.0
    @property
    def value(self):
        {sched}.step()
        return self.level
    def __getitem__(self, key):
        return torch.rand(1)
    def __iter__(self):
        yield random.random()
state = State()
"""
CORE = [
    "x, y = draw_batch()",
    "out = net(x)",
    "loss = F.mse_loss(out, y) * scale",
    "{opt}.zero_grad()",
    "loss.backward()",
    "{opt}.step()",
]
CALLS = [
    "train_one(x)",
    "{opt}.step()",
    "advance({opt})",
    "note(net)",
    "observe(net, x)",
    "loss.backward()",
    "next(it)",
    "random.random()",
    "torch.rand(3)",
    "np.random.rand(3)",
    "tick(net)",
    "load()",
    "net(x)",
    "{sched}.step()",
    "x.mul_(2)",
    "inbox.get()",
    "state.value",
    "state[0]",
    "F.dropout(out)",
    "remember(loss)",
    "(lambda: advance({opt}))()",
    "list(map(train_one, [x]))",
    "[advance({opt}) for _ in range(2)]",
    "{{k: train_one(x) for k in (1, 2)}}",
    "dataset[3]",
    "list(loader)",
    "sum(state)",
    "max([x], key=train_one)",
    "step(p, s, x)",
    "watch.update(loss)",
    "(scale := loss.item())",
    "getattr({opt}, 'step')()",
    "net.train()",
    "torch.manual_seed(count)",
    "ema.update(net)",
    "it.send(None)",
]
"""expressions that do needed work, all of them"""
AROUND = [
    "{}",
    "print({})",
    "losses.append({})",
    "value = {}",
    "writer.add_scalar('a', {}, count)",
    "wandb.log({{'a': {}}})",
    'print(f"{{0, {}}}")',
    "print({} if count % 2 else 0)",
    "print(count and {})",
    "print(loss.item(), (seen_now := {}))",
    "history[count] = {}",
    "log.info('%s', {})",
    "a, b = 1, {}",
    "print(*[{}])",
    "print([{}][0])",
    "total += 0 if {} is None else 1",
    "print(math.sqrt(2), round(1.5), {})",
]
NEEDED = [
    ["for g in {opt}.param_groups: g['lr'] = 0.1 / (count + 1)"],
    ["for e, w in zip(ema.parameters(), net.parameters()): e.data.lerp_(w, 0.1)"],
    ["w = net.weight", "w -= 0.1"],
    ["w = net.weight.detach()", "w[0] = 0"],
    ["ws = list(net.parameters())", "ws[0] -= 0.1"],
    ["memory.append(loss.item())", "scale = 1 / len(memory)"],
    ["count += 1", "if count % 2 == 0: {opt}.step()"],
    ["best = min(best, loss.item())", "if best < 0.1: break"],
    ["if math.isnan(loss.item()): break"],
    ["np.save('a.npy', out.detach().numpy())", "scale = float(np.load('a.npy').mean())"],
    ["p, s, l = step(p, s, x)"],
    ["inbox.put(loss.item())"],
    ["net.scale = loss.item()"],
    ["keep = memory", "keep.append(1)", "scale = 1 / len(memory)"],
    ["torch.set_num_threads(2)"],
    ["{sched}.step(loss.item())"],
    ["watch(net)"],
    ["shown(x)"],
    ["del x"],
]
"""statements that training needs, all of them"""
REPORTS = [
    ["print(count, loss.item())"],
    ["losses.append(loss.item())"],
    ["wandb.log({{'loss': loss.item()}})"],
    ["writer.add_scalar('loss', loss.item(), count)"],
    ["share = accuracy(out, y)", "print(share)"],
    ["sizes = norms(net)", "log.info(sizes)"],
    ["seen.append(out.detach())", "far = torch.cat(seen).std().item()"],
    ["total += loss.item()", "print(total)"],
    ["numbers = {{}}", "for n, w in net.named_parameters(): numbers[n] = w.grad.norm().item()"],
    ["plt.plot(losses)"],
    ["print(json.dumps(dict(loss=loss.item(), at=time.time())))"],
    ["if loss.item() > 3: print('high')"],
]
"""statements that only report, all of them"""


class Script:
    """A generated program, and the truth about its lines."""

    def __init__(self, seed):
        self.random = choose = random.Random(seed)
        self.names = {
            "opt": choose.choice(["o", "opt", "a", "sgd"]),
            "sched": choose.choice(["q", "sched"]),
        }
        self.units = [[(text, True) for text in CORE]]
        for _ in range(choose.randint(1, 4)):
            self.units.append(self._needed())
        for _ in range(choose.randint(0, 4)):
            self.units.append([(text, False) for text in choose.choice(REPORTS)])
        self.lines = (BEGINNING + LOCAL).format(**self.names).splitlines()
        self.needed, self.reports = set(), set()
        self._write()
        self.sources = {"/job/train.py": "\n".join(self.lines) + "\n", "/job/tools.py": TOOLS}

    def _needed(self):
        if self.random.random() < 0.3:
            return [(text, True) for text in self.random.choice(NEEDED)]
        around, call = self.random.choice(AROUND), self.random.choice(CALLS)
        return [(around.replace("{}", call), True)]

    def _write(self):
        choose, first, *others = self.random, *self.units
        choose.shuffle(others)
        body = [*first, *(one for unit in others for one in unit)]
        indent = 0
        shape = choose.choice(["module", "function", "class"])
        if shape != "module":
            head = "def train():" if shape == "function" else "class Run:"
            self.lines.append(head)
            if shape == "class":
                self.lines.append("    def train(self):")
            indent += 4 if shape == "function" else 8
            self.lines.append(" " * indent + "global total, count, best, scale, p, s")
        self.lines.append(" " * indent + choose.choice(["for k in range(9):", "while True:"]))
        self._write_body(body, indent + 4)
        if shape == "function":
            self.lines.append("train()")
        if shape == "class":
            self.lines.append("Run().train()")

    def _write_body(self, body, indent):
        choose = self.random
        while body:
            take = choose.choice([1, 1, 1, 2, 3])
            taken, body = body[:take], body[take:]
            if any(" else " not in t and t.startswith(("for", "if")) for t, _ in taken[1:]):
                taken, body = taken[:1], [*taken[1:], *body]
            if taken[0][0].startswith(("for", "if")):
                taken, body = taken[:1], [*taken[1:], *body]
            text = "; ".join(text.format(**self.names) for text, _ in taken)
            head = choose.choice([None] * 8 + ["if count % 3 == 0:", "with torch.no_grad():"])
            if head is not None and "break" not in text:
                self.lines.append(" " * indent + head)
            self.lines.append(
                " " * (indent + 4 * (head is not None and "break" not in text)) + text
            )
            truth = self.needed if any(needed for _, needed in taken) else self.reports
            truth.add(len(self.lines))


def test_needed_work_never_only_reports():
    found = possible = 0
    for seed in range(160):
        script = Script(seed)
        lines = judge_sources(script.sources)["/job/train.py"].reporting
        wrong = {line: script.lines[line - 1].strip() for line in lines & script.needed}
        assert not wrong, f"seed {seed}: {wrong}\n{script.sources['/job/train.py']}"
        found += len(lines & script.reports)
        possible += len(script.reports)
    assert found > 0.8 * possible
