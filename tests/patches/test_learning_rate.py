"""``lr`` beside larger batches: linearly for SGD, by the square root for Adam."""

import pytest
from patching import rewrite

from whyidle.engine.patching.source_patch import KeptFix, make_patch
from whyidle.model.diagnosis import Edit
from whyidle.probe.knobs._learning_rate import rate_exponent

KNOB, SIZES = "optimizer.scale_learning_rate", "loader.batch_size_times"
LARGER = """import torch
from torch import optim
from torch.utils.data import DataLoader
loader = DataLoader(data, batch_size=16 * {0}, shuffle=True)
"""


def scaled(call, times=4, start=LARGER, end=""):
    text = start.format(times) + f"opt = {call}\n{end}"
    return rewrite(text, KNOB, True, False, beside={SIZES: times})


@pytest.mark.parametrize(
    ("call", "times", "wanted"),
    [
        ("optim.SGD(p, lr=0.1)", 4, "optim.SGD(p, lr=0.1 * 4)"),
        ("optim.SGD(p, 0.1, momentum=0.9)", 2, "optim.SGD(p, 0.1 * 2, momentum=0.9)"),
        ("torch.optim.AdamW(p, lr=1e-3)", 4, "torch.optim.AdamW(p, lr=1e-3 * 2)"),
        ("torch.optim.AdamW(p, lr=1e-3)", 2, "torch.optim.AdamW(p, lr=1e-3 * 2**0.5)"),
        ("optim.Adam(p)", 4, "optim.Adam(p, lr=0.001 * 2)"),
        ("optim.RMSprop(p, lr=args.lr)", 4, "optim.RMSprop(p, lr=args.lr * 2)"),
        ("optim.SGD(p, lr=a / 2)", 4, "optim.SGD(p, lr=(a / 2) * 4)"),
    ],
)
def test_rates_grow_by_the_rule_of_their_optimizer(call, times, wanted):
    found = scaled(call, times)
    assert found.text.endswith(f"opt = {wanted}\n")
    assert found.done


def test_the_written_rate_is_the_one_of_the_trial():
    torch = pytest.importorskip("torch")
    for name, times in (("SGD", 3), ("Adam", 2), ("Adagrad", 3), ("ASGD", 2)):
        text = scaled(f"optim.{name}(p)", times).text
        made = []
        one = torch.nn.Parameter(torch.zeros(1))
        plain = getattr(torch.optim, name)([one])
        code = text.splitlines()[-1].replace("opt = ", "made.append(") + ")"
        exec(code, {"optim": torch.optim, "p": [one], "made": made})
        now, was = made[0].param_groups[0]["lr"], plain.param_groups[0]["lr"]
        assert now == pytest.approx(was * times ** rate_exponent(plain), rel=1e-15)


@pytest.mark.parametrize(
    "end",
    ["for g in opt.param_groups:\n    g['lr'] = 0.1\n",
     "s = torch.optim.lr_scheduler.OneCycleLR(opt, 0.1)\n",
     "more = optim.SGD([{'params': p, 'lr': 1}])\n"],
)  # fmt: skip
def test_rates_that_are_set_elsewhere_are_left(end):
    found = scaled("optim.SGD(p, lr=0.1)", end=end)
    assert not found.done
    assert found.why[0].startswith("line 5 makes an optimizer, and ")


@pytest.mark.parametrize("call", ["wandb.log", "writer.add_scalars", "print", "bar.set_postfix"])
def test_a_rate_that_is_told_is_none_that_is_set(call):
    found = scaled("optim.SGD(p, lr=0.1)", end=f'{call}({{"lr": opt.param_groups[0]["lr"]}})\n')
    assert "opt = optim.SGD(p, lr=0.1 * 4)" in found.text
    assert not found.why


@pytest.mark.parametrize(
    ("old", "new"),
    [("opt = ", "x = {'params': p, 'lr': 1}\nopt = "), ("optim.SGD", "Own"),
     ("opt = ", "more = DataLoader(other, sampler=weighted)\nopt = ")],
)  # fmt: skip
def test_the_batch_is_not_raised_without_its_rate(tmp_path, old, new):
    """Half of the fix is another one, that nobody tried."""
    text = LARGER.replace(" * {0}", "") + "opt = optim.SGD(p, lr=0.1)\n"
    (tmp_path / "train.py").write_text(text.replace(old, new))
    edits = [Edit(knob=SIZES, value=4, was="16"), Edit(knob=KNOB, value=True, was=False)]
    patch = make_patch([KeptFix("larger-batch", edits)], ["python", "train.py"], tmp_path)
    assert not patch.diff
    (said,) = patch.sentences
    assert "a batch size 4 times as large" in said
    assert "a learning rate scaled with the batch" in said


def test_a_batch_in_another_file_than_its_rate_is_left(tmp_path):
    (tmp_path / "data.py").write_text(LARGER.replace(" * {0}", ""))
    (tmp_path / "train.py").write_text("import data\nfrom torch import optim\noptim.SGD(p)\n")
    edits = [Edit(knob=SIZES, value=4, was="16"), Edit(knob=KNOB, value=True, was=False)]
    patch = make_patch([KeptFix("larger-batch", edits)], ["python", "train.py"], tmp_path)
    assert not patch.diff
    assert "no loader of this file has larger batches" in patch.sentences[0]


def test_without_larger_batches_in_the_file_nothing_grows():
    start = LARGER.replace(" * {0}", "")
    found = scaled("optim.SGD(p, lr=0.1)", start=start)
    assert not found.done
    assert found.why == (
        "line 5 makes an optimizer, and no loader of this file has larger batches",
    )


def test_both_edits_of_the_fix_make_one_patch(tmp_path):
    text = LARGER.replace(" * {0}", "") + "opt = optim.SGD(p, lr=0.1)\n"
    (tmp_path / "train.py").write_text(text)
    edits = [Edit(knob=SIZES, value=4, was=1), Edit(knob=KNOB, value=True, was=False)]
    patch = make_patch([KeptFix("larger-batch", edits)], ["python", "train.py"], tmp_path)
    assert patch.sentences == ()
    added = [line for line in patch.diff.splitlines() if line.startswith("+") and line[1] != "+"]
    assert added == [
        "+loader = DataLoader(data, batch_size=16 * 4, shuffle=True)",
        "+opt = optim.SGD(p, lr=0.1 * 4)",
    ]
