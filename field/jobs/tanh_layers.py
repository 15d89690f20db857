"""Twelve layers with AdamW and clipping in JAX."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

r = np.random.default_rng(0)
params = {
    f"l{i}": {"w": jnp.asarray(r.normal(size=(128, 128)) * 0.08, jnp.float32), "b": jnp.zeros(128)}
    for i in range(12)
}
tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
state = tx.init(params)


def loss_of(p, x):
    for k in p:
        x = jnp.tanh(x @ p[k]["w"] + p[k]["b"])
    return jnp.mean(x**2)


grad = jax.jit(jax.value_and_grad(loss_of))


def update(p, s, x):
    loss, g = grad(p, x)
    u, s = tx.update(g, s, p)
    return optax.apply_updates(p, u), s, loss


for k in range(400):
    if k == 20:
        start = time.perf_counter()
    x = r.normal(size=(64, 128)).astype(np.float32)
    params, state, loss = update(params, state, x)
    loss.block_until_ready()
print(f"loss {float(loss):.6g}")
print(f"took {time.perf_counter() - start:.2f} s")
