"""Forms that look for the training loop, the model or the evaluation."""

import pytest
from patching import added, rewrite

PLAIN = """import gc
import torch
from torch import nn


def test(model, loader, device):
    model.eval()
    right = 0
    for x, y in loader:
        right += (model(x.to(device)) == y).sum().item()
    model.train()
    return right


def main(args):
    model = nn.Linear(8, 2).to("cuda")
    # the usual one
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step, (x, y) in enumerate(loader):
        x, y = x.to("cuda"), y.to(device)
        # forward
        out = model(x)
        loss = loss_of(out, y)  # mean
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        gc.collect()
    print(test(model, held_out, device))
"""


FALLS_BACK = (
    "torch._dynamo.config.suppress_errors = True  # code that cannot be compiled runs as it is"
)


def test_a_model_is_compiled_before_its_optimizer():
    assert added(PLAIN, "model.compile", True) == [f"+{FALLS_BACK}", "+model.compile()"]
    lines = f'to("cuda")\n    {FALLS_BACK}\n    model.compile()\n    # the'
    assert lines in rewrite(PLAIN, "model.compile", True).text


@pytest.mark.parametrize(
    ("imports", "lines"),
    [
        ("import torch", [FALLS_BACK]),
        ("import torch as th", [FALLS_BACK.replace("torch", "th", 1)]),
        ("x = 1", ["from torch import _dynamo", FALLS_BACK.removeprefix("torch.")]),
    ],
)
def test_what_cannot_be_compiled_runs_as_in_the_trial(imports, lines):
    text = f"{imports}\nfrom torch import optim\nopt = optim.SGD(model.parameters())\n"
    wanted = [f"+{line}" for line in (*lines, "model.compile()")]
    assert added(text, "model.compile", True) == wanted


def test_what_a_script_says_of_it_already_is_left():
    text = PLAIN.replace("# the", "torch._dynamo.config.suppress_errors = x\n    # the")
    assert added(text, "model.compile", True) == ["+model.compile()"]


def test_models_of_objects():
    text = "import torch\nclass T:\n    def make(self):\n        return torch.optim.SGD(self.net.parameters())\n"  # noqa: E501
    assert added(text, "model.compile", True)[1:] == ["+self.net.compile()"]


@pytest.mark.parametrize("line", ["model = torch.compile(model)", "model.compile()"])
def test_a_compiled_model_stays_as_it_is(line):
    text = f"import torch\n{line}\nopt = torch.optim.SGD(model.parameters())\n"
    found = rewrite(text, "model.compile", True)
    assert found.text == text
    assert found.done


@pytest.mark.parametrize(
    "lines",
    ["@torch.compile\ndef f(): pass", '@torch.compile(mode="default")\ndef f(): pass',
     "def f(): pass\nf = torch.compile(f)"],
)  # fmt: skip
def test_a_compiled_function_is_no_compiled_model(lines):
    text = f"import torch\n{lines}\nopt = torch.optim.SGD(model.parameters())\n"
    assert added(text, "model.compile", True)[1:] == ["+model.compile()"]


@pytest.mark.parametrize(
    "line",
    ["if args.fast: model = torch.compile(model)",
     "model = torch.compile(model) if args.fast else model"],
)  # fmt: skip
def test_a_model_that_is_compiled_at_will_is_told(line):
    text = f"import torch\n{line}\nopt = torch.optim.SGD(model.parameters())\n"
    found = rewrite(text, "model.compile", True)
    assert found.text == text
    assert not found.done
    assert found.why == ("line 2 compiles it where `args.fast`",)


def test_a_model_whose_optimizer_is_one_of_several_is_compiled_once():
    text = "import torch\nif x:\n    opt = torch.optim.SGD(model.parameters())\n"
    patched = rewrite(text, "model.compile", True).text
    assert rewrite(patched, "model.compile", True).done


@pytest.mark.parametrize(
    "given",
    ["model.head.parameters()",
     '[{"params": model.body.parameters()}, {"params": model.head.parameters(), "lr": 1}]'],
)  # fmt: skip
def test_where_a_part_is_trained_the_model_is_what_is_called(given):
    text = f"import torch\nopt = torch.optim.SGD({given})\nmodel(x).backward()\n"
    *_, line = added(text, "model.compile", True)
    assert line.startswith("+model.compile(")


BRANCHES = """import torch
def make(model):
    # which one
    if kind == "sgd":
        return torch.optim.SGD(model.parameters())
    elif kind == "adam":
        opt = torch.optim.Adam(model.parameters())
    else:
        opt = torch.optim.AdamW(model.parameters())
    return opt
"""
MATCHES = """import torch
match kind:
    case "sgd":
        opt = torch.optim.SGD(model.parameters())
    case _:
        opt = torch.optim.AdamW(model.parameters())
"""


