"""DataLoader's keywords, in the ways in which people write such calls."""

import pytest
from patching import added, rewrite

IMPORTS = {
    "from torch.utils.data import DataLoader\n": "DataLoader",
    "from torch.utils.data import Dataset, DataLoader as DL\n": "DL",
    "import torch\n": "torch.utils.data.DataLoader",
    "import torch.utils.data\n": "torch.utils.data.DataLoader",
    "import torch.utils.data as tud\n": "tud.DataLoader",
    "from torch.utils import data\n": "data.DataLoader",
    "def make():\n    pass\nfrom torch.utils.data.dataloader import DataLoader\n": "DataLoader",
}
PLAIN = "from torch.utils.data import DataLoader\n"


@pytest.mark.parametrize(("start", "name"), IMPORTS.items())
def test_the_call_is_found_through_its_import(start, name):
    text = f"{start}x = {name}(photos, batch_size=4)\n"
    assert added(text, "loader.workers", 4, 0) == [
        f"-x = {name}(photos, batch_size=4)", f"+x = {name}(photos, batch_size=4, num_workers=4)"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "start",
    ["from mine import DataLoader\n", "from torch.utils.data import *\n",
     "class DataLoader: pass\n", PLAIN + "from mine import DataLoader\n",
     "try:\n    from torch.utils.data import DataLoader\nexcept ImportError:\n"
     "    from mine import DataLoader\n"],
)  # fmt: skip
def test_what_may_be_another_class_is_left(start):
    found = rewrite(start + "x = DataLoader(data)\n", "loader.workers", 4, 0)
    assert not found.done


LAYOUTS = {
    "DataLoader(d)": "DataLoader(d, num_workers=4)",
    "DataLoader(\n    d\n)": "DataLoader(\n    d,\n    num_workers=4\n)",
    "DataLoader(\n    d,\n)": "DataLoader(\n    d,\n    num_workers=4,\n)",
    "DataLoader(d, batch_size=4,\n           shuffle=True)": (
        "DataLoader(d, batch_size=4,\n           shuffle=True,\n           num_workers=4)"
    ),
    "DataLoader(\n    d, batch_size=4,\n)": "DataLoader(\n    d, batch_size=4, num_workers=4,\n)",
    "DataLoader(\n    d,  # all\n    batch_size=4,  # four\n)": (
        "DataLoader(\n    d,  # all\n    batch_size=4,  # four\n    num_workers=4,\n)"
    ),
    "DataLoader(\n    d,\n    # why\n    batch_size=4  # four\n)": (
        "DataLoader(\n    d,\n    # why\n    batch_size=4,  # four\n    num_workers=4\n)"
    ),
    "DataLoader(\n    d,\n    # end\n)": "DataLoader(\n    d,\n    num_workers=4,\n    # end\n)",
    "DataLoader( d )": "DataLoader( d, num_workers=4 )",
    "DataLoader(d, 4, True, None, None, 0)": "DataLoader(d, 4, True, None, None, 4)",
    "DataLoader(d, num_workers = 0)": "DataLoader(d, num_workers = 4)",
    "DataLoader(num_workers=0, dataset=d)": "DataLoader(num_workers=4, dataset=d)",
    "[DataLoader(x) for x in y]": "[DataLoader(x, num_workers=4) for x in y]",
    "f(DataLoader(d), 1)": "f(DataLoader(d, num_workers=4), 1)",
    "DataLoader(DataLoader(d))": "DataLoader(DataLoader(d, num_workers=4), num_workers=4)",
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), LAYOUTS.items())
def test_a_keyword_is_written_as_its_neighbours_are(before, after):
    for indent, head in (("", ""), ("    ", "def main():\n"), ("\t", "if d:\n")):
        old, new = (f"{indent}x = " + each.replace("\n", f"\n{indent}") for each in (before, after))
        found = rewrite(f"{PLAIN}{head}{old}\n", "loader.workers", 4, 0)
        assert found.text == f"{PLAIN}{head}{new}\n"
        assert found.why == ()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("DataLoader(d, **unknown)", "takes arguments from elsewhere"),
        ("DataLoader(*parts)", "takes arguments from elsewhere"),
        ("DataLoader(d, num_workers=count())", "has num_workers=count()"),
        ("DataLoader(d, num_workers=config.workers)", "has num_workers=config.workers"),
        ("DataLoader(x for x in y)", "takes a bare generator"),
    ],
)
def test_what_is_not_plain_is_left_and_told(call, said):
    text = f"{PLAIN}\nloader = {call}\n"
    found = rewrite(text, "loader.workers", 4, 0)
    assert found.text == text
    assert not found.done
    assert len(found.why) == 1
    assert "line 3 " in found.why[0]
    assert said in found.why[0]


