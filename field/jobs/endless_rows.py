"""A network on rows that a generator makes without end."""

import os
import time

os.environ["KERAS_BACKEND"] = "jax"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import numpy as np

keras.utils.set_random_seed(0)
rows = np.random.default_rng(0).normal(size=(256, 64)).astype("float32")


def forever():
    while True:
        for i in range(0, 256, 32):
            yield rows[i : i + 32], rows[i : i + 32, :1]


class Clock(keras.callbacks.Callback):
    ends = []

    def on_epoch_end(self, epoch, logs=None):
        self.ends.append(time.perf_counter())
        self.loss = logs["loss"]


layers = [keras.layers.Dense(512, activation="relu") for _ in range(4)]
net = keras.Sequential([keras.layers.Input((64,)), *layers, keras.layers.Dense(1)])
net.compile(keras.optimizers.SGD(0.01), "mse")
clock = Clock()
net.fit(forever(), steps_per_epoch=300, epochs=4, verbose=0, callbacks=[clock])
print(f"loss {clock.loss:.6g}")
print(f"took {clock.ends[-1] - clock.ends[0]:.2f} s")
