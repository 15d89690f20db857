"""Scripts of JAX that tests run under the probe."""

TRAIN = """
import jax, jax.numpy as jnp, numpy as np, optax
x = np.linspace(0, 1, 512, dtype=np.float32).reshape(8, 64)
w, tx = jnp.ones((64, 64)) / 8, optax.sgd(0.1)
state = tx.init(w)

def loss_fn(w, x):
    return ((jnp.tanh(x @ w) - x) ** 2).mean()

@jax.jit
def train_step(w, state, x):
    loss, grads = jax.value_and_grad(loss_fn)(w, x)
    updates, state = tx.update(grads, state)
    return optax.apply_updates(w, updates), state, loss
"""
LOOP = """
for i in range(30):
    w, state, loss = train_step(w, state, x)
print(float(loss))
"""
BREAK = """
import sys
import {package}
module, _, path = "{fault}".partition(":")
owner = sys.modules["_whyidle_probe." + module]
*kinds, name = path.split(".")
for kind in kinds:
    owner = getattr(owner, kind)
def fail(*args, **kwargs):
    raise ValueError("injected")
setattr(owner, name, fail)  # a fault of ours: the job must not see it
"""
"""makes a function of the probe fail: its module, and its name there"""
