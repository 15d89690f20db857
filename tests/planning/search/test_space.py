from __future__ import annotations

from pathlib import Path

import pytest

from whyidle.errors import UsageError
from whyidle.model.documents.search import Dimension
from whyidle.planning.search.command_template import check_template, fill_command
from whyidle.planning.search.space import grid_values, read_space


def test_ranges_and_choices():
    space = read_space(
        ["lr=log:1e-5..1e-1/3", "layers=2..8", "drop=0..0.5", "act=relu,gelu", "env:SEED=1,2"]
    )
    assert space[0] == Dimension(name="lr", low=1e-5, high=0.1, log=True, points=3)
    assert space[1] == Dimension(name="layers", low=2, high=8, whole=True)
    assert space[2] == Dimension(name="drop", low=0, high=0.5)
    assert space[3].choices == ["relu", "gelu"]
    assert space[4] == Dimension(name="SEED", choices=[1, 2], env=True)


@pytest.mark.parametrize(
    "text",
    ["space.toml", "lr=", "lr=1,,2", "lr=log:0..1", "lr=2..1", "lr=a..b", "1x=1,2", "lr=1,2;lr=3"],
)
def test_what_is_no_space_is_refused(text: str):
    with pytest.raises(UsageError):
        read_space(text.split(";"))


def test_grid():
    space = read_space(["lr=log:1e-4..1e-2/3", "n=1..4/3", "b=32,64"])
    assert [grid_values(d) for d in space] == [[1e-4, 1e-3, 1e-2], [1, 2, 4], [32, 64]]


def test_values_go_into_the_command(tmp_path: Path):
    space = read_space(["lr=1e-3,2e-3", "amp=true,false", "env:WIDTH=8,16"])
    words = ["python", "t.py", "--lr={lr}", "{amp}", '{"a": 1}', "{folder}/{trial}.pt"]
    check_template(words, space)
    made = fill_command(words, space, {"lr": 1e-3, "amp": True, "WIDTH": 8}, 7, tmp_path)
    assert made.words[2:] == ["--lr=0.001", "true", '{"a": 1}', f"{tmp_path}/7.pt"]
    assert made.variables == {"WIDTH": "8"}


def test_values_go_into_a_file(tmp_path: Path):
    space = read_space(["lr=1e-3,2e-3", "amp=true,false"])
    check_template(["t.py", "{config}"], space)
    made = fill_command(["t.py", "{config}"], space, {"lr": 2e-3, "amp": False}, 0, tmp_path)
    assert Path(made.words[1]).read_text() == '{"lr": 0.002, "amp": false}'


def test_command_and_space_name_the_same():
    space = read_space(["lr=1,2"])
    with pytest.raises(UsageError, match=r"has \{batch\}, and the space does not"):
        check_template(["t.py", "{lr}", "{batch}"], space)
    with pytest.raises(UsageError, match="has lr, but the command does not use it"):
        check_template(["t.py"], space)
