"""What a search keeps in Optuna's storage, and what of it runs again."""

from __future__ import annotations

from pathlib import Path

import pytest

from whyidle.errors import InputError, UsageError
from whyidle.model.documents.search import Dimension, SearchSetup
from whyidle.planning.search.search_document import make_search
from whyidle.planning.search.study import (
    DRIVER,
    SearchFile,
    check_setup,
    driver_mark,
    open_study,
    read_search_file,
    read_trials,
    requeue_lost,
    suggest_values,
)

# the storage's heartbeat is for ``Study.optimize``, by which searches run; here it is ``ask``
pytestmark = pytest.mark.filterwarnings("ignore:Heartbeat of storage")

SETUP = SearchSetup(
    command=["train", "{lr}"],
    dimensions=[Dimension(name="lr", low=1e-5, high=0.1, log=True)],
    metric="loss: {}",
    direction="minimize",
)


@pytest.fixture
def search(tmp_path: Path) -> SearchFile:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    return SearchFile(setup=SETUP, storage=url, study="s", trials=4)


def test_only_trials_whose_process_has_ended_run_again(search: SearchFile):
    study = open_study(search)
    alive, dead = study.ask(), study.ask()
    values = [suggest_values(trial, SETUP) for trial in (alive, dead)]
    host, pid, created = driver_mark()
    alive.set_user_attr(DRIVER, [host, pid, created])
    dead.set_user_attr(DRIVER, [host, pid, created - 60.0])
    assert requeue_lost(study) == [1]
    assert requeue_lost(study) == []
    assert [trial.ending for trial in read_trials(study)] == ["running", "lost"]
    again = open_study(search).ask()
    assert suggest_values(again, SETUP) == values[1]
    assert read_trials(study)[2].retry_of == 1


def test_a_resumed_search_proposes_other_values(search: SearchFile):
    first = suggest_values(open_study(search).ask(), SETUP)
    assert suggest_values(open_study(search).ask(), SETUP) != first


def test_the_file_of_a_search(search: SearchFile, tmp_path: Path):
    with pytest.raises(UsageError, match="no search in"):
        read_search_file(tmp_path)
    search.write(tmp_path)
    assert read_search_file(tmp_path) == search
    check_setup(tmp_path, SETUP, read_search_file(tmp_path).setup)
    other = SearchSetup(command=["x"], dimensions=[], metric="m", direction="minimize")
    with pytest.raises(UsageError, match="not the same command"):
        check_setup(tmp_path, SETUP, other)
    (tmp_path / "search.json").write_text("{")
    with pytest.raises(InputError, match="Cannot read"):
        read_search_file(tmp_path)


def test_a_storage_that_cannot_be_opened(search: SearchFile):
    search.storage = "no-such-database://host/x"
    with pytest.raises(InputError, match="Cannot open no-such-database"):
        open_study(search)


def test_a_search_without_trials_has_a_document(search: SearchFile, tmp_path: Path):
    document = make_search(tmp_path, search, open_study(search))
    assert (document.best, document.trials, document.notes) == (None, [], [])
