"""The problem in JAX, with one compiled step. Weights and velocities are donated."""

from functools import partial

import jax
import jax.numpy as jnp
import problem

args = problem.parse_arguments()
images, classes, layers = problem.read_problem(args.problem, args.steps)

weights = jax.tree.map(jnp.array, layers)
velocities = jax.tree.map(jnp.zeros_like, weights)


def compute_loss(weights, x, y):
    for weight, bias in weights[:-1]:
        x = jnp.tanh(x @ weight + bias)
    weight, bias = weights[-1]
    log_probabilities = jax.nn.log_softmax(x @ weight + bias)
    return -jnp.take_along_axis(log_probabilities, y[:, None], axis=1).mean()


@partial(jax.jit, donate_argnums=(0, 1))
def train_step(weights, velocities, x, y):
    loss, gradients = jax.value_and_grad(compute_loss)(weights, x, y)
    velocities = jax.tree.map(lambda v, g: problem.MOMENTUM * v + g, velocities, gradients)
    weights = jax.tree.map(lambda w, v: w - problem.LEARNING_RATE * v, weights, velocities)
    return weights, velocities, loss


losses = []
for x, y in problem.slice_batches(images, classes):
    weights, velocities, loss = train_step(weights, velocities, x, y)
    if args.losses:
        losses.append(loss)
jax.block_until_ready(weights)
problem.write_losses(args.losses, losses)
