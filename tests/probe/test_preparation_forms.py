"""The forms of prepared data. TFRecord is tested in ``with_tensorflow``."""

import re
import sys
import tarfile
from pathlib import Path

import pytest
from form_contract import SAMPLES, check_form

from whyidle.cli.prepare import FORMS
from whyidle.probe import preparation
from whyidle.probe.knobs._sample_codec import UnknownError
from whyidle.probe.preparation.forms import load_form

TESTED = ["map", "tar", *(pytest.param(f, marks=pytest.mark.services) for f in ("arrow", "hdf5"))]


def need_package(form: str) -> None:
    package = {"arrow": "pyarrow", "hdf5": "h5py"}.get(form)
    if package:
        pytest.importorskip(package)


@pytest.mark.parametrize("kind", SAMPLES)
@pytest.mark.parametrize("form", TESTED)
def test_samples_come_back_byte_for_byte(form, kind, tmp_path):
    need_package(form)
    check_form(form, SAMPLES[kind], tmp_path)


@pytest.mark.parametrize("form", TESTED)
def test_tensors_come_back_byte_for_byte(form, tmp_path):
    torch = pytest.importorskip("torch")
    need_package(form)
    tensors = (torch.randn(2, 3).t(), torch.randn(3).bfloat16(), torch.tensor([True]))
    check_form(form, [tensors, tensors], tmp_path)


def test_the_files_of_forms_are_the_choices():
    folder = preparation.__path__[0]
    found = Path(folder, "forms").glob("[a-z]*.py")
    assert sorted(path.stem for path in found) == sorted(FORMS)


def test_a_missing_package_is_an_import_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match="h5py"):
        load_form("hdf5")


@pytest.mark.services
def test_columns_hold_parts_of_one_type(tmp_path):
    pytest.importorskip("pyarrow")
    with pytest.raises(UnknownError, match=re.escape("parts 'a' of different types")):
        load_form("arrow").write_samples(str(tmp_path / "x"), [{"a": 1}, {"a": "b"}])


@pytest.mark.services
def test_other_libraries_read_the_files(tmp_path):
    pa, h5py = pytest.importorskip("pyarrow"), pytest.importorskip("h5py")
    load_form("arrow").write_samples(str(tmp_path / "x.arrow"), SAMPLES["mixed"])
    table = pa.ipc.open_stream(pa.memory_map(str(tmp_path / "x.arrow"))).read_all()
    assert table["label"].to_pylist() == list(range(7))
    assert table["image"][3].as_py() == SAMPLES["mixed"][3]["image"].ravel().tolist()
    assert table.schema.field("image").metadata == {b"shape": b"3,4,5"}
    load_form("hdf5").write_samples(str(tmp_path / "x.h5"), SAMPLES["mixed"])
    with h5py.File(tmp_path / "x.h5") as file:
        assert (file["image"][3] == SAMPLES["mixed"][3]["image"]).all()
        assert file["label"][:].tolist() == list(range(7))


def test_tar_files_are_named_as_webdataset_expects(tmp_path):
    load_form("tar").write_samples(str(tmp_path / "00002.tar"), SAMPLES["tuples"])
    with tarfile.open(tmp_path / "00002.tar") as tar:
        names = [name for name in tar.getnames() if "layout" not in name]
    assert names[:3] == ["00002-000000.0.npy", "00002-000000.1.npy", "00002-000001.0.npy"]
