"""From paths to diagnoses."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from imagined_jobs import exposed_collectives
from whyidle import catalog
from whyidle.errors import InputError, StoreError
from whyidle.recordings.explain import document_at, explain_paths
from whyidle.store.run_store import Store
from whyidle.testing.demo import job


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return job().save(tmp_path / "trace.json.gz")


def test_a_trace_and_its_diagnosis_say_the_same(trace: Path, tmp_path: Path):
    made = explain_paths([trace])
    assert len(made.timelines) == 1
    path = tmp_path / "diagnosis.json"
    path.write_text(catalog.plugin_module("exporters", "json").render(made.diagnosis))
    again = explain_paths([path])
    assert again.diagnosis == made.diagnosis
    assert again.timelines == ()


def test_the_folder_of_a_stored_run(trace: Path, tmp_path: Path):
    diagnosis = explain_paths([trace]).diagnosis
    entry = Store(tmp_path / "store").add_run(diagnosis)
    assert explain_paths([entry.path]).diagnosis == diagnosis


def test_a_folder_of_ranks(tmp_path: Path):
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank in range(2):
        exposed_collectives().save(folder / f"rank{rank}.json")
    assert len(explain_paths([folder]).timelines) == 2


def test_progress_reaches_the_end(trace: Path):
    seen: list[tuple[int, int]] = []
    explain_paths([trace], progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] == trace.stat().st_size


def test_what_is_no_diagnosis(tmp_path: Path):
    for name, text in (("a.json", '{"traceEvents": []}'), ("b.json", ""), ("c.json", "[1]")):
        (tmp_path / name).write_text(text)
        assert document_at(tmp_path / name) is None
    assert document_at(tmp_path) is None
    assert document_at(tmp_path / "missing") is None
    newer = tmp_path / "newer.json"
    newer.write_text('{"schema": "whyidle/diagnosis/2"}')
    with pytest.raises(StoreError, match="not a diagnosis"):
        explain_paths([newer])


def test_missing_and_empty(tmp_path: Path):
    with pytest.raises(InputError, match="does not exist"):
        explain_paths([tmp_path / "missing"])
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match="no files"):
        explain_paths([empty])
    shutil.rmtree(empty)
