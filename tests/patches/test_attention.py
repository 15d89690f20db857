"""Attention that is not asked for weights which nobody looks at."""

import pytest
from patching import added, rewrite

HEAD = """from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(8, 2)

    def forward(self, x, mask=None):
"""
OTHER = """

class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = Own()

    def forward(self, x):
        x, _ = self.attend(x, x, x)
        return x
"""
ASKED = ("model.attention", "sdpa", "eager")


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("x, _ = self.attend(x, x, x)", "x, _ = self.attend(x, x, x, need_weights=False)"),
        ("x, w = self.attend(x, x, x)", "x, w = self.attend(x, x, x, need_weights=False)"),
        (
            "x = x + self.attend(x, x, x, attn_mask=mask)[0]",
            "x = x + self.attend(x, x, x, attn_mask=mask, need_weights=False)[0]",
        ),
        (
            "x, _ = self.attend(x, x, x, need_weights=True)",
            "x, _ = self.attend(x, x, x, need_weights=False)",
        ),
        ("x, _ = self.attend(x, x, x, mask, True)", "x, _ = self.attend(x, x, x, mask, False)"),
    ],
)
def test_weights_that_are_thrown_away(line, becomes):
    text = f"{HEAD}        {line}\n        return x\n{OTHER}"
    assert added(text, *ASKED) == [f"-{line}", f"+{becomes}"]
    again = rewrite(text.replace(line, becomes), *ASKED)
    assert again.done
    assert again.text == text.replace(line, becomes)


@pytest.mark.parametrize(
    "lines",
    [
        ["x, w = self.attend(x, x, x)", "return x, w"],
        ["x, self.w = self.attend(x, x, x)", "return x"],
        ["return self.attend(x, x, x)"],
        ["return self.attend(x, x, x)[1]"],
        ["x, w = self.attend(x, x, x)", "return (lambda: x + w)()"],
    ],
)
def test_weights_that_somebody_may_look_at(lines):
    text = HEAD + "".join(f"        {line}\n" for line in lines)
    found = rewrite(text, *ASKED)
    assert found.text == text
    assert found.why == ("line 10 may look at the weights",)


def test_what_may_be_something_else_is_left():
    text = HEAD.replace("\n    def forward", "        self.attend = Own()\n\n    def forward")
    text += "        x, _ = self.attend(x, x, x)\n        return x\n"
    assert rewrite(text, *ASKED).text == text


def test_another_form_is_none_of_its_own():
    text = f"{HEAD}        x, _ = self.attend(x, x, x)\n        return x\n"
    assert rewrite(text, "model.attention", "flash_attention_2", "eager").text == text
