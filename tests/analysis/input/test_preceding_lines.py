"""Lines that may have run before a line at which Python had ended."""

from textwrap import dedent

import pytest

from whyidle.analysis.input.sample_work import find_preceding_lines

TEXT = dedent("""
    def tokenize(text):
        words = text.split()
        return [VOCAB[word] for word in words]

    class Reviews(Dataset):
        def __getitem__(self, i):
            record = copy.deepcopy(RECORDS[i])
            limit = 900
            ids = tokenize(TEXTS[i])
            if len(ids) > limit:
                ids = ids[:limit]
            return torch.tensor(ids)
""").strip()


def test_calls_of_functions_with_loops_come_first():
    assert find_preceding_lines(TEXT, 12) == [9, 3, 12, 7]


def test_only_what_is_before_counts():
    assert find_preceding_lines(TEXT, 8) == [7]


def test_at_a_definition_the_call_before_has_run_all():
    assert find_preceding_lines(TEXT, 6) == [9, 3, 12, 7]


def test_a_loop_of_its_own_is_one():
    text = "def f(rows):\n    for row in rows:\n        total += row\n    return make(total)"
    assert find_preceding_lines(text, 4) == [2, 4]


@pytest.mark.parametrize("text", ["", "x = 1\nprint(x)", "def f(:"])
def test_without_a_function_there_are_none(text):
    assert find_preceding_lines(text, 2) == []
