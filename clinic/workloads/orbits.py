"""Learns the orbits of moons from short observations: JAX with Optax."""

import argparse
import json
import time
from functools import partial

began = time.perf_counter()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--moments", type=int, default=64, help="of an observation")
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--hidden", type=int, default=256)
parser.add_argument("--layers", type=int, default=3)
parser.add_argument("--wide", action="store_true", help="numbers of 64 bits")
parser.add_argument("--reuse", action="store_true", help="memory of what is replaced")
parser.add_argument("--plain", action="store_true", help="the step as Python")
parser.add_argument("--check", action="store_true", help="each result")
parser.add_argument("--follow", action="store_true", help="each trace")
parser.add_argument("--compiles", action="store_true", help="tell of them")
parser.add_argument("--at-once", type=int, default=1, help="steps of one call")
parser.add_argument("--simulate", type=int, default=0, help="moments before an observation")
parser.add_argument("--show", action="store_true", help="the loss of each call")
parser.add_argument("--first-batch", type=int, default=0, help="of the first call alone")
parser.add_argument("--seconds", type=float, default=0.0)
parser.add_argument("--steps", type=int, default=0)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--device", default="cpu")
parser.add_argument("--times", default="times.json")
args = parser.parse_args()

for flag in ("enable_x64",) * args.wide + ("debug_nans",) * args.check:
    jax.config.update(f"jax_{flag}", True)
for flag in ("check_tracer_leaks",) * args.follow + ("log_compiles",) * args.compiles:
    jax.config.update(f"jax_{flag}", True)
random = np.random.default_rng(args.seed)
FLOAT = np.float64 if args.wide else np.float32


def observe(count):
    """Positions of moons on circles, after they were followed for a while."""
    phase = random.random((count, 1)) * 6.28
    speed = 0.1 + random.random((count, 1))
    for _ in range(args.simulate):
        phase = np.mod(phase + 0.01 * speed * np.cos(phase), 6.28)
    times = np.arange(args.moments) * 0.1
    return np.sin(phase + speed * times).astype(FLOAT), speed.astype(FLOAT)


def make_weights():
    sizes = [args.moments, *[args.hidden] * args.layers, 1]
    return {
        f"layer {number}": {
            "weight": jnp.asarray(random.normal(size=(a, b)) / a**0.5, FLOAT),
            "bias": jnp.zeros(b, FLOAT),
        }
        for number, (a, b) in enumerate(zip(sizes, sizes[1:]))
    }


def predict(weights, x):
    for name in list(weights)[:-1]:
        x = jnp.tanh(x @ weights[name]["weight"] + weights[name]["bias"])
    last = weights[list(weights)[-1]]
    return x @ last["weight"] + last["bias"]


def compute_loss(weights, seen, speed):
    return optax.l2_loss(predict(weights, seen), speed).mean()


optimizer = optax.adam(1e-3)


def update(state, batch):
    weights, moments = state
    loss, slopes = jax.value_and_grad(compute_loss)(weights, *batch)
    changes, moments = optimizer.update(slopes, moments, weights)
    return (optax.apply_updates(weights, changes), moments), loss


compiled = jax.jit if not args.plain else lambda step, **_: step


@partial(compiled, donate_argnums=(0,) if args.reuse else ())
def train(state, batches):
    if args.at_once > 1:
        state, losses = jax.lax.scan(update, state, batches)
        return state, losses.mean()
    return update(state, batches)


def next_batches(count):
    if args.at_once == 1:
        return observe(count)
    found = [observe(count) for _ in range(args.at_once)]
    return tuple(np.stack(part) for part in zip(*found))


weights = make_weights()
state, marks, drained, shown = (weights, optimizer.init(weights)), [], [], []
while True:
    call = len(marks) + 1
    count = args.first_batch if args.first_batch and call == 1 else args.batch
    state, loss = train(state, next_batches(count))
    if args.show:
        shown.append(float(loss))
    if call == 1:
        jax.block_until_ready(loss)
    marks.append(time.perf_counter())
    since = marks[-1] - marks[0]
    over = args.steps and call * args.at_once >= args.steps
    last = over or (args.seconds and since > args.seconds)
    if last or (not drained and since > 0.2 * args.seconds):
        jax.block_until_ready(state)
        marks[-1] = time.perf_counter()
        drained.append(call - 1)
    if last:
        break
with open(args.times, "w") as file:
    samples = args.batch * args.at_once
    json.dump({"begin": began, "marks": marks, "samples": samples, "drained": drained}, file)
