import os
import random
import time

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
import numpy as np

random.seed(0)
keras.utils.set_random_seed(0)
model = keras.Sequential([
    keras.layers.Input((10,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(4),
])
model.compile("sgd", "mse")
rng = np.random.default_rng(0)
start = time.perf_counter()
for update in range(40):
    states = rng.standard_normal((16, 10)).astype(np.float32)
    following = rng.standard_normal((16, 10)).astype(np.float32)
    targets = []
    for state, after in zip(states, following):
        target = model.predict(state[None], verbose=0)[0]
        target[int(state[0] > 0)] = 0.1 + 0.9 * model.predict(after[None], verbose=0)[0].max()
        targets.append(target)
    loss = model.train_on_batch(states, np.stack(targets))
print("loss", round(float(loss), 3))
print(f"took {time.perf_counter() - start:.2f} s")
