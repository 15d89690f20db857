"""Trains with Keras on batches of a Python generator that goes over pictures pixel by pixel."""

import time

import keras
import numpy as np

PICTURES = np.random.default_rng(0).integers(0, 256, (512, 32, 32, 3), dtype=np.uint8)
LABELS = np.arange(512) % 10


def brighten(picture):
    out = np.empty(picture.shape, np.float32)
    for row in range(picture.shape[0]):
        for column in range(picture.shape[1]):
            out[row, column] = picture[row, column] / 255 + 0.1
    return out


def batches():
    while True:
        for first in range(0, len(PICTURES), 32):
            pictures = PICTURES[first : first + 32]
            yield np.stack([brighten(one) for one in pictures]), LABELS[first : first + 32]


class Clock(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        print(time.perf_counter(), flush=True)


model = keras.Sequential(
    [
        keras.layers.Input((32, 32, 3)),
        keras.layers.Conv2D(16, 3, 2, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(10),
    ]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(batches(), steps_per_epoch=1 << 20, callbacks=[Clock()], verbose=0)
