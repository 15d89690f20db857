"""The token of a state folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from whyidle.cluster.server.access import TOKEN_FILE, read_token
from whyidle.errors import OutputError


def test_a_token_is_kept_until_a_new_one_is_wanted(tmp_path: Path):
    state = tmp_path / "serve"
    first = read_token(state)
    assert len(first) > 40
    assert (state / TOKEN_FILE).stat().st_mode & 0o777 == 0o600
    assert state.stat().st_mode & 0o777 == 0o700
    assert read_token(state) == first
    assert read_token(state, is_new=True) != first
    assert (state / TOKEN_FILE).stat().st_mode & 0o777 == 0o600


def test_an_empty_file_is_no_token(tmp_path: Path):
    (tmp_path / TOKEN_FILE).write_text("\n")
    assert len(read_token(tmp_path)) > 40


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path):
    (tmp_path / "serve").write_text("")
    with pytest.raises(OutputError, match="--state"):
        read_token(tmp_path / "serve")
