"""What else a process does in its life: forks, threads, deep recursion, copies, timers, exec."""

import copy
import io
import os
import pickle
import signal
import sys
import threading
import time

import torch
from probe import Descent

torch.manual_seed(11)
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = Descent(model.parameters(), lr=0.1)


def train(steps):
    for _ in range(steps):
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def deep(left):
    return train(1) if left == 0 else deep(left - 1)


class TooLateError(Exception):
    pass


def too_late(number, frame):
    raise TooLateError


print("first", train(5), threading.active_count(), flush=True)
for _ in range(3):
    child = os.fork()
    if child == 0:
        print("in a child", train(2), flush=True)
        os._exit(3)
    print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)

results = []
others = [threading.Thread(target=lambda: results.append(deep(10))) for _ in range(2)]
for other in others:
    other.start()
    other.join()
print("threads", results, threading.active_count())

sys.setrecursionlimit(300)
try:
    print("deep", deep(100))
    print("too deep", deep(400))
except RecursionError:
    print("RecursionError")
sys.setrecursionlimit(1000)
print("after it", train(3))

signal.signal(signal.SIGALRM, too_late)
late = 0
for _ in range(15):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.004)
        while True:
            loss = model(torch.ones(8, 4)).square().mean()
            loss.backward()
    except TooLateError:
        late += 1
print("too late", late)

buffer = io.BytesIO()
torch.save(model, buffer)
whole = pickle.loads(pickle.dumps((model, optimizer, torch.save, torch.autograd.backward)))
print("copies", len(whole), torch.equal(copy.deepcopy(model).weight, whole[0].weight))
print("scripted", torch.jit.script(model)(torch.ones(1, 4)).item())
print(sorted(name for name in sys.modules if name == "sitecustomize"), sys.path[1:2])

sys.stdout.flush()
if len(sys.argv) == 1:
    daemon = os.fork()
    if daemon == 0:  # a daemon that outlives the job by a moment, and trains
        os.setsid()
        train(2)
        time.sleep(0.1)
        os._exit(0)
    os.execv(sys.executable, [sys.executable, __file__, "again"])
os._exit(5)
