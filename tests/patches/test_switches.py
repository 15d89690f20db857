"""Calls for the whole process: changed where they are, written behind the imports where not."""

import pytest
from patching import added, rewrite

HIGH = "matmul.precision"


@pytest.mark.parametrize(
    ("line", "new"),
    [
        ("torch.autograd.set_detect_anomaly(True)", "torch.autograd.set_detect_anomaly(False)"),
        ("torch.autograd.set_detect_anomaly(mode=True, check_nan=False)",
         "torch.autograd.set_detect_anomaly(mode=False, check_nan=False)"),
        ("with torch.autograd.detect_anomaly(): pass",
         "with torch.autograd.set_detect_anomaly(False): pass"),
        ("with torch.autograd.detect_anomaly(check_nan=False): pass",
         "with torch.autograd.set_detect_anomaly(False): pass"),
    ],
)  # fmt: skip
def test_anomaly_mode_goes_off(line, new):
    text = f"import torch\n{line}\n"
    assert added(text, "autograd.anomaly_mode", False, True) == [f"-{line}", f"+{new}"]


def test_a_mode_that_an_option_asks_for_is_told():
    text = "import torch\ntorch.autograd.set_detect_anomaly(args.debug)\n"
    found = rewrite(text, "autograd.anomaly_mode", False, True)
    assert found.text == text
    assert found.why == ("line 2 has mode=args.debug",)


def test_no_line_turns_off_what_nothing_turns_on():
    found = rewrite("import torch\nx = 1\n", "autograd.anomaly_mode", False, True, insert=True)
    assert not found.done


@pytest.mark.parametrize(
    ("head", "came"),
    [
        ("import torch", ['+torch.set_float32_matmul_precision("high")']),
        ("import torch as th\nimport os", ['+th.set_float32_matmul_precision("high")']),
        ("import torch.nn as nn\nimport torch.nn.functional",
         ['+torch.set_float32_matmul_precision("high")']),
        ("from torch import nn",
         ["+import torch", '+torch.set_float32_matmul_precision("high")']),
        ('"""Doc."""\n\nfrom __future__ import annotations\n\nimport os\nos.environ["A"] = "1"\n'
         "import torch\ntry:\n    import apex\nexcept ImportError:\n    apex = None",
         ['+torch.set_float32_matmul_precision("high")']),
    ],
)  # fmt: skip
def test_precision_is_set_behind_the_imports(head, came):
    rest = "\n\n\ndef main():\n    import json\n\n\nif x:\n    import late\n    main()\n"
    new = added(head + rest, HIGH, "high", "highest", insert=True)
    assert [line for line in new if line != "+"] == came
    assert new.count("+") == 1
    assert rewrite(head + rest, HIGH, "high", "highest", insert=True).text.startswith(head + "\n")
    assert rewrite(head + rest, HIGH, "high", "highest").text == head + rest


@pytest.mark.parametrize(
    "text",
    [
        "def main():\n    import torch\n",
        "import numpy\nx = 1\n",
        "x = 1\n",
        "",
        "from .a import b\n",
        "if TYPE_CHECKING:\n    import torch\n",
        "if typing.TYPE_CHECKING:\n    import torch\nimport numpy\n",
    ],
)
def test_a_script_that_does_not_import_pytorch_first_is_left(text):
    assert rewrite(text, HIGH, "high", "highest", insert=True).text == text


def test_a_call_that_is_there_is_changed_in_its_own_quotes():
    text = "import torch\ntorch.set_float32_matmul_precision('highest')\n"
    assert added(text, HIGH, "high", "highest", insert=True)[1] == (
        "+torch.set_float32_matmul_precision('high')"
    )


@pytest.mark.parametrize(
    "switch",
    ["cuda.matmul.allow_tf32 = False", 'cuda.matmul.fp32_precision = "ieee"',
     'fp32_precision = "ieee"', "cuda.matmul.allow_tf32, x = False, 1"],
)  # fmt: skip
def test_another_switch_is_not_overruled(switch):
    text = f"import torch\ntorch.backends.{switch}\n"
    found = rewrite(text, HIGH, "high", "highest", insert=True)
    assert found.text == text
    assert found.why == (f"line 2 also sets torch.backends.{switch.partition(' ')[0].strip(',')}",)


def test_threads():
    text = "import torch\nimport os\n\ntorch.set_num_threads(8)\n"
    assert added(text, "torch.num_threads", 2, 8)[1] == "+torch.set_num_threads(2)"
    text = text.replace("torch.set_num_threads(8)", "x = 1")
    assert (
        added(text, "torch.num_threads", 2, 8, insert=True).count("+torch.set_num_threads(2)") == 1
    )
