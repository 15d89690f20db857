"""Ten layers in JAX, with a learning rate that decays from epoch to epoch."""

import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

r = np.random.default_rng(0)
params = [jnp.asarray(r.normal(size=(192, 192)) * 0.07, jnp.float32) for _ in range(10)]


def loss_of(p, x):
    for w in p:
        x = jnp.tanh(x @ w)
    return jnp.mean(x**2)


@partial(jax.jit, static_argnames=("tx",))
def fit_batch(tx, p, s, x):
    loss, g = jax.value_and_grad(loss_of)(p, x)
    u, s = tx.update(g, s, p)
    return optax.apply_updates(p, u), s, loss


tx = optax.inject_hyperparams(optax.adam)(learning_rate=1e-3)
state = tx.init(params)
for epoch in range(24):
    if epoch == 2:
        start = time.perf_counter()
    tx = optax.inject_hyperparams(optax.adam)(learning_rate=1e-3)
    state.hyperparams["learning_rate"] = jnp.asarray(1e-3 * 0.9**epoch, jnp.float32)
    for _ in range(15):
        x = r.normal(size=(64, 192)).astype(np.float32)
        params, state, loss = fit_batch(tx, params, state, x)
        loss.block_until_ready()
print(f"loss {float(loss):.6g}")
print(f"took {time.perf_counter() - start:.2f} s")
