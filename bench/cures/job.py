"""One small training job whose habits are options: sick and cured runs differ by one of them.

Work is real (matrix products, loops of Python, sleeps in place of a slow storage) and the same for
every run; nothing is downloaded.
"""

import argparse
import gc
import json
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __init__(self, options):
        self.work, self.wait, self.every = options.work, options.wait, options.burst
        self.length = options.steps * options.batch // options.epochs
        self.kept = {} if options.keep else None

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if self.kept is not None and index in self.kept:
            return self.kept[index]
        until = time.thread_time() + self.work / 1e3
        while time.thread_time() < until:
            pass
        if self.wait and index % self.every == 0:
            time.sleep(self.wait * self.every / 1e3)
        sample = torch.full((256,), float(index % 7))
        if self.kept is not None:
            self.kept[index] = sample
        return sample


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=float, default=0.0, help="CPU of a sample, ms")
    parser.add_argument("--wait", type=float, default=0.0, help="waiting for a sample, ms")
    parser.add_argument("--burst", type=int, default=1, help="wait in one of so many samples only")
    parser.add_argument("--keep", action="store_true", help="make each sample once")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--prefetch", type=int)
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--rows", type=int, default=4, help="repeats of the batch in the model")
    parser.add_argument("--python", type=float, default=0.0, help="Python between steps, ms")
    parser.add_argument("--collect", action="store_true", help="gc.collect() in every step")
    parser.add_argument("--heap", type=int, default=0, help="objects for the collector to walk")
    parser.add_argument("--anomaly", action="store_true")
    parser.add_argument("--save-every", type=int, default=0)
    parser.add_argument("--save-to", default="/dev/null")
    parser.add_argument("--evaluate-every", type=int, default=0)
    parser.add_argument("--log", type=float, default=0.0, help="blocking call per step, ms")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--tell", help="where to write the seconds of every step")
    return parser.parse_args()


def loader_of(options):
    kept = {"prefetch_factor": options.prefetch} if options.prefetch else {}
    if options.persistent:
        kept["persistent_workers"] = True
    return DataLoader(
        Samples(options), batch_size=options.batch, num_workers=options.workers, **kept
    )


def spin(milliseconds):
    until = time.thread_time() + milliseconds / 1e3
    while time.thread_time() < until:
        pass


def evaluate(model, x):
    model.eval()
    with torch.no_grad():
        for _ in range(8):
            model(x)
    model.train()


def main():
    options = parse()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    heap = [{"at": [i]} for i in range(options.heap)]
    layers = [torch.nn.Linear(256, options.width)]
    layers += [torch.nn.Linear(options.width, options.width) for _ in range(options.layers)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=options.fused or None)
    torch.autograd.set_detect_anomaly(options.anomaly)
    loader, done, marks = loader_of(options), 0, []
    for _ in range(options.epochs):
        for batch in loader:
            x = batch.repeat(options.rows, 1)
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1
            spin(options.python)
            if options.log:
                time.sleep(options.log / 1e3)
            if options.collect:
                gc.collect()
            if options.save_every and done % options.save_every == 0:
                torch.save(model.state_dict(), options.save_to)
            if options.evaluate_every and done % options.evaluate_every == 0:
                evaluate(model, x)
            marks.append(time.perf_counter())
    if options.tell:
        with open(options.tell, "w") as file:
            json.dump([b - a for a, b in zip(marks, marks[1:])], file)
    print(done, loss.item(), len(heap))


if __name__ == "__main__":
    main()
