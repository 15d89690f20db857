"""The forms of prepared data."""

import tarfile
from pathlib import Path

import pytest
from form_contract import SAMPLES, check_form

from whyidle.cli.prepare import FORMS
from whyidle.probe import preparation
from whyidle.probe.preparation.forms import load_form


@pytest.mark.parametrize("kind", SAMPLES)
@pytest.mark.parametrize("form", FORMS)
def test_samples_come_back_byte_for_byte(form, kind, tmp_path):
    check_form(form, SAMPLES[kind], tmp_path)


@pytest.mark.parametrize("form", FORMS)
def test_tensors_come_back_byte_for_byte(form, tmp_path):
    torch = pytest.importorskip("torch")
    tensors = (torch.randn(2, 3).t(), torch.randn(3).bfloat16(), torch.tensor([True]))
    check_form(form, [tensors, tensors], tmp_path)


def test_the_files_of_forms_are_the_choices():
    folder = preparation.__path__[0]
    found = Path(folder, "forms").glob("[a-z]*.py")
    assert sorted(path.stem for path in found) == sorted(FORMS)


def test_tar_files_are_named_as_webdataset_expects(tmp_path):
    load_form("tar").write_samples(str(tmp_path / "00002.tar"), SAMPLES["tuples"])
    with tarfile.open(tmp_path / "00002.tar") as tar:
        names = [name for name in tar.getnames() if "layout" not in name]
    assert names[:3] == ["00002-000000.0.npy", "00002-000000.1.npy", "00002-000001.0.npy"]
