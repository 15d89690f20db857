"""Decorators that compile the function of a training step."""

import pytest
from patching import added, rewrite

JAX = """import jax

def train_step(w, x):
    loss, grads = jax.value_and_grad(loss_fn)(w, x)
    return w - 0.1 * grads, loss
"""
TENSORFLOW = """import tensorflow as tf

def train_step(x):
    with tf.GradientTape() as tape:
        loss = model(x)
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
    return loss
"""


@pytest.mark.parametrize(("text", "line"), [(JAX, "@jax.jit"), (TENSORFLOW, "@tf.function")])
def test_the_function_that_takes_the_gradients_is_compiled(text, line):
    assert added(text, "step.compile", True) == [f"+{line}"]
    assert added(text, "step.compile", True, made={3: ""}) == [f"+{line}"]


def test_a_trial_says_which_of_two_functions_it_is():
    both = JAX + JAX.replace("import jax\n", "").replace("train_step", "other_step")
    assert len(rewrite(both, "step.compile", True).why) == 2
    assert "+@jax.jit" in added(both, "step.compile", True, made={8: ""})
    found = rewrite(both, "step.compile", True, made={8: "its function takes gradients in a loop"})
    assert not found.done


@pytest.mark.parametrize(
    "text",
    [
        JAX.replace("import jax", "from mine import jax"),
        JAX.replace("    loss, grads", "    for x in data:\n     loss, grads"),
        JAX.replace("def train_step", "def make():\n  def train_step").replace(
            "\n    ", "\n        "
        ),
        "import jax\nloss, grads = jax.value_and_grad(loss_fn)(w, x)\n",
        "import numpy as np\ndef f(x):\n    return np.gradient(x)\n# jax\n",
    ],
)
def test_others_stay_as_they_are(text):
    assert rewrite(text, "step.compile", True).text == text


def test_a_decorated_function_is_left_to_people():
    text = JAX.replace("def train", "@timed\ndef train")
    found = rewrite(text, "step.compile", True)
    assert (found.text, len(found.why)) == (text, 1)
