"""Files of alerts: rules, routes and settings, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from whyidle.errors import InputError
from whyidle.machine.alerts.rule_file import AlertSettings, load_shipped, read_settings
from whyidle.model.live.alert import Rule

OWN = """
use = ["idle-held", "hot"]
most_per_hour = 5

[[rule]]
id = "hot"
summary = "over 80 degrees"
of = "gpu"
signal = "whyidle_gpu_temperature_celsius"
above = 80
window_s = 300

[[rule]]
id = "idle-held"
summary = "held for an hour"
of = "gpu"
signal = "whyidle_gpu_state"
labels = { state = "idle-held" }
above = 0.5
window_s = 3600

[[route]]
kind = "command"
argv = ["true"]
"""


def test_own_rules_join_and_replace_the_shipped_ones(tmp_path: Path):
    path = tmp_path / "alerts.toml"
    path.write_text(OWN)
    settings = read_settings(path)
    assert [(rule.id, rule.window_s) for rule in settings.active_rules()] == [
        ("idle-held", 3600.0),
        ("hot", 300.0),
    ]
    assert settings.route[0]["kind"] == "command"


def test_the_shipped_rules_are_those_of_the_page():
    page = Path(__file__).parents[3] / "docs" / "how-to" / "alerts.md"
    text = page.read_text(encoding="utf-8")
    for rule in load_shipped():
        assert f"| `{rule.id}` |" in text


def test_every_key_is_on_the_page_of_the_file():
    page = (Path(__file__).parents[3] / "docs/reference/configuration.md").read_text("utf-8")
    tables = (AlertSettings, Rule)
    assert all(f"`{key}`" in page for table in tables for key in table.__struct_encode_fields__)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('a = "x"\nb =\n', "at line 2"),
        ('[[rule]]\nid = "a"\nid_ = 1\n', "`id_` - at `rule[0]`"),
        ("colour = 1", "colour"),
        ('use = ["bored"]', "There is no rule 'bored'; rules: "),
        ("interval_s = 0", "interval_s"),
        ('[[rule]]\nid="a"\nsummary="s"\nof="gpu"\nsignal="x"\nwindow_s=60', "one of"),
        (
            '[[rule]]\nid="a"\nsummary="s"\nof="gpu"\nsignal="x) or (y"\nabove=1\nwindow_s=60',
            "metric",
        ),
        ('[[rule]]\nid="a"\nsummary="s"\nof="pod"\nsignal="x"\nabove=1\nwindow_s=60', "pod"),
        ('[[rule]]\nid="a"\nsummary="s"\nof="gpu"\nsignal="x"\nabove=1\nwindow_s=0', "window_s"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, text: str, problem: str):
    path = tmp_path / "alerts.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"alerts\.toml.* ") as caught:
        read_settings(path)
    assert problem in str(caught.value)


def test_a_missing_file(tmp_path: Path):
    with pytest.raises(InputError, match="Cannot read"):
        read_settings(tmp_path / "none.toml")
