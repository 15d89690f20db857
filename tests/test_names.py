"""Limits on the size and the names of the source: ``bench/codebase.py`` prints the figures."""

import pytest

import codebase

MOST_LINES = 100_000
"""It goes down, never up: whoever needs room deletes first, and says in a decision record what."""
MOST_THRESHOLDS = 655
MOST_SMALL = 33
LARGEST_FOLDER = 35
"""these, too"""
MOST_ONE_WORD_NAMES = 0.45


@pytest.fixture(scope="module")
def figures():
    return codebase.measure_codebase()


def test_the_source_stays_within_its_size(figures):
    assert figures.lines <= MOST_LINES


def test_folders_modules_and_thresholds_stay_within_theirs(figures):
    assert figures.largest_folder <= LARGEST_FOLDER
    assert figures.small_modules <= MOST_SMALL
    assert figures.thresholds <= MOST_THRESHOLDS


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
