"""This machine as an executor."""

import pytest

from whyidle.errors import UsageError
from whyidle.fix.executor import TrialTerms, start_executor


def test_it_hands_out_no_resources(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="cluster"):
        start_executor("local", TrialTerms(["python"], resources={"gpu": 1}))


def test_what_is_no_engine_is_told_with_those_that_are(tmp_path):
    with pytest.raises(UsageError, match="local"):
        start_executor("cloud", TrialTerms(["python"]))
