"""Sorts stones by their scans, with Keras on any of its backends."""

import argparse
import json
import os
import time

began = time.perf_counter()

import keras  # noqa: E402
import numpy as np  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--scans", type=int, default=512)
parser.add_argument("--pixels", type=int, default=16)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--width", type=int, default=128)
parser.add_argument("--depth", type=int, default=2)
parser.add_argument("--read-ms", type=float, default=0.0, help="how long the archive takes")
parser.add_argument("--readers", type=int, default=1)
parser.add_argument("--held", action="store_true", help="all scans as one array")
parser.add_argument("--clean", type=int, default=0, help="passes over each scan")
parser.add_argument("--line-by-line", action="store_true")
parser.add_argument("--together", type=int, default=1, help="batches between two reports")
parser.add_argument("--note-every", type=int, default=0, help="batches between two notes")
parser.add_argument("--note-ms", type=float, default=0.0)
parser.add_argument("--quiz-every", type=int, default=0, help="epochs between two quizzes")
parser.add_argument("--quiz-scans", type=int, default=512)
parser.add_argument("--epoch", type=int, default=64, help="steps of one")
parser.add_argument("--by-epoch", action="store_true", help="look at the clock then only")
parser.add_argument("--save-every", type=int, default=0)
parser.add_argument("--double", action="store_true")
parser.add_argument("--watch", action="store_true", help="a callback that only looks")
parser.add_argument("--seconds", type=float, default=0.0)
parser.add_argument("--steps", type=int, default=0)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--device", default="cpu")
parser.add_argument("--times", default="times.json")
args = parser.parse_args()

keras.utils.set_random_seed(args.seed)
if args.double:
    keras.config.set_floatx("float64")
random = np.random.default_rng(args.seed)


class Scans(keras.utils.PyDataset):
    """What the archive holds, batch by batch."""

    def __init__(self, count, **how):
        super().__init__(**how)
        self.count = count
        self.scans = random.standard_normal((count, args.pixels**2)).astype(keras.config.floatx())
        self.kinds = random.integers(0, 5, count)

    def __len__(self):
        return self.count // args.batch

    def __getitem__(self, number):
        if args.read_ms:
            time.sleep(args.read_ms / 1e3)
        where = slice(number * args.batch, (number + 1) * args.batch)
        return np.stack([tidy(scan) for scan in self.scans[where]]), self.kinds[where]


def tidy(scan):
    for _ in range(args.clean):
        scan = np.convolve(scan, [0.25, 0.5, 0.25], mode="same")
    return scan.astype(keras.config.floatx())


class Watch(keras.callbacks.Callback):
    """Notes when epochs end, and says when it is enough."""

    def __init__(self):
        super().__init__()
        self.marks, self.batches = [], args.epoch

    def on_epoch_end(self, epoch, logs=None):
        self.note()

    def note(self):
        now = time.perf_counter()
        self.marks.append(now)
        late = args.seconds and now - self.marks[0] > args.seconds
        if late or (args.steps and len(self.marks) * self.batches >= args.steps):
            self.model.stop_training = True


class Clock(Watch):
    """The same of batches."""

    def __init__(self):
        super().__init__()
        self.batches = args.together

    def on_epoch_end(self, epoch, logs=None):
        pass

    def on_train_batch_end(self, batch, logs=None):
        self.note()


class Notebook(keras.callbacks.Callback):
    """Writes down how it goes, in the laboratory's book."""

    def on_train_batch_end(self, batch, logs=None):
        if args.note_every and batch % args.note_every == 0:
            with open("book.txt", "a") as file:
                file.write(f"{batch} {logs['loss']}\n")
            time.sleep(args.note_ms / 1e3)  # until the other room has it


def build():
    layers = [keras.layers.Dense(args.width, activation="relu") for _ in range(args.depth)]
    model = keras.Sequential([keras.Input((args.pixels**2,)), *layers, keras.layers.Dense(5)])
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        run_eagerly=args.line_by_line,
        steps_per_execution=args.together,
    )
    return model


clock = Watch() if args.by_epoch else Clock()
callbacks = [clock]
if args.note_every or args.watch:
    callbacks.insert(0, Notebook())
if args.save_every:
    callbacks.append(
        keras.callbacks.ModelCheckpoint("stones.keras", save_freq=args.save_every, verbose=0)
    )
scans = Scans(args.epoch * args.batch, workers=args.readers)
quiz = {}
if args.quiz_every:
    quiz["validation_data"] = Scans(args.quiz_scans)
    quiz["validation_freq"] = args.quiz_every
how = {"epochs": 10000, "verbose": 0, "shuffle": False, "callbacks": callbacks, **quiz}
if args.held:
    build().fit(scans.scans, scans.kinds, batch_size=args.batch, **how)
else:
    build().fit(scans, **how)
with open(args.times, "w") as file:
    samples = args.batch * clock.batches
    json.dump({"begin": began, "marks": clock.marks, "samples": samples}, file)
os._exit(0)  # threads that read scans would outlive the script