def test_a_constant_is_changed_where_it_stands():
    text = PLAIN + "".join(f"x = DataLoader({d}, num_workers=N)\n" for d in "de")
    text = text.replace("x =", "N = 0  # as many\nx =", 1)
    assert added(text, "loader.workers", 4, 0) == ["-N = 0  # as many", "+N = 4  # as many"]


def test_a_constant_with_another_use_keeps_its_value():
    text = f"{PLAIN}N = 0\nx = DataLoader(d, num_workers=N)\nprint(N)\n"
    assert "+x = DataLoader(d, num_workers=4)" in added(text, "loader.workers", 4, 0)


@pytest.mark.parametrize(
    "binding", ["def f(N=0): pass\nN = int(3)", "N = 0\nN = 1", "for N in y:\n    pass"]
)
def test_a_name_that_is_no_constant_is_left(binding):
    text = f"{PLAIN}{binding}\nx = DataLoader(d, num_workers=N)\n"
    assert rewrite(text, "loader.workers", 4, 0).text == text


OPTION = f"""import argparse
{PLAIN}parser = argparse.ArgumentParser()
parser.add_argument("-j", "--num-workers", type=int, default=0, help="x")
args = parser.parse_args()
loader = DataLoader(d, num_workers=args.num_workers)
"""


def test_the_default_of_an_option_is_changed():
    assert added(OPTION, "loader.workers", 4, 0)[1:] == [
        '+parser.add_argument("-j", "--num-workers", type=int, default=4, help="x")'
    ]


PARSED = "args = parser.parse_args()\n"
LOADER = "loader = DataLoader(d, num_workers=args.num_workers)\n"


@pytest.mark.parametrize(("passed", "found"), [
    ("def f(args):\n    LOADER\nargs = parser.parse_args()\nf(args)\n", True),
    ("class T:\n    def __init__(self, args):\n        self.args = args\n    def fit(self):\n"
     "        DataLoader(d, num_workers=self.args.num_workers)\n"
     "args = parser.parse_args()\n", True),
    ("def main(args):\n    LOADER\nmain(parser.parse_args())\n", False),
    ("args = parser.parse_args()\nargs = smaller(args)\nLOADER\n", False),
    ("def f(args):\n    LOADER\nf(yaml.load(file))\n", False),
])  # fmt: skip
def test_options_that_are_passed_on_keep_their_name(passed, found):
    text = OPTION.replace(PARSED + LOADER, passed.replace("LOADER", LOADER.strip()))
    assert ("default=4" in rewrite(text, "loader.workers", 4, 0).text) == found


@pytest.mark.parametrize("read", [
    "args, rest = parser.parse_known_args()\n",
    "args: argparse.Namespace = parser.parse_args()\n",
    "def options():\n    return parser.parse_args()\nargs = options()\n",
    "def options():\n    args = parser.parse_args()\n    return args\nargs = options()\n",
    "valid = DataLoader(e, num_workers=args.num_workers)\n" + PARSED,
])  # fmt: skip
def test_options_however_they_are_read(read):
    text = OPTION.replace(PARSED, read)
    assert 'default=4, help="x")' in rewrite(text, "loader.workers", 4, 0).text


@pytest.mark.parametrize("read", [
    PARSED + "loader = DataLoader(d, num_workers=cfg.data.num_workers)\n",
    PARSED + "def make(cfg):\n    return DataLoader(d, num_workers=cfg.num_workers)\n",
    "args = yaml.safe_load(file)\n",
    "args = args if full else smaller(parser.parse_args())\n",
    PARSED + "for args in every: pass\n",
    PARSED + "for i, args in enumerate(every): pass\n",
    PARSED + "def run(args): pass\ndef sweep():\n    for args in every:\n        run(args)\n",
    "args = other\nother = args\n",
])  # fmt: skip
def test_what_may_be_of_another_object_is_no_option(read):
    end = "loader = DataLoader(d, num_workers=args.num_workers)\n"
    text = OPTION.replace(PARSED, read)
    text = text.replace(end, "tokenize(args.num_workers)\n") if "cfg" in read else text
    found = rewrite(text, "loader.workers", 4, 0)
    assert found.text == text
    assert "num_workers=" in found.why[0]
    assert not found.done


