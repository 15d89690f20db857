"""Scripts that read otherwise than they look: what a form must leave, and must get right."""

import pytest
from patching import added, rewrite

from whyidle.fix.patching.source_patch import KeptFix, make_patch
from whyidle.model.diagnosis import Edit

TORCH = "import torch\n"
LOADER = "from torch.utils.data import DataLoader\n"


def untouched(text, knob, value, was=None):
    found = rewrite(text, knob, value, was)
    assert found.text == text
    assert not found.done
    return found.why


def test_workers_that_depend_on_the_run_are_asked_for_as_a_whole():
    text = f"{LOADER}d = DataLoader(ds, num_workers=4 if cuda else 0)\n"
    lines = added(text, "loader.prefetch_factor", 4)
    assert "prefetch_factor=4 if (4 if cuda else 0) else None" in lines[-1]
    lines = added(text, "loader.persistent_workers", True)
    assert "persistent_workers=(4 if cuda else 0) > 0" in lines[-1]


def test_what_the_parser_refuses_is_told(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text(f"{LOADER}d = DataLoader(ds, num_workers=w)\n")
    module = __import__("whyidle.patches.loader", fromlist=["_guard_value"])
    monkeypatch.setattr(module, "_guard_value", lambda *_: "4 if 4 if x else 0 else None")
    kept = [KeptFix("fix", [Edit(knob="loader.prefetch_factor", value=4)])]
    patch = make_patch(kept, ["python", "train.py"], tmp_path)
    assert patch.diff == ""
    assert "cannot be edited automatically" in patch.sentences[0]


@pytest.mark.parametrize(
    "lines",
    [
        "opts = [torch.optim.SGD(m.parameters()) for m in nets]\n",
        "make = {'adam': lambda m: torch.optim.Adam(m.parameters())}\n",
        "model = Net(); opt = torch.optim.Adam(model.parameters())\n",
        "if a:\n    model, crit = Net(), L()\n    opt = torch.optim.SGD(model.parameters())\n"
        "else:\n    model, crit = Wide(), L()\n    opt = torch.optim.Adam(model.parameters())\n",
    ],
)
def test_a_model_that_is_bound_by_the_same_lines_is_left(lines):
    assert untouched(TORCH + lines, "model.compile", True)


def test_what_concerns_something_else_is_not_taken_for_the_model_s():
    line = "crit = torch.compile(torch.nn.CrossEntropyLoss())"
    text = f"{TORCH}model = Net()\n{line}\nopt = torch.optim.SGD(model.parameters())\n"
    found = rewrite(text, "model.compile", True)
    assert found.why
    assert found.text == text


@pytest.mark.parametrize(
    "text",
    [
        f"{TORCH}if __name__ == '__main__':\n    from u import setup\n    run()\n",
        f"{TORCH}import sys\ntrainer.train()\nimport json\n",
    ],
)
def test_a_switch_is_set_before_anything_runs(text):
    new = rewrite(text, "matmul.precision", "high", insert=True).text
    assert new.index("set_float32_matmul_precision") < len(TORCH) + 40
    assert new.startswith(f"{TORCH}")


@pytest.mark.parametrize("inner", ["out, _ = rnn(x)", "for _ in range(2): pass", "del _"])
def test_a_counter_that_is_bound_anew_counts_nothing(inner):
    text = (
        "import gc\nfor _, (x, y) in enumerate(loader):\n"
        f"    {inner}\n    loss.backward()\n    gc.collect()\n"
    )
    assert untouched(text, "gc.collect_interval_steps", 10)


def test_no_argument_is_given_twice():
    text = f'{LOADER}L = {{"train": lambda d, **kw: DataLoader(d, **kw)}}\n'
    assert rewrite(text, "loader.workers", 4).text == text


@pytest.mark.parametrize(
    "change",
    [
        "p.set_defaults(workers=0)",
        "vars(args).update(config)",
        "vars(args)['workers'] = 0",
        "setattr(args, key, 0)",
    ],
)
def test_a_default_that_may_decide_nothing_is_left(change):
    text = (
        f"import argparse\n{LOADER}p = argparse.ArgumentParser()\n"
        f"p.add_argument('--workers', type=int, default=0)\nargs = p.parse_args()\n{change}\n"
        "d = DataLoader(ds, num_workers=args.workers)\n"
    )
    assert untouched(text, "loader.workers", 4)
    plain = text.replace(f"{change}\n", "")
    assert "default=4" in rewrite(plain, "loader.workers", 4).text


def test_options_that_the_script_gives_itself_are_not_those_of_the_command():
    text = (
        f"import argparse\n{LOADER}p = argparse.ArgumentParser()\n"
        "p.add_argument('--workers', type=int, default=0)\n"
        "args = p.parse_args(['--workers', '0'])\nd = DataLoader(ds, num_workers=args.workers)\n"
    )
    assert untouched(text, "loader.workers", 4)


def test_what_a_variable_has_by_default_is_kept_beside():
    name = "PYTORCH_CUDA_ALLOC_CONF"
    text = f'import os\nos.environ.setdefault("{name}", "max_split_size_mb:512")\n'
    new = rewrite(text, f"env.{name}", "expandable_segments:True").text
    assert "max_split_size_mb:512" in new
    assert "expandable_segments:True" in new


def test_comments_stay_with_what_they_speak_of():
    text = f"{TORCH}model = Net()\n\n# A\n\n# B\nopt = torch.optim.SGD(model.parameters())\n"
    new = rewrite(text, "model.compile", True).text
    assert "\n# A\n\n# B\nopt = " in new


def test_a_constant_of_two_functions_keeps_its_value():
    text = (
        f"{LOADER}from mine import Buffer\nPIN = False\nd = DataLoader(ds, pin_memory=PIN)\n"
        "b = Buffer(pin_memory=PIN)\n"
    )
    new = rewrite(text, "loader.pin_memory", True).text
    assert "PIN = False" in new
    assert "DataLoader(ds, pin_memory=True)" in new


def test_a_branch_that_asks_for_the_same_results_is_not_searched():
    text = (
        f"{TORCH}if seed:\n    torch.backends.cudnn.deterministic = True\n"
        "    torch.backends.cudnn.benchmark = False\nelse:\n"
        "    torch.backends.cudnn.benchmark = False\n"
    )
    lines = rewrite(text, "torch.cudnn_benchmark", True).text.splitlines()
    assert [line.split()[-1] for line in lines if "benchmark" in line] == ["False", "True"]
