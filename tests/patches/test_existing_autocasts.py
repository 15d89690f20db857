"""Autocasts that are there already, and what must not come under a new one."""

import pytest
from patching import added, rewrite

ASKED = ("autocast.dtype", "bfloat16")
TRAINS = """import torch
from torch import nn
from torch.nn import functional as F
{head}
opt = torch.optim.SGD(model.parameters())
for x, y in loader:
    {first}
        out = model(x)
        loss = lossy(out, y)
    loss.backward()
"""
PLAIN = """import torch
import torch.nn.functional as F
{head}
opt = torch.optim.SGD(model.parameters())
for x, y in loader:
    out = model(x)
    loss = F.mse_loss(out, y)
    loss.backward()
    {last}
"""


def plain(head="x = 1", last="opt.step()"):
    return PLAIN.format(head=head, last=last)


@pytest.mark.parametrize(
    ("said", "becomes"),
    [
        ('torch.autocast("cuda", enabled=False)',
         'torch.autocast("cuda", enabled=True, dtype=torch.bfloat16)'),
        ("torch.cuda.amp.autocast(enabled=False)",
         "torch.cuda.amp.autocast(enabled=True, dtype=torch.bfloat16)"),
        ("torch.cuda.amp.autocast(False)", "torch.cuda.amp.autocast(True, dtype=torch.bfloat16)"),
        ('torch.autocast("cuda", torch.float16, False)',
         'torch.autocast("cuda", torch.bfloat16, True)'),
        ('torch.autocast("cuda", dtype=torch.bfloat16, enabled=False)',
         'torch.autocast("cuda", dtype=torch.bfloat16, enabled=True)'),
    ],
)  # fmt: skip
def test_one_that_is_off_goes_on_with_the_type_that_was_tried(said, becomes):
    text = TRAINS.format(head="", first=f"with {said}:")
    assert added(text, *ASKED) == [f"-with {said}:", f"+with {becomes}:"]


def test_a_constant_that_a_gradient_scaler_shares_stays_as_it_is():
    text = TRAINS.format(
        head='AMP = False\nscaler = torch.amp.GradScaler("cuda", enabled=AMP)',
        first='with torch.autocast("cuda", enabled=AMP):',
    )
    assert added(text, *ASKED)[1] == (
        '+with torch.autocast("cuda", enabled=True, dtype=torch.bfloat16):'
    )


def test_an_option_that_a_gradient_scaler_shares_stays_as_it_is():
    text = TRAINS.format(
        head='p.add_argument("--amp", action="store_true", default=False)\nargs = p.parse_args()\n'
        'scaler = torch.amp.GradScaler("cuda", enabled=args.amp)',
        first='with torch.autocast("cuda", enabled=args.amp):',
    )
    text += 'def test():\n    with torch.autocast("cuda", enabled=args.amp):\n        model(v)\n'
    assert added(text, *ASKED) == [
        '-with torch.autocast("cuda", enabled=args.amp):',
        '+with torch.autocast("cuda", enabled=True, dtype=torch.bfloat16):',
    ]


@pytest.mark.parametrize(
    "said", ['torch.autocast("cuda")', "torch.cuda.amp.autocast()",
             'torch.autocast("cuda", torch.float16)', 'torch.autocast("cuda", dtype=kind)'],
)  # fmt: skip
def test_one_of_another_type_is_told(said):
    text = TRAINS.format(head="", first=f"with {said}:")
    found = rewrite(text, *ASKED)
    assert not found.done
    assert found.why == (f"line 7 has {said} already",)


@pytest.mark.parametrize("said", ["torch.cuda.amp.autocast(args.amp)",
                                  'torch.autocast("cuda", enabled=args.amp)'])  # fmt: skip
def test_one_that_an_option_turns_on_is_told(said):
    head = 'p.add_argument("--amp", action="store_true"); args = p.parse_args()'
    found = rewrite(TRAINS.format(head=head, first=f"with {said}:"), *ASKED)
    assert not found.done
    assert found.why == ("line 7 has enabled=args.amp, the command's option --amp",)


OFF = 'with torch.autocast("cuda", enabled=False):'
LAYER = f"class Norm:\n    def forward(self, x):\n        {OFF}\n            return x.float()"
EVALUATES = 'def test():\n    with torch.autocast("cuda", dtype=torch.bfloat16):\n        model(v)'


@pytest.mark.parametrize("head", [LAYER, EVALUATES])
def test_one_that_is_not_for_training_stays_and_says_nothing(head):
    alone = f"import torch\n{head}\n"
    assert not rewrite(alone, *ASKED).done
    assert rewrite(alone, *ASKED).text == alone
    came = added(plain(head), *ASKED)
    assert came[2:] == [
        '+with torch.autocast("cuda", dtype=torch.bfloat16):',
        "+out = model(x)",
        "+loss = F.mse_loss(out, y)",
    ]


def test_one_that_is_left_for_some_lines_stays_off():
    within = 'with torch.autocast("cuda", dtype=torch.bfloat16):\n        with torch.autocast('
    text = TRAINS.format(head="", first=within + '"cuda", enabled=False): pass')
    found = rewrite(text, *ASKED)
    assert found.done
    assert found.text == text


@pytest.mark.parametrize(
    ("context", "done"),
    [("amp", False), ("self.context()", False), ('torch.profiler.record_function("x")', True)],
)
def test_what_runs_under_another_context_may_have_an_autocast_of_its_own(context, done):
    text = plain().replace("    out = model(x)", f"    with {context}:\n        out = model(x)")
    found = rewrite(text, *ASKED)
    assert found.done is done
    if not done:
        assert "where the forward pass begins is not clear" in found.why[0]


@pytest.mark.parametrize(
    ("head", "loss", "said"),
    [
        ("lossy = torch.nn.BCELoss()", "lossy(out, y)", "line 3 has torch.nn.BCELoss"),
        ("", "F.binary_cross_entropy(out, y)", "line 7 has F.binary_cross_entropy"),
    ],
)
def test_what_pytorch_refuses_under_autocast_is_not_put_under_it(head, loss, said):
    text = plain(head).replace("F.mse_loss(out, y)", loss)
    found = rewrite(text, *ASKED)
    assert found.text == text
    assert found.why == (f"{said}, which must not run under autocast",)
    assert rewrite(text, *ASKED, device="cpu").done


@pytest.mark.parametrize(
    ("last", "fits"),
    [
        ("seen.append(out.detach().cpu().numpy())", False),
        ("seen.append(torch.sigmoid(out).cpu().numpy())", False),
        ("seen.append(out.float().cpu().numpy())", True),
        ("seen.append(out.argmax(1).cpu().numpy())", True),
        ("seen.append((out > 0).cpu().numpy())", True),
        ("seen.append(loss.detach().cpu().numpy())", True),
        ("seen.append(x.numpy())", True),
    ],
)
def test_numpy_does_not_get_what_it_does_not_know(last, fits):
    found = rewrite(plain(last=last), *ASKED)
    assert found.done is fits
    if not fits:
        assert found.why == ("line 9 creates a NumPy array, which cannot be bfloat16",)
