"""Loops over data are counted per line; those over a few written-out values are none."""

import pytest

from whyidle.analysis.lines.source_loops import count_loops, find_decisive_lines

SOURCE = """\
def scale(rows):
    for width in (3, 5):
        use(width)
    while True:
        for row in rows:
            out = [v / 2 for v in row]
            def inner():
                return 1
        break
    while rows:
        rows = rows[1:]
    return [pixel for row in rows for pixel in row]
"""


@pytest.mark.parametrize(
    ("line", "loops"),
    [(1, 0), (3, 0), (5, 0), (6, 2), (8, 0), (9, 0), (10, 1), (11, 1), (12, 2)],
)
def test_loops_around_a_line(line, loops):
    assert count_loops(SOURCE)[line] == loops


def test_functions_that_are_applied_in_turn_are_no_loop_over_data():
    applied = "for t in self.transforms:\n    image = t(image)\nfor row in rows:\n    use(row)\n"
    assert [count_loops(applied)[line] for line in (2, 4)] == [0, 1]


def test_what_is_no_python_has_none():
    assert not count_loops("def broken(:")


def test_a_statement_of_several_lines_is_decided_by_its_loops():
    source = "x = tensor(\n    [[f(a) for f in fs]\n     for a in rows]\n)\ny = (1 +\n 2)\n"
    assert find_decisive_lines(source, count_loops(source)) == {1: 2}
