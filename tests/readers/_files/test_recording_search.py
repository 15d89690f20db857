from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from written import document, steps, write

from whyidle.errors import InputError, NotATraceError
from whyidle.readers._files.recording_search import find_recordings

TRACE = document(steps(2))


def test_a_file_is_taken_at_its_word(tmp_path):
    path = write(tmp_path / "whatever.bin", b"x")
    assert find_recordings(path) == [(path, None)]


def test_several_paths_in_the_given_order_and_once(tmp_path):
    a, b = write(tmp_path / "a.json", TRACE), write(tmp_path / "b.json", TRACE)
    assert find_recordings(b, a, b) == [(b, None), (a, None)]


def test_a_folder_in_the_order_of_ranks(tmp_path):
    for rank in (10, 2, 0):
        write(tmp_path / f"rank{rank}.json.gz", TRACE)
    write(tmp_path / "notes.txt", b"x")
    write(tmp_path / "config.json", b'{"model_type": "x"}')
    found = find_recordings(tmp_path)
    assert [path.name for path, _ in found] == ["rank0.json.gz", "rank2.json.gz", "rank10.json.gz"]


def test_folders_of_ranks_and_numbers_in_natural_order(tmp_path):
    for name in ("n_10", "n_9", ".hidden"):
        (tmp_path / "run" / name).mkdir(parents=True)
        write(tmp_path / "run" / name / "t.json", TRACE)
    assert [path.parent.name for path, _ in find_recordings(tmp_path)] == ["n_9", "n_10"]


def test_packed_and_unpacked_twins_count_once(tmp_path):
    write(tmp_path / "t.json", TRACE)
    write(tmp_path / "t.json.gz", TRACE)
    assert find_recordings(tmp_path) == [(tmp_path / "t.json", None)]


def test_a_zip_of_ranks(tmp_path):
    plain = write(tmp_path / "t.json", TRACE)
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for name in (
            "run/rank_1.json",
            "run/rank_0.json",
            "__MACOSX/run/rank_0.json",
            "readme.json",
        ):
            archive.write(plain, name) if "rank" in name else archive.writestr(name, "{}")
    expected = [
        (tmp_path / "all.zip", "run/rank_0.json"),
        (tmp_path / "all.zip", "run/rank_1.json"),
    ]
    assert find_recordings(tmp_path / "all.zip") == expected


def test_a_zip_inside_a_folder(tmp_path):
    plain = write(tmp_path / "x.bin", TRACE)
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.write(plain, "rank_0.json")
    assert find_recordings(tmp_path) == [(tmp_path / "all.zip", "rank_0.json")]


def test_a_checkpoint_is_called_one(tmp_path):
    with zipfile.ZipFile(tmp_path / "m.pt", "w") as archive:
        archive.writestr("archive/data.pkl", b"x")
    with pytest.raises(NotATraceError, match="PyTorch checkpoint"):
        find_recordings(tmp_path / "m.pt")


def test_a_folder_without_a_trace_says_what_it_holds(tmp_path):
    for i in range(7):
        write(tmp_path / f"log{i}.txt", b"x")
    with pytest.raises(NotATraceError, match=r"log0\.txt, .* and 2 more files"):
        find_recordings(tmp_path)


def test_a_folder_that_is_named_by_a_dot_is_told_by_its_name(tmp_path, monkeypatch):
    for i in range(6):
        write(tmp_path / f"log{i}.txt", b"x")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotATraceError) as refused:
        find_recordings(Path())
    assert refused.value.what.endswith(str(tmp_path.resolve()))
    assert refused.value.why.endswith(" and 1 more file.")


def test_an_empty_folder(tmp_path):
    with pytest.raises(NotATraceError, match="no files"):
        find_recordings(tmp_path)


def test_a_missing_path(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        find_recordings(tmp_path / "none")


def test_a_damaged_zip(tmp_path):
    plain = write(tmp_path / "t.json", TRACE)
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.write(plain, "rank_0.json")
    data = bytearray((tmp_path / "all.zip").read_bytes())
    data[:4] = b"xxxx"
    write(tmp_path / "bad.zip", bytes(data))
    with pytest.raises(InputError):
        find_recordings(tmp_path / "bad.zip")