@pytest.mark.parametrize(
    "use", ["tokenize(args.num_workers)", "self.args.num_workers", "x = args.num_workers > 0"]
)
def test_an_option_that_means_more_is_left_at_its_call(use):
    text = OPTION + use + "\n"
    assert added(text, "loader.workers", 4, 0) == [
        "-loader = DataLoader(d, num_workers=args.num_workers)",
        "+loader = DataLoader(d, num_workers=4)",
    ]


@pytest.mark.parametrize("word", ["--num-workers", "--num-workers=0", "--num-w", "-j", "-j2"])
def test_an_option_that_the_command_gives_is_told(word):
    found = rewrite(OPTION, "loader.workers", 4, 0, options=("--lr", "1", word, "0"))
    assert found.text == OPTION
    assert not found.done
    assert f"from the command line: change `{word}` there" in found.why[0]


def test_an_option_without_a_default_is_left():
    text = OPTION.replace(" default=0,", "")
    assert "has num_workers=args.num_workers" in rewrite(text, "loader.workers", 4, 0).why[0]


def test_an_option_that_the_file_sets_again_is_left():
    text = OPTION.replace("loader =", "args.num_workers += 1\nloader =")
    assert rewrite(text, "loader.workers", 4, 0).text == text


TWO = f"""{PLAIN}
train = DataLoader(d, shuffle=True)
test = DataLoader(e, num_workers=2)
for x in tqdm(train):
    step(x)
"""


def test_of_several_loaders_those_with_the_old_value_are_meant():
    assert added(TWO, "loader.workers", 4, 2)[1] == "+test = DataLoader(e, num_workers=4)"
    (added_line,) = added(TWO, "loader.workers", 4, 0)[1:]
    assert added_line == "+train = DataLoader(d, shuffle=True, num_workers=4)"


@pytest.mark.parametrize("line", [3, 5])
def test_where_none_has_the_old_value_the_one_at_the_findings_line_is_meant(line):
    assert added(TWO, "loader.workers", 4, 3) == []
    assert added(TWO, "loader.workers", 4, 3, lines=(line,)) == [
        "-train = DataLoader(d, shuffle=True)",
        "+train = DataLoader(d, shuffle=True, num_workers=4)",
    ]


def test_what_comes_with_workers_goes_where_they_went():
    text = TWO.replace("shuffle=True", "num_workers=4")
    beside = {"loader.workers": 4}
    assert added(text, "loader.persistent_workers", True, beside=beside)[1:] == [
        "+train = DataLoader(d, num_workers=4, persistent_workers=True)"
    ]
    assert added(text, "loader.persistent_workers", True)[-1] == (
        "+test = DataLoader(e, num_workers=2, persistent_workers=True)"
    )


@pytest.mark.parametrize(
    ("knob", "value", "name", "guarded"),
    [("loader.persistent_workers", True, "persistent_workers", "n() > 0"),
     ("loader.prefetch_factor", 8, "prefetch_factor", "8 if n() else None")],
)  # fmt: skip
def test_what_needs_workers_is_never_given_without(knob, value, name, guarded):
    text = f"{PLAIN}DataLoader(d)\nDataLoader(e, num_workers=0)\n"
    found = rewrite(text, knob, value)
    assert found.text == text
    assert "without workers" in found.why[0]
    assert f"num_workers=2, {name}={value})" in rewrite(text.replace("=0", "=2"), knob, value).text
    by_option = OPTION + "DataLoader(e)\n"
    assert "num_workers=args.num_workers, " + name in rewrite(by_option, knob, value).text
    assert guarded.replace("n()", "args.num_workers") in rewrite(by_option, knob, value).text


def test_workers_then_persistence_then_pinning():
    text = f"{PLAIN}x = DataLoader(d)\n"
    for knob, value in (("workers", 4), ("persistent_workers", True), ("pin_memory", True)):
        text = rewrite(text, f"loader.{knob}", value).text
    assert text.endswith("DataLoader(d, num_workers=4, persistent_workers=True, pin_memory=True)\n")
