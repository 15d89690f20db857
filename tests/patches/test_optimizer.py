"""``fused`` and ``foreach`` where an optimizer is made."""

import pytest
from patching import added, rewrite


@pytest.mark.parametrize(
    ("start", "call"),
    [
        ("import torch", "torch.optim.AdamW(p, lr=1)"),
        ("from torch import optim", "optim.SGD(p, lr=1)"),
        ("from torch.optim import Adam", "Adam(p, lr=1)"),
        ("import torch.optim as o", "o.Adagrad(p, lr=1)"),
        ("from torch.optim.adamw import AdamW as A", "A(p, lr=1)"),
        ("import torch", "torch.optim.AdamW(p, foreach=False, lr=1)"),
        ("import torch", "torch.optim.AdamW(p, fused=False, lr=1)"),
    ],
)
def test_pytorchs_optimizers_are_fused(start, call):
    text = f"{start}\nopt = {call}\n"
    new = call.replace("fused=False, lr=1)", "fused=True, lr=1)")
    new = new if new != call else call[:-1] + ", fused=True)"
    assert added(text, "optimizer.fused", True, False) == [f"-opt = {call}", f"+opt = {new}"]


def test_an_option_decides():
    text = 'import torch\np.add_argument("--fused", action="store_true"); args = p.parse_args()\n'
    text += "opt = torch.optim.AdamW(p, fused=args.fused)\n"
    found = rewrite(text, "optimizer.fused", True, False)
    assert found.text == text
    assert found.why == ("line 3 has fused=args.fused, the command's option --fused",)


@pytest.mark.parametrize("other", ["foreach=True", "foreach=args.f", "differentiable=True"])
def test_what_excludes_it_is_left(other):
    text = f"import torch\nopt = torch.optim.AdamW(p, {other})\n"
    found = rewrite(text, "optimizer.fused", True, False)
    assert found.text == text
    assert "which excludes fused" in found.why[0]


def test_others_get_what_they_take():
    text = "import torch\nopt = torch.optim.RMSprop(p)\nmine = Adam(p)\nlion = lib.AdamW(p)\n"
    assert not rewrite(text, "optimizer.fused", True, False).done
    assert added(text, "optimizer.foreach", True, False)[1:] == [
        "+opt = torch.optim.RMSprop(p, foreach=True)"
    ]
