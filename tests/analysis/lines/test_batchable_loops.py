"""Loops that one call on whole tensors could replace."""

from textwrap import dedent

import pytest

from whyidle.analysis.lines.batchable_loops import find_loops, may_take_more


def lines(text):
    return sorted(find_loops(dedent(text).strip()).batchable)


def test_a_loop_over_words_is_one():
    assert lines("""
        for word in sentence:
            letters = torch.tensor([ids[c] for c in word])
            tokens.append(chars(letters).mean(0))
    """) == [2, 3]


def test_a_comprehension_over_samples_is_one():
    assert lines("out = torch.stack([attend(row) for row in ids])") == [1]


def test_a_sum_over_samples_is_one():
    assert lines("""
        for a, b in zip(out, y):
            total = total + criterion(a, b)
    """) == [2]


@pytest.mark.parametrize(
    "text",
    [
        "for layer in layers:\n    x = torch.relu(layer(x))",
        "out = [head(x) for head in heads]",
        "for t in range(n):\n    h = cell(x[:, t], h)\n    out.append(h)",
        "for t in range(n):\n    h = (h @ w + x[t]).tanh()",
        "for i in range(n):\n    x = layers[i](x)",
        "for t in range(n):\n    a = policy(state)\n    state, r = env.step(a)",
        "for x, y in loader:\n    loss = criterion(net(x), y)\n    loss.backward()",
    ],
)
def test_layers_recurrences_and_training_are_none(text):
    assert lines(text) == []


ROLLOUT = """
for episode in range(n):
    for t in range(1000):
        action = select(state)
        state, reward, done, _ = env.step(action)
        rewards.append(reward)
    finish()
"""


def test_a_rollout_is_found_with_its_environment():
    loops = find_loops(ROLLOUT.strip())
    assert loops.rollout == {3, 4, 5}
    assert loops.environment == {4}
    assert not loops.batchable


def test_environments_that_go_together_are_none():
    assert not find_loops(ROLLOUT.replace("env.step", "envs.step")).rollout


def test_an_optimizer_s_step_is_no_environment():
    text = "for x in loader:\n    a, b, c = net.step(x)\n    loss(a).backward()\n"
    assert not find_loops(text).rollout


def test_whatever_the_environment_returns():
    text = """
for _ in range(12):
    choice = Categorical(logits=policy(state))
    action = choice.sample()
    rewards.append(env.step(action.item()))
"""
    loops = find_loops(text.strip())
    assert 4 in loops.environment
    assert 3 in loops.rollout


@pytest.mark.parametrize("call", ["scheduler.step(loss)", "optimizer.step()", "envs.step(action)"])
def test_other_steps_are_no_environment(call):
    text = f"for x in data:\n    action = choose(x).argmax()\n    {call}"
    assert not find_loops(text).rollout


@pytest.mark.parametrize("call", ["step(p, s, x)", "trainer.step(p, s, x)"])
def test_a_step_that_hands_its_state_on_is_no_environment(call):
    loops = find_loops(f"for x in batches:\n    p, s, loss = {call}\n")
    assert not loops.environment
    assert not loops.rollout


CELLS = "cell = nn.LSTMCell(1, 2)\nstack = nn.ModuleList([nn.GRUCell(2, 2) for _ in range(3)])\n"


@pytest.mark.parametrize(
    ("layer", "loop"),
    [
        ("LSTM", "for t in range(n):\n    h, c = cell(x[:, t], (h, c))\n    out.append(head(h))"),
        ("LSTM", "for row in x:\n    z = embed(row)\n    s = cell(z, s)\n    out[i] = s[0]"),
        (
            "GRU",
            "for z in x:\n for i in range(3):\n  h[i] = stack[i](z, h[i])\n  z = h[i]",
        ),
        ("", "for t in range(n):\n    h, c = cell(y, (h, c))\n    y = head(h)"),
        ("", "for t in range(n):\n    a = attend(h, x)\n    h, c = cell(a, (h, c))"),
        ("", "for t in range(n):\n    h, c = cell(x[t], (h, c))\n    h = h * mask[t]"),
        ("", "for t in range(n):\n    h, c = cell(out[-1], (h, c))\n    out.append(h)"),
        (
            "",
            "for t in range(n):\n    h, c = cell(x[t], (h, c))\n    if h.max() > 3:\n        break",
        ),
        ("", "for x, y in loader:\n    h = cell(x, h)\n    h.sum().backward()"),
    ],
)
def test_a_layer_replaces_a_loop_in_which_only_states_of_cells_are_handed_on(layer, loop):
    assert next(iter(find_loops(CELLS + loop).recurrent.values()), "") == layer


@pytest.mark.parametrize(
    ("loop", "found"),
    [
        ("for k in params:\n    m[k] = 0.9 * m[k] + g[k]\n    params[k] -= lr * m[k]", False),
        ("for i in range(len(x)):\n    x[i] = shift(x[i])", True),
        ("for row in x:\n    out.append(table[row].sum())", True),
        ("for row in rows.values(0):\n    out.append(row.sum())", True),
    ],
)
def test_what_a_dictionary_holds_is_not_stacked(loop, found):
    """Parameters by name have shapes of their own."""
    assert bool(find_loops(loop).batchable) == found


STEP = "loss = f(model(x, a)[train], y[train])\n    loss.backward()\n    optimizer.step()"
ACT = "obs, reward, done, _ = env.step(action)"


@pytest.mark.parametrize(
    ("text", "more"),
    [
        (f"for epoch in range(200):\n    {STEP}\n    log[epoch - epoch:] = loss", True),
        (f"for epoch in range(200):\n    {STEP}\n    print(epoch, loss.item())", False),
        (f"def train(epoch):\n    {STEP}\nfor epoch in range(200):\n    train(epoch)", False),
        (f"for x, y in loader:\n    {STEP}", True),
        (f"for i in range(9):\n    x, y = xs[i], ys[i]\n    {STEP}", True),
        (f"for i in range(0, n, 8):\n    x = xs[i : i + 8]\n    {STEP}", True),
        (f"while True:\n    x = torch.randn(8, 4)\n    {STEP}", True),
        (f"for i in range(9):\n    x, y = get_batch()\n    {STEP}", True),
        (f"while True:\n    {ACT}\n    x = memory.sample(8)\n    {STEP}", False),
        (f"def play():\n    {ACT}\nfor i in range(9):\n    play()\n    {STEP}", False),
        ("trainer.fit(model)", True),
        ("def (", True),
    ],
)
def test_a_step_on_all_data_or_of_one_environment_takes_no_more_samples(text, more):
    assert may_take_more(text) == more
