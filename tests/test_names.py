"""Limits on the size and the names of the source: ``bench/codebase.py`` prints the figures."""

import pytest

import codebase

MOST_LINES = 115_500
"""66,000 for PyTorch on one machine; 4,000 for readers of other recordings, many ranks and decoding
in processes; 3,000 for the step by line and what is done to a sample; 2,000 for kinds of recording
and physics checks; 8,000 for TensorFlow, Keras and JAX; 9,000 for monitoring, attaching,
publishers, alerts and histories; 9,000 for the fleet and its pages; 12,000 for memory, batch,
search, ranks, the model and prepared data; 2,000 for more of the frameworks: a limit to think at.
Raise it with what the new lines bring."""
MOST_ONE_WORD_NAMES = 0.45


@pytest.fixture(scope="module")
def figures():
    return codebase.measure_codebase()


def test_the_source_stays_within_its_size(figures):
    assert figures.lines <= MOST_LINES


def test_most_functions_are_named_by_verb_and_object(figures):
    assert figures.one_word_share < MOST_ONE_WORD_NAMES


def test_no_function_is_named_by_a_participle_or_pronoun_alone(figures):
    assert figures.empty_functions == []


def test_no_module_is_named_by_a_participle_or_pronoun_alone(figures):
    assert figures.empty_modules == []


def test_no_modules_import_each_other_in_a_circle(figures):
    assert figures.circles == []


@pytest.mark.parametrize("name", ["told", "_kept", "each", "beside", "measured", "waiting"])
def test_empty_names_are_recognised(name):
    assert codebase.says_nothing_alone(name)


@pytest.mark.parametrize("name", ["read_trace", "_padding", "heading", "explain", "told_ranks"])
def test_other_names_are_allowed(name):
    assert not codebase.says_nothing_alone(name)


def test_circles_are_found(tmp_path):
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import b\n"
    )
    (package / "b.py").write_text("from pack.c import thing\n")
    (package / "c.py").write_text("import pack.a\n\ndef thing():\n    pass\n")
    (package / "d.py").write_text("from . import a\n")
    assert codebase.import_circles(package) == [["pack.a", "pack.b", "pack.c"]]
