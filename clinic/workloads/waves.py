"""Tells waves apart that were recorded at sea: a dense network, with a loop in JAX."""

import argparse
import json
import time
from functools import partial

began = time.perf_counter()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--length", type=int, default=256, help="numbers of a wave")
parser.add_argument("--lengths", type=int, default=1, help="different ones")
parser.add_argument("--pad", action="store_true", help="to the longest")
parser.add_argument("--hidden", type=int, default=256)
parser.add_argument("--layers", type=int, default=3)
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--plain", action="store_true", help="operation by operation")
parser.add_argument("--anew", action="store_true")
parser.add_argument("--show", action="store_true", help="the loss of each step")
parser.add_argument("--filter", type=int, default=0, help="passes over a batch, on the host")
parser.add_argument("--save-every", type=int, default=0)
parser.add_argument("--seconds", type=float, default=0.0)
parser.add_argument("--steps", type=int, default=0)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--device", default="cpu")
parser.add_argument("--times", default="times.json")
args = parser.parse_args()

if args.plain:
    jax.config.update("jax_disable_jit", True)
random = np.random.default_rng(args.seed)


def make_batch():
    """A batch of waves, all of one length, filled up with zeros."""
    length = args.length - int(random.integers(args.lengths))
    waves = random.normal(size=(args.batch, length)).astype(np.float32)
    for _ in range(args.filter):
        waves = np.apply_along_axis(np.convolve, 1, waves, [0.25, 0.5, 0.25], mode="same")
    if args.pad:
        waves = np.pad(waves, ((0, 0), (0, args.length - length)))
    return waves.astype(np.float32), random.integers(0, 4, args.batch)


def make_weights():
    sizes = [args.length, *[args.hidden] * args.layers, 4]
    return [
        (jnp.asarray(random.normal(size=(a, b)) / a**0.5, jnp.float32), jnp.zeros(b))
        for a, b in zip(sizes, sizes[1:])
    ]


def compute_loss(weights, waves, kinds):
    (first, bias), *others = weights
    x = waves @ first[: waves.shape[1]] + bias
    for weight, bias in others:
        x = jax.nn.relu(x) @ weight + bias
    return -jnp.take_along_axis(jax.nn.log_softmax(x), kinds[:, None], axis=1).mean()


def update(weights, waves, kinds):
    loss, slopes = jax.value_and_grad(compute_loss)(weights, waves, kinds)
    return jax.tree.map(lambda w, s: w - 0.01 * s, weights, slopes), loss


train = jax.jit(update)
weights, marks, drained, shown = make_weights(), [], [], []
while True:
    waves, kinds = make_batch()
    if args.anew:
        train = jax.jit(partial(update))
    weights, loss = train(weights, waves, kinds)
    if args.show:
        shown.append(float(loss))
    step = len(marks) + 1
    if args.save_every and step % args.save_every == 0:
        np.savez("weights.npz", *[np.asarray(part) for layer in weights for part in layer])
    if step == 1:
        jax.block_until_ready(loss)
    marks.append(time.perf_counter())
    since = marks[-1] - marks[0]
    last = (args.steps and step >= args.steps) or (args.seconds and since > args.seconds)
    if last or (not drained and since > 0.2 * args.seconds):
        jax.block_until_ready(weights)
        marks[-1] = time.perf_counter()
        drained.append(step - 1)
    if last:
        break
with open(args.times, "w") as file:
    told = {"begin": began, "marks": marks, "samples": args.batch, "drained": drained}
    json.dump(told, file)
