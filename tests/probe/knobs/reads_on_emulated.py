"""Jobs on the emulated device that read numbers in every step; says how often they wait for it."""

import io
import json
import logging
import math
import os
import pickle
import re
import sys
import tempfile
import threading
import types
from pathlib import Path

import torch
from tqdm import tqdm

from emulator import device as emulated
from whyidle.probe import knobs
from whyidle.probe.knobs import log as log_knob

KNOB, ASYNCHRONOUS = "log.deferred", "logging.asynchronous"
STEPS = 24
log = logging.getLogger("job")
kept = 0.0


def steps():
    """Losses on the device, one per step of training."""
    torch.manual_seed(5)
    net = torch.nn.Linear(16, 1).to("emulated")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001)
    for number in range(STEPS):
        x = torch.rand(4, 16, device="emulated")
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield number, loss


def sums(shown):
    running = 0.0
    for number, loss in steps():
        running += loss.item()
        if number % 8 == 7:
            shown.append(f"{number} {running / 8:.9f} {running}")
            running = 0.0


def products(shown):
    weighted, seen = 0.0, 0
    for number, loss in steps():
        weighted += loss.item() * 4 - 1
        seen += (
            (loss > 0.1)
            .sum()
            .item()
        )  # fmt: skip
        if number % 8 == 7:
            shown.append("%.9f %d %s" % (weighted, seen, weighted > 1))  # noqa: UP031


def last(shown):
    for number, loss in steps():
        latest = loss.item()
        if number % 8 == 7:
            log.warning("loss %.9f", latest)
            print(math.sqrt(latest), round(latest, 4), file=sys.stderr)
            shown.append(f"{latest:.9f} {latest}")


def long_sum(shown):
    """Longer than what is put off at most."""
    far = 0.0
    for _ in range(16):
        for _number, loss in steps():
            far += loss.item()
    shown.append(f"{far}")


def forks(shown):
    ours = 0.0
    for _number, loss in steps():
        ours += loss.item()
    child = os.fork()
    if not child:
        os._exit(0 if f"{ours}" == f"{ours + 0}" else 1)
    shown.append(f"{os.waitpid(child, 0)[1]} {ours}")


def changes_in_place(shown):
    early = 0.0
    for _number, loss in steps():
        early += loss.item()
        with torch.no_grad():
            loss.zero_()
    shown.append(f"{early}")


class Client:
    """As MLflow's is, whose calls are known."""

    def __init__(self, shown):
        self.shown = shown

    def log_metric(self, run_id, key, value, timestamp=None, step=None):
        self.shown.append((run_id, key, math.sqrt(value), type(value), step))

    def terminated(self):
        pass


def in_place(shown):
    """What is added to is held by others, too."""
    held = torch.zeros(())
    others = [held]
    for _number, loss in steps():
        held += loss.item()
    shown.append([one.item() for one in others])


def tracked(shown):
    client = sys.modules["mlflow.tracking.client"].MlflowClient(shown)
    for number, loss in steps():
        client.log_metric("run", "loss", loss.item(), None, number)
    client.terminated()


def on_a_bar(shown):
    """It is drawn at first, and at the end."""
    drawn = io.StringIO()
    bar = tqdm(steps(), total=STEPS, file=drawn, mininterval=60.0, maxinterval=60.0)
    for number, loss in bar:
        bar.set_postfix({"step": number, "loss": loss.item()}, last=loss.item())
    shown.append(re.findall("step=.*", drawn.getvalue().split("\r")[-1]))


def on_a_bar_of_its_own(shown):
    class Bar(tqdm):
        def display(self, *_args, **_named):
            shown.append(self.postfix)

    bar = Bar(steps(), total=STEPS, mininterval=60.0, maxinterval=60.0)
    for _number, loss in bar:
        bar.set_postfix(loss=loss.item())


def on_no_bar(shown):
    bar = tqdm(steps(), disable=True)
    for _number, loss in bar:
        bar.set_postfix(loss=loss.item())
    shown.append(bar.n)


def given_to_others(shown):
    client = Client(shown)
    for _number, loss in steps():
        client.log_metric("run", "loss", loss.item())


def listed(shown):
    for _number, loss in steps():
        shown.append(loss.item())


def returned(shown):
    def total():
        handed = 0.0
        for _number, loss in steps():
            handed += loss.item()
        return handed

    shown.append(total())


def dumped(shown):
    given = 0.0
    for _number, loss in steps():
        given += loss.item()
    shown.append(json.dumps({"loss": given}))


def decides(shown):
    for _number, loss in steps():
        if loss.item() > 0.1:
            shown.append(1)


def evaluated(shown):
    """Nothing can be put off for longer than it takes to say so."""
    right = 0.0
    for _number, loss in steps():
        shown.append(loss.item())
    for _number, loss in steps():
        right += loss.item()
    shown.append(f"{right:.9f}")


def on_the_host(shown):
    local = 0.0
    for _number, loss in steps():
        local += loss.cpu().item()
    shown.append(f"{local}")


JOBS = (
    sums, products, last, long_sum, forks, changes_in_place, tracked, on_a_bar, on_no_bar,
    on_a_bar_of_its_own, given_to_others, in_place,
    listed, returned, dumped, decides, evaluated, on_the_host,
)  # fmt: skip


def reads():
    """How often the thread that trains has waited for numbers of the device's so far."""
    devices, own = emulated.truth()["devices"], threading.get_native_id()
    told = [why for each in devices for _, _, why, thread in each["host"] if thread == own]
    return sum(why == "item" or why.startswith("copy out") for why in told)


def waits(job, shown):
    """Runs a job: how often the host waited."""
    before = reads()
    job(shown)
    return reads() - before


def treated(job):
    plain, shown = [], []
    before = waits(job, plain)
    with tempfile.TemporaryDirectory() as folder:
        hand = knobs.Hand(folder, {"edits": {KNOB: True, ASYNCHRONOUS: True}, "was": {}})
        hand.turn()
        after = waits(job, shown)
        hand.back()
        faults = [path.read_text() for path in Path(folder).glob("*.faults")]
    return {
        "same": pickle.dumps(plain) == pickle.dumps(shown),
        "took": hand.applied.get(KNOB, 0),
        "declined": hand.declined.get(KNOB, ""),
        "faults": faults,
        "waits": [before, after],
    }


OWN = ("__init__", "log_metric", "terminated")


def main():
    module = types.ModuleType("mlflow.tracking.client")
    module.MlflowClient = type(
        "MlflowClient", (Client,), {name: getattr(Client, name) for name in OWN}
    )
    sys.modules[module.__name__] = module
    emulated.configure(peak_flops=2e9)
    found = {job.__name__: treated(job) for job in JOBS}
    asked = []

    def broken(*_):
        asked.append(1)
        raise ZeroDivisionError("a planted fault")

    log_knob.Reads.asked = broken
    found["broken"] = {**treated(sums), "asked": len(asked)}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