def test_of_several_optimizers_for_one_model_one_is_chosen():
    text = rewrite(BRANCHES, "model.compile", True).text
    assert text == BRANCHES.replace(
        "    # which", f"    {FALLS_BACK}\n    model.compile()\n    # which"
    )
    assert rewrite(text, "model.compile", True).done
    text = rewrite(MATCHES, "model.compile", True).text
    assert text == MATCHES.replace("match", f"{FALLS_BACK}\nmodel.compile()\nmatch")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('    elif kind == "adam":\n', '    elif kind == "adam":\n        model = other\n'),
        ("    else:\n        opt", "    if kind == 2:\n        opt"),
    ],
)
def test_branches_that_are_no_choice_between_optimizers_are_left(old, new):
    text = BRANCHES.replace(old, new)
    assert text != BRANCHES
    found = rewrite(text, "model.compile", True)
    assert found.text == text
    assert not found.done


MODULE = """import torch
class Lit(L.LightningModule):
    def training_step(self, x):
        return {0}(x)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters())
"""


def test_a_module_that_is_not_called_itself_is_not_compiled():
    found = rewrite(MODULE.format("self.net"), "model.compile", True)
    assert not found.done
    assert found.why == ("line 6 trains self, whose parts are called one by one",)
    assert added(MODULE.format("self"), "model.compile", True)[1:] == ["+self.compile()"]


def test_of_two_models_none_is_chosen():
    text = (
        "import torch\na = torch.optim.SGD(g.parameters())\nb = torch.optim.SGD(d.parameters())\n"
    )
    found = rewrite(text, "model.compile", True)
    assert found.text == text
    assert found.why == ("line 2 trains g, d",)


@pytest.mark.parametrize("call", ["torch.compile(model)", "model.compile()"])
def test_how_a_model_is_compiled(call):
    text = f"import torch\nx = {call}\nopt = torch.optim.SGD(model.parameters())\n"
    (line,) = added(text, "model.compile_dynamic", True)[1:]
    assert line.endswith("dynamic=True)")


def test_calls_in_every_step_are_thinned():
    assert added(PLAIN, "gc.collect_interval_steps", 100, 1) == [
        "-gc.collect()",
        "+if step % 100 == 0:",
        "+gc.collect()",
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("for step, (x, y) in enumerate(loader):", "for x, y in loader:"),
        ("        gc.collect", "        if bad: gc.collect"),
        ("        gc.collect", "        step += 1\n        gc.collect"),
        ("        gc.collect", "        x = gc.collect"),
    ],
)
def test_what_cannot_be_counted_is_left(old, new):
    text = PLAIN.replace(old, new)
    found = rewrite(text, "gc.collect_interval_steps", 100, 1)
    assert found.text == text
    assert len(found.why) == 1


def test_calls_outside_of_training_are_left_silently():
    text = "import gc\ngc.collect()\nfor x in y:\n    gc.collect()\n"
    found = rewrite(text, "gc.collect_interval_steps", 100, 1)
    assert not found.done
    assert not found.why


def test_forward_and_loss_run_under_autocast():
    new = PLAIN.replace(
        "        # forward\n        out = model(x)\n        loss = loss_of(out, y)  # mean\n",
        "        # forward\n"
        '        with torch.autocast("cuda", dtype=torch.bfloat16):\n'
        "            out = model(x)\n            loss = loss_of(out, y)  # mean\n",
    )
    assert rewrite(PLAIN, "autocast.dtype", "bfloat16").text == new


def test_accumulated_losses_stay_under_it():
    text = PLAIN.replace("  # mean\n", "\n        loss = loss / 4\n")
    came = added(text, "autocast.dtype", "bfloat16")
    assert came[-1] == "+loss = loss / 4"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("loss.backward()", "scaler.scale(loss).backward()"),
        ("loss.backward()", "loss.backward()\n        other.backward()"),
        ("out = model(x)", "out = forward(x)"),
        ("        loss = loss_of(out, y)  # mean", "        if y: loss = loss_of(out, y)"),
    ],
)
def test_a_step_that_is_not_plain_is_left(old, new):
    text = PLAIN.replace(old, new)
    found = rewrite(text, "autocast.dtype", "bfloat16")
    assert found.text == text
    assert len(found.why) == 1


def test_half_precision_that_needs_a_scaler_is_left_to_people():
    assert not rewrite(PLAIN, "autocast.dtype", "float16").done
    assert not rewrite(PLAIN, "autocast.grad_scaler", True).done
    assert rewrite(PLAIN, "autocast.grad_scaler", False).done


@pytest.mark.parametrize(
    ("words", "done"),
    [
        ("'cuda', torch.bfloat16", True),
        ("'cuda', dtype=torch.bfloat16", True),
        ("'cuda', dtype=torch.bfloat16, enabled=args.amp", False),
        ("'cuda'", False),
    ],
)
def test_an_autocast_of_the_scripts_own_stays(words, done):
    text = (
        f"import torch\nfor x in loader:\n    with torch.autocast({words}):\n"
        "        loss = model(x)\n    loss.backward()\n"
    )
    found = rewrite(text, "autocast.dtype", "bfloat16")
    assert (found.text, found.done, len(found.why)) == (text, done, not done)


def test_a_loss_that_must_not_run_under_it_is_told():
    text = f"{PLAIN}loss_of = torch.nn.BCELoss()\n"
    assert "must not run under autocast" in rewrite(text, "autocast.dtype", "bfloat16").why[0]
