"""``batch_size`` of loaders that shuffle, and of no others."""

import pytest
from patching import rewrite

START = "from torch.utils.data import DataLoader\n"
KNOB = "loader.batch_size_times"
WRITTEN = {
    "DataLoader(d, batch_size=16, shuffle=True)": "DataLoader(d, batch_size=16 * 4, shuffle=True)",
    "DataLoader(d, 16, True)": "DataLoader(d, 16 * 4, True)",
    "DataLoader(d, shuffle=True)": "DataLoader(d, shuffle=True, batch_size=1 * 4)",
    "DataLoader(d, args.batch, True)": "DataLoader(d, args.batch * 4, True)",
    "DataLoader(d, a + b, True)": "DataLoader(d, (a + b) * 4, True)",
    "DataLoader(d, (a + b), True)": "DataLoader(d, (a + b) * 4, True)",
    "DataLoader(d, **{'batch_size': 8, 'shuffle': True})": (
        "DataLoader(d, **{'batch_size': 8 * 4, 'shuffle': True})"
    ),
}


@pytest.mark.parametrize(("before", "after"), WRITTEN.items())
def test_the_factor_stays_to_be_seen(before, after):
    found = rewrite(f"{START}x = {before}\n", KNOB, 4, 1)
    assert found.text == f"{START}x = {after}\n"
    assert found.done
    assert found.why == ()


def test_a_broken_factor_gives_a_whole_number_as_at_run_time():
    found = rewrite(f"{START}x = DataLoader(d, 5, True)\n", KNOB, 1.5, 1)
    assert "DataLoader(d, round(5 * 1.5), True)" in found.text


@pytest.mark.parametrize("call", ["DataLoader(d, 16)", "DataLoader(d, 16, shuffle=False)"])
def test_what_does_not_shuffle_is_an_evaluation_and_stays(call):
    found = rewrite(f"{START}x = {call}\n", KNOB, 4, 1)
    assert found.text == f"{START}x = {call}\n"
    assert not found.done
    assert found.why == ()


@pytest.mark.parametrize(
    "call",
    ["DataLoader(d, 16, shuffle=train)", "DataLoader(d, 16, sampler=drawn)",
     "DataLoader(d, batch_sampler=mine)", "DataLoader(d, 16, **more)",
     "DataLoader(d, 16, shuffle=sampler is None, sampler=sampler)"],
)  # fmt: skip
def test_what_may_shuffle_or_not_is_left_to_a_person(call):
    found = rewrite(f"{START}x = {call}\n", KNOB, 4, 1)
    assert not found.done
    assert found.why == ("line 2 makes a DataLoader that may or may not shuffle",)


def test_a_constant_that_two_loaders_share_changes_for_one_alone():
    text = f"{START}B = 8\ntrain = DataLoader(d, B, shuffle=True)\ntest = DataLoader(t, B)\n"
    new = rewrite(text, KNOB, 2, 1).text
    assert new == text.replace("DataLoader(d, B,", "DataLoader(d, B * 2,")
