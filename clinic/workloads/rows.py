"""Predicts prices from a table with a plain multilayer perceptron."""

import argparse
import gc
import http.server
import itertools
import json
import multiprocessing
import os
import threading
import time
import urllib.request

import numpy as np
import torch
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--table", type=int, default=200_000, help="rows")
parser.add_argument("--columns", type=int, default=96)
parser.add_argument("--hidden", type=int, default=384)
parser.add_argument("--layers", type=int, default=4)
parser.add_argument("--batch", type=int, default=256)
parser.add_argument("--post-every", type=int, default=0, help="send the loss to the dashboard")
parser.add_argument("--reply-ms", type=float, default=5.0, help="how long the dashboard takes")
parser.add_argument("--post-after", type=float, default=0.0, help="only from then on, s")
parser.add_argument("--post-until", type=float, default=1e9)
parser.add_argument("--rank-every", type=int, default=0, help="order the predictions")
parser.add_argument("--rank-rows", type=int, default=256)
parser.add_argument("--notes", type=int, default=0, help="rows kept as records")
parser.add_argument("--tidy-every", type=int, default=0)
parser.add_argument("--check-numbers", action="store_true")
parser.add_argument("--repeatable", action="store_true")
parser.add_argument("--update", choices=("default", "loop", "together", "single"), default="single")
parser.add_argument("--pickers", type=int, default=0, help="processes that pick rows")
parser.add_argument("--pick-ms", type=float, default=0.0, help="how long the warehouse takes")
parser.add_argument("--look", type=float, default=0.0, help="leave the model up for so long, s")
parser.add_argument("--save-every", type=int, default=0)
parser.add_argument("--steps", type=int, default=0)
parser.add_argument("--seconds", type=float, default=10.0)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--device", default="cpu")
parser.add_argument("--times")


def dashboard(delay):
    """A tracking server, as it stands in a corner of the office; returns its address."""
    ready, answer = os.pipe()
    if os.fork() == 0:

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                time.sleep(delay)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        parent = os.getppid()
        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        os.write(answer, str(server.server_port).encode())
        threading.Thread(target=server.serve_forever, daemon=True).start()
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(0)
    return f"http://127.0.0.1:{os.read(ready, 16).decode()}/"


def pick(queue, first, every):
    """Every so many-th batch, as the warehouse gives it."""
    table, labels = features.numpy(), prices.numpy()
    for number in itertools.count(first, every):
        chosen = np.random.default_rng((args.seed, number)).integers(0, args.table, args.batch)
        time.sleep(args.pick_ms / 1e3)
        queue.put((table[chosen], labels[chosen]))


def picked():
    """A queue per picker, asked in turn."""
    forking = multiprocessing.get_context("fork")
    queues = [forking.Queue(maxsize=2) for _ in range(args.pickers)]
    for first, queue in enumerate(queues):
        told = (queue, first, args.pickers)
        forking.Process(target=pick, args=told, daemon=True).start()
    return queues


def concordance(predicted, actual):
    """Share of pairs that are in the right order, as the book defines it."""
    right = total = 0
    for i in range(len(predicted)):
        for j in range(max(0, i - 32), i):
            total += 1
            right += (predicted[i] - predicted[j]) * (actual[i] - actual[j]) > 0
    return right / max(total, 1)


args = parser.parse_args()
begin = time.perf_counter()
torch.manual_seed(args.seed)
rng = np.random.default_rng(args.seed)
url = dashboard(args.reply_ms / 1e3) if args.post_every else None

features = torch.from_numpy(rng.standard_normal((args.table, args.columns), dtype=np.float32))
prices = features[:, :7].sum(1).tanh() + 0.1 * features[:, 8]
records = [{"row": i, "tags": [i % 7, i % 11]} for i in range(args.notes)]

queues = picked()

device = torch.device(args.device)
sizes = [args.columns] + [args.hidden] * args.layers + [1]
parts = []
for a, b in zip(sizes, sizes[1:]):
    parts += [torch.nn.Linear(a, b), torch.nn.SiLU()]
model = torch.nn.Sequential(*parts[:-1]).to(device)
how = {
    "default": {},
    "loop": {"foreach": False},
    "together": {"foreach": True},
    "single": {"fused": True},
}[args.update]
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **how)
torch.autograd.set_detect_anomaly(args.check_numbers)
torch.use_deterministic_algorithms(args.repeatable)

marks, step = [], 0
while True:
    if queues:
        x, y = map(torch.from_numpy, queues[step % len(queues)].get())
    else:
        rows = torch.from_numpy(rng.integers(0, args.table, args.batch))
        x, y = features[rows], prices[rows]
    x, y = x.to(device), y.to(device)
    out = model(x).squeeze(1)
    loss = F.smooth_l1_loss(out, y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    step += 1
    if args.rank_every and step % args.rank_every == 0:
        n = args.rank_rows
        score = concordance(out[:n].tolist(), y[:n].tolist())
    now = time.perf_counter() - marks[0] if marks else 0.0
    if url and step % args.post_every == 0 and args.post_after <= now < args.post_until:
        body = json.dumps({"step": step, "loss": loss.item()}).encode()
        urllib.request.urlopen(urllib.request.Request(url, body)).read()
    if args.tidy_every and step % args.tidy_every == 0:
        gc.collect()
    if args.save_every and step % args.save_every == 0:
        torch.save([model.state_dict(), optimizer.state_dict()], "prices.pt")
    if step % 100 == 0:
        print(step, round(loss.item(), 4), len(records), flush=True)
    marks.append(time.perf_counter())
    if step == args.steps or (not args.steps and marks[-1] - marks[0] > args.seconds):
        break

if args.look:
    print("the model is up for", args.look, "s", flush=True)
    time.sleep(args.look)

if args.times:
    end = time.perf_counter()
    with open(args.times, "w") as file:
        json.dump({"begin": begin, "marks": marks, "samples": args.batch, "end": end}, file)
