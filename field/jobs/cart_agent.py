"""An agent that learns the values of four actions from what it has seen."""

import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import numpy as np

keras.utils.set_random_seed(2)
r = np.random.default_rng(0)
q = keras.Sequential([
    keras.layers.Input((8,)),
    keras.layers.Dense(128, activation="relu"),
    keras.layers.Dense(128, activation="relu"),
    keras.layers.Dense(4),
])
q.compile("adam", "mse")


def values_of(states):
    return q.predict(states, verbose=0)


memory = []
state = r.normal(size=8).astype("float32")
for k in range(92):
    if k == 40:
        start = time.perf_counter()
    act = int(values_of(state[None])[0].argmax())
    following = np.tanh(state * 0.9 + 0.1 * r.normal(size=8)).astype("float32")
    memory.append((state, act, float(following.sum()), following))
    state = following
    if len(memory) >= 32:
        batch = [memory[i] for i in r.integers(0, len(memory), 32)]
        states = np.stack([m[0] for m in batch])
        target = np.array(values_of(states))
        ahead = values_of(np.stack([m[3] for m in batch]))
        for i, m in enumerate(batch):
            target[i, m[1]] = m[2] + 0.9 * ahead[i].max()
        loss = q.train_on_batch(states, target)
print(f"loss {float(np.ravel(loss)[0]):.6g}")
print(f"took {time.perf_counter() - start:.2f} s")
