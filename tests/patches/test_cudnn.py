"""An assignment that is there is changed, and one that begins a search may be written."""

import pytest
from patching import added, rewrite

KNOB = "torch.cudnn_benchmark"


@pytest.mark.parametrize(
    ("head", "line", "new"),
    [
        (
            "import torch",
            "torch.backends.cudnn.benchmark = True",
            "torch.backends.cudnn.benchmark = False",
        ),
        (
            "import torch.backends.cudnn as cudnn",
            "cudnn.benchmark = True  # fast",
            "cudnn.benchmark = False  # fast",
        ),
        (
            "from torch.backends import cudnn",
            "cudnn.enabled = cudnn.benchmark = True",
            None,
        ),
        (
            "from torch.backends import cudnn",
            "cudnn.enabled, cudnn.benchmark = True, True",
            None,
        ),
    ],
)
def test_a_search_ends(head, line, new):
    text = f"{head}\n{line}\n"
    if new is None:
        found = rewrite(text, KNOB, False, True)
        assert found.text == text
        assert found.why == ("line 2 also sets something else",)
    else:
        assert added(text, KNOB, False, True) == [f"-{line}", f"+{new}"]


def test_nothing_ends_that_no_line_began():
    assert not rewrite("import torch\nx = 1\n", KNOB, False, True, insert=True).done


def test_what_an_option_says_is_told():
    text = "import torch\ntorch.backends.cudnn.benchmark = args.fast\n"
    found = rewrite(text, KNOB, True, False)
    assert found.text == text
    assert found.why == ("line 2 has benchmark=args.fast",)


def test_a_search_begins_behind_the_imports():
    text = "import torch as th\n\nx = 1\n"
    new = [each for each in added(text, KNOB, True, False, insert=True) if each != "+"]
    assert new == ["+th.backends.cudnn.benchmark = True"]
    assert rewrite(text, KNOB, True, False).text == text


def test_other_ways_to_set_it_are_left():
    text = "import torch\ntorch.backends.cudnn.set_flags(_benchmark=False)\n"
    found = rewrite(text, KNOB, True, False, insert=True)
    assert found.text == text
    assert found.why == ("line 2 also sets it",)
