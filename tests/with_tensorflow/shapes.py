"""Shapes of training that people write, each a function that returns its losses. Steps are 20, two
epochs of ten, unless said otherwise."""

import random

import keras
import numpy as np
import tensorflow as tf

from whyidle.probe.knobs.keras import WITH_PARTIAL_CALLS

VERSION = tuple(int(part) for part in keras.__version__.split(".")[:2])
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)

STEPS, EPOCHS, BATCH, WIDTH = 10, 2, 4, 8
LOSS = keras.losses.MeanSquaredError


def alone(shape):
    """The losses of a shape that begins as any other does."""
    keras.backend.clear_session()
    random.seed(1)
    np.random.seed(1)
    tf.random.set_seed(1)
    return shape()


def pairs():
    numbers = np.random.RandomState(1)
    x = numbers.rand(STEPS * BATCH, WIDTH).astype("float32")
    return x, x.sum(axis=1, keepdims=True)


def dataset():
    return tf.data.Dataset.from_tensor_slices(pairs()).batch(BATCH)


def model(**settings):
    net = keras.Sequential([keras.layers.Input((WIDTH,)), keras.layers.Dense(1)])
    net.compile("sgd", LOSS(), **settings)
    return net


class Losses(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(float(logs["loss"]))


def fit(data=None, epochs=EPOCHS, **settings):
    losses = Losses()
    data = dataset() if data is None else data
    model(**settings).fit(data, epochs=epochs, verbose=0, shuffle=False, callbacks=[losses])
    return losses.seen


def fit_arrays():
    losses, net, (x, y) = Losses(), model(), pairs()
    net.fit(x, y, batch_size=BATCH, epochs=EPOCHS, verbose=0, callbacks=[losses])
    return losses.seen


def fit_and_validate():
    net, losses = model(), Losses()
    more = {"validation_data": dataset().take(3), "shuffle": False, "verbose": 0}
    net.fit(dataset(), epochs=EPOCHS, callbacks=[losses], **more)
    return losses.seen


def fit_eagerly():
    return fit(run_eagerly=True)


def fit_several_at_once():
    """Calls of four steps, of which the last ones of an epoch have two; of five in versions of
    Keras 3 in which an epoch cannot end within a call."""
    whole = (3,) <= VERSION < WITH_PARTIAL_CALLS
    return fit(steps_per_execution=5 if whole else 4)


def fit_generator():
    x, y = pairs()

    def batches():
        for row in range(0, len(x), BATCH):
            yield x[row : row + BATCH], y[row : row + BATCH]

    made = tf.data.Dataset.from_generator(
        batches, output_signature=(tf.TensorSpec((BATCH, WIDTH)), tf.TensorSpec((BATCH, 1)))
    )
    return fit(made.apply(tf.data.experimental.assert_cardinality(STEPS)))


def fit_dataset_of_keras():
    x, y = pairs()

    class Batches(getattr(keras.utils, "PyDataset", keras.utils.Sequence)):
        def __len__(self):
            return STEPS

        def __getitem__(self, number):
            rows = slice(number * BATCH, (number + 1) * BATCH)
            return x[rows], y[rows]

    return fit(Batches())


def train_on_batch():
    net, losses = model(), []
    for _ in range(EPOCHS):
        for x, y in dataset():
            losses.append(float(net.train_on_batch(x, y)))
    return losses


def _loop(step):
    weights, losses = tf.Variable(tf.zeros((WIDTH, 1))), []
    for _ in range(EPOCHS):
        for x, y in dataset():
            losses.append(float(step(weights, x, y)))
    return losses


def _update(weights, x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.matmul(x, weights) - y) ** 2)
    weights.assign_sub(0.01 * tape.gradient(loss, weights))
    return loss


def custom_loop():
    return _loop(tf.function(_update))


def custom_loop_with_optimizer():
    net, optimizer = model(), keras.optimizers.Adam()

    @tf.function
    def step(_, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((net(x) - y) ** 2)
        gradients = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
        return loss

    return _loop(step)


def eager_loop():
    """Nothing is traced, and no optimizer of Keras steps: backward passes are the steps."""
    return _loop(_update)


def eager_loop_with_optimizer():
    net, optimizer = model(), keras.optimizers.SGD(0.01)

    def step(_, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((net(x) - y) ** 2)
        gradients = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
        return loss

    return _loop(step)


def epoch_in_function():
    """Two calls, an epoch each."""
    weights = tf.Variable(tf.zeros((WIDTH, 1)))

    @tf.function
    def epoch(data):
        total = tf.constant(0.0)
        for x, y in data:
            total += _update(weights, x, y)
        return total

    return [float(epoch(dataset())) for _ in range(EPOCHS)]


def mirrored():
    strategy = tf.distribute.MirroredStrategy(tf.config.list_logical_devices("CPU")[:2])
    with strategy.scope():
        net, losses = model(), Losses()
    net.fit(dataset(), epochs=EPOCHS, verbose=0, shuffle=False, callbacks=[losses])
    return losses.seen


SHAPES = {
    fit: 20,
    fit_arrays: 20,
    fit_and_validate: 20,
    fit_eagerly: 20,
    fit_several_at_once: 20,
    fit_generator: 20,
    fit_dataset_of_keras: 20,
    train_on_batch: 20,
    custom_loop: 20,
    custom_loop_with_optimizer: 20,
    eager_loop: 20,
    eager_loop_with_optimizer: 20,
    epoch_in_function: 2,
    mirrored: 20,
}
"""shape -> the steps that it takes"""
