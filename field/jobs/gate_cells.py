"""A gated recurrent cell over 36 time steps in JAX."""

import time

start = time.perf_counter()
import jax
import jax.numpy as jnp
import numpy as np

r = np.random.default_rng(0)
HIDDEN, TIMES = 96, 36
p = {
    "a": jnp.asarray(r.normal(size=(HIDDEN, HIDDEN)) * 0.1, jnp.float32),
    "b": jnp.asarray(r.normal(size=(16, HIDDEN)) * 0.1, jnp.float32),
    "c": jnp.asarray(r.normal(size=(HIDDEN, HIDDEN)) * 0.1, jnp.float32),
}


def cell(p, h, x):
    z = jax.nn.sigmoid(x @ p["b"] + h @ p["c"])
    return z * h + (1 - z) * jnp.tanh(x @ p["b"] + (z * h) @ p["a"])


def loss_of(p, xs):
    h = jnp.zeros((xs.shape[1], HIDDEN))
    for t in range(TIMES):
        h = cell(p, h, xs[t])
    return jnp.mean(h**2)


@jax.jit
def train(p, xs):
    loss, g = jax.value_and_grad(loss_of)(p, xs)
    return jax.tree.map(lambda a, b: a - 0.1 * b, p, g), loss


for _ in range(60):
    p, loss = train(p, r.normal(size=(TIMES, 16, 16)).astype(np.float32))
    loss.block_until_ready()
print(f"loss {float(loss):.6g}")
print(f"took {time.perf_counter() - start:.2f} s")
