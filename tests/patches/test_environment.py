"""Variables that the program itself sets."""

import pytest
from patching import added, rewrite

KNOB = "env.CUDA_LAUNCH_BLOCKING"


@pytest.mark.parametrize(
    ("start", "line"),
    [
        ("import os", 'os.environ["CUDA_LAUNCH_BLOCKING"] = "1"'),
        ("import os", "os.environ['CUDA_LAUNCH_BLOCKING'] = '1'  # for now"),
        ("from os import environ as e", 'e["CUDA_LAUNCH_BLOCKING"] = "1"'),
        ("import os", 'os.environ.setdefault("CUDA_LAUNCH_BLOCKING", "1")'),
    ],
)
def test_what_the_program_sets_is_changed_there(start, line):
    new = line.replace('"1"', '"0"').replace("'1'", "'0'")
    assert added(f"{start}\n{line}\n", KNOB, "0", "1") == [f"-{line}", f"+{new}"]


@pytest.mark.parametrize(
    "line",
    ['os.environ["OTHER"] = "1"', 'x["CUDA_LAUNCH_BLOCKING"] = "1"',
     'print(os.environ["CUDA_LAUNCH_BLOCKING"])', "# CUDA_LAUNCH_BLOCKING"],
)  # fmt: skip
def test_everything_else_is_the_commands(line):
    found = rewrite(f"import os\n{line}\n", KNOB, "0", "1")
    assert not found.done
    assert not found.why


@pytest.mark.parametrize(
    ("own", "new"),
    [
        ("max_split_size_mb:128", "max_split_size_mb:128,expandable_segments:True"),
        ("expandable_segments:True,a:1", None),
        ("", "expandable_segments:True"),
    ],
)
def test_what_a_variable_of_several_settings_holds_stays(own, new):
    line = 'os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "{}"'
    text = f"import os\n{line.format(own)}\n"
    found = rewrite(text, "env.PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", None)
    assert found.done
    assert found.text == (text if new is None else f"import os\n{line.format(new)}\n")


def test_what_is_computed_is_left():
    found = rewrite('import os\nos.environ["CUDA_LAUNCH_BLOCKING"] = str(x)\n', KNOB, "0", "1")
    assert len(found.why) == 1
