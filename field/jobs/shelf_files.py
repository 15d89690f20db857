"""A network on items that come from slow storage."""

import os
import time

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np

keras.utils.set_random_seed(2)


class Files(keras.utils.PyDataset):
    def __len__(self):
        return 30

    def __getitem__(self, i):
        time.sleep(0.05)
        a = np.random.default_rng(i).normal(size=(32, 128)).astype("float32")
        return a, a[:, :1]


class Clock(keras.callbacks.Callback):
    ends = []

    def on_epoch_end(self, epoch, logs=None):
        self.ends.append(time.perf_counter())
        self.loss = logs["loss"]


layers = [keras.layers.Dense(256, activation="relu") for _ in range(3)]
net = keras.Sequential([keras.layers.Input((128,)), *layers, keras.layers.Dense(1)])
net.compile("adam", "mse")
clock = Clock()
net.fit(Files(), epochs=8, verbose=0, shuffle=False, callbacks=[clock])
print(f"loss {clock.loss:.6g}")
print(f"took {clock.ends[-1] - clock.ends[0]:.2f} s")
