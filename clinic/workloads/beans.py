"""Sorts pictures of beans by their kind: a small convolutional network, trained by Keras."""

import argparse
import gc
import json
import time

began = time.perf_counter()

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--pictures", type=int, default=512)
parser.add_argument("--pixels", type=int, default=24)
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--filters", type=int, default=8)
parser.add_argument("--fetch-ms", type=float, default=0.0, help="how long the store takes")
parser.add_argument("--calls", type=int, default=1, help="pictures fetched at a time")
parser.add_argument("--smooth", type=int, default=0, help="passes over each picture")
parser.add_argument("--keep", action="store_true", help="prepared pictures, in memory")
parser.add_argument("--line-by-line", action="store_true")
parser.add_argument("--together", type=int, default=1, help="batches between two reports")
parser.add_argument("--chart-every", type=int, default=0, help="batches between two charts")
parser.add_argument("--chart-size", type=int, default=400)
parser.add_argument("--seconds", type=float, default=0.0)
parser.add_argument("--steps", type=int, default=0)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--device", default="cpu")
parser.add_argument("--times", default="times.json")
args = parser.parse_args()

tf.keras.utils.set_random_seed(args.seed)
random = np.random.default_rng(args.seed)
SHAPE = (args.pixels, args.pixels, 3)
store = random.integers(0, 256, (args.pictures, *SHAPE), dtype=np.uint8)
kinds = random.integers(0, 3, args.pictures)


def fetch(number):
    time.sleep(args.fetch_ms / 1e3)
    return store[number]


def prepare(number, kind):
    if args.fetch_ms:
        picture = tf.ensure_shape(tf.numpy_function(fetch, [number], tf.uint8), SHAPE)
    else:
        picture = tf.gather(store, number)
    picture = tf.cast(picture, tf.float32) / 255.0
    for _ in range(args.smooth):
        picture = tf.nn.avg_pool2d(picture[None], 3, 1, "SAME")[0]
    return picture, kind


class Clock(tf.keras.callbacks.Callback):
    """Notes when batches end, and says when it is enough."""

    def __init__(self):
        super().__init__()
        self.marks = []

    def on_train_batch_end(self, batch, logs=None):
        now = time.perf_counter()
        self.marks.append(now)
        late = args.seconds and now - self.marks[0] > args.seconds
        if late or (args.steps and len(self.marks) * args.together >= args.steps):
            self.model.stop_training = True


class Chart(tf.keras.callbacks.Callback):
    """How the losses are spread, for a board."""

    def __init__(self):
        super().__init__()
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(float(logs["loss"]))
        if batch % args.chart_every == 0:
            points = np.resize(self.losses, (args.chart_size, args.chart_size))
            self.spread = np.linalg.svd(points + np.eye(args.chart_size))[1]


pictures = tf.data.Dataset.from_tensor_slices((np.arange(args.pictures), kinds))
pictures = pictures.map(prepare, num_parallel_calls=args.calls if args.calls > 1 else None)
if args.keep:
    pictures = pictures.cache()
pictures = pictures.shuffle(64, seed=args.seed).batch(args.batch, drop_remainder=True).prefetch(2)
options = tf.data.Options()
if args.fetch_ms and args.calls > 1:
    options.threading.private_threadpool_size = args.calls
pictures = pictures.with_options(options)

model = tf.keras.Sequential(
    [
        tf.keras.Input(SHAPE),
        tf.keras.layers.Conv2D(args.filters, 3, activation="relu"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Conv2D(args.filters * 2, 3, activation="relu"),
        tf.keras.layers.GlobalAveragePooling2D(),
        tf.keras.layers.Dense(3),
    ]
)
model.compile(
    optimizer=tf.keras.optimizers.SGD(0.01),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    run_eagerly=args.line_by_line,
    steps_per_execution=args.together,
)
clock = Clock()
callbacks = [Chart(), clock] if args.chart_every else [clock]
model.fit(pictures.repeat(), steps_per_epoch=256, epochs=1000, verbose=0, callbacks=callbacks)
samples, marks = args.batch * args.together, clock.marks
del pictures, model, clock, callbacks  # threads that fetch would outlive the script
gc.collect()
with open(args.times, "w") as file:
    json.dump({"begin": began, "marks": marks, "samples": samples}, file)
