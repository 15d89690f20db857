"""The problem in Keras, with `fit`, on one of its backends."""

import os

import numpy as np
import problem

args = problem.parse_arguments(backend=("tensorflow", "jax", "torch"))
os.environ["KERAS_BACKEND"] = args.backend

import keras  # noqa: E402

images, classes, layers = problem.read_problem(args.problem, args.steps)

hidden = [keras.layers.Dense(bias.size, activation="tanh") for _, bias in layers[:-1]]
model = keras.Sequential(
    [keras.Input((problem.SIZES[0],)), *hidden, keras.layers.Dense(problem.SIZES[-1])]
)
model.set_weights([array for layer in layers for array in layer])
model.compile(
    optimizer=keras.optimizers.SGD(problem.LEARNING_RATE, momentum=problem.MOMENTUM),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)


class Losses(keras.callbacks.Callback):
    """Keeps the loss of each batch; Keras reports the mean since the epoch's begin."""

    def __init__(self):
        super().__init__()
        self.means = []

    def on_train_batch_end(self, _batch, logs):
        self.means.append(logs["loss"])

    def list_losses(self):
        totals = np.asarray(self.means, np.float64) * np.arange(1, len(self.means) + 1)
        return np.diff(totals, prepend=0.0)


losses = Losses()
model.fit(
    images,
    classes,
    batch_size=problem.BATCH,
    shuffle=False,
    verbose=0,
    callbacks=[losses] if args.losses else [],
)
problem.write_losses(args.losses, losses.list_losses())
