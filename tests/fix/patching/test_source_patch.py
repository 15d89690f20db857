"""The patch of a user's own files, applied with git as people would."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whyidle.fix.patching.source_patch import KeptFix, make_patch, render_diff
from whyidle.model.diagnosis import Edit, Place

GIT = shutil.which("git")
needs_git = pytest.mark.skipif(GIT is None, reason="git is not installed")
KEEP, MORE = (
    Edit(knob="loader.persistent_workers", value=True),
    Edit(knob="loader.workers", value=4, was=0),
)
WORKERS = KeptFix("loader-workers", [KEEP, MORE])
SCRIPT = "from torch.utils.data import DataLoader\n\nfor x in DataLoader(data, 4):\n    step(x)\n"
FIXED = SCRIPT.replace("data, 4", "data, 4, num_workers=4, persistent_workers=True")


def git(folder: Path, *words: str, text: bytes | None = None) -> None:
    assert GIT is not None
    done = subprocess.run([GIT, *words], cwd=folder, input=text, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def apply(folder: Path, diff: str) -> None:
    git(folder, "-c", "core.autocrlf=false", "apply", "--check", "-", text=diff.encode())
    git(folder, "-c", "core.autocrlf=false", "apply", "-", text=diff.encode())


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    (tmp_path / ".git").mkdir()  # so that no repository around it counts
    write(tmp_path, {"train.py": SCRIPT})
    return tmp_path


@needs_git
def test_git_applies_it_and_nothing_is_written_before(folder: Path):
    (folder / ".git").rmdir()
    git(folder, "init", "-q")
    patch = make_patch([WORKERS], ["python", "train.py"], folder)
    assert (folder / "train.py").read_text() == SCRIPT
    assert patch.sentences == ()
    apply(folder, patch.diff)
    assert (folder / "train.py").read_text() == FIXED
    assert make_patch([WORKERS], ["python", "train.py"], folder).diff == ""


@needs_git
@pytest.mark.parametrize("shape", [
    lambda text: text.replace("\n", "\r\n"),
    lambda text: text[:-1],
    lambda text: "\ufeff" + text,
    lambda text: "# naïve 名前\n" + text,
    lambda text: text.replace("    ", "\t"),
    lambda text: "# a\x0cb\u2028c\n" + text + "\n\n\n",
    lambda text: text.replace("\n", "\r\n", 1),
], ids=["crlf", "no end", "bom", "not ascii", "tabs", "odd separators", "mixed ends"])  # fmt: skip
@pytest.mark.parametrize("name", ["train.py", "my train.py", "größe.py", 'a"b.py', "x/y/train.py"])
def test_any_line_ends_and_names(tmp_path: Path, shape, name: str):
    git(tmp_path, "init", "-q")
    write(tmp_path, {name: shape(SCRIPT)})
    patch = make_patch([WORKERS], ["python", name], tmp_path)
    apply(tmp_path, patch.diff)
    assert (tmp_path / name).read_bytes().decode() == shape(FIXED)


@needs_git
@settings(deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=3)), st.data())
def test_any_two_texts_differ_as_git_reads_it(tmp_path_factory, lines, data):
    after = data.draw(st.lists(st.sampled_from([*lines, "new"]), max_size=9))
    ends = [data.draw(st.sampled_from(["", "\n"])) for _ in range(2)]
    old, new = ("\n".join(each) + end for each, end in zip((lines, after), ends, strict=True))
    if "" in (old, new):
        return  # made or removed files are not what a patch of ours does
    folder = tmp_path_factory.mktemp("diff")
    write(folder, {"a.py": old, ".git/HEAD": ""})
    shutil.rmtree(folder / ".git")
    if diff := render_diff("a.py", old, new):
        apply(folder, diff)
    assert (folder / "a.py").read_bytes().decode() == new


def test_names_start_at_the_top_of_the_repository(folder: Path):
    write(folder, {"jobs/train.py": SCRIPT})
    patch = make_patch([WORKERS], ["python", "train.py"], folder / "jobs")
    assert patch.diff.startswith("--- a/jobs/train.py\n+++ b/jobs/train.py\n")
    assert patch.diff_root == folder.resolve()


COMMANDS = [
    ["python", "train.py", "--lr", "1"],
    ["python3", "-u", "-W", "error", "train.py"],
    ["torchrun", "--nproc-per-node=2", "train.py", "--lr", "1"],
    ["accelerate", "launch", "--num_processes", "2", "train.py"],
    ["python", "-m", "torch.distributed.run", "--standalone", "train.py"],
    ["python", "-m", "train"],
    ["torchrun", "-m", "train", "--lr", "1"],
    ["env", "A=1", "python", "./train.py"],
    ["./train.py"],
    ["bash", "-c", "A=1 python train.py --lr 1"],
    ["bash", "-c", "exec python -u train.py"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_script_is_found_through_launchers(folder: Path, command: list[str]):
    patch = make_patch([WORKERS], command, folder)
    assert list(patch.files) == [(folder / "train.py").resolve()]
    assert patch.own.options == (("--lr", "1") if "--lr" in " ".join(command) else ())


MODULES = {
    "train.py": "from pkg import loop\nimport sys, torch, json\nimport helper\nloop.run()\n",
    "helper.py": "X = 1\n",
    "pkg/__init__.py": "",
    "pkg/loop.py": "from .data import loader\ndef run(): pass\n",
    "pkg/data.py": SCRIPT,
    "other.py": SCRIPT,
    "venv/pyvenv.cfg": "",
    "venv/helper.py": SCRIPT,
    "lib/site-packages/helper.py": SCRIPT,
    "json.py": "import other\n",
}


def test_modules_of_the_users_tree_count_and_no_others(folder: Path):
    write(folder, MODULES)
    patch = make_patch([WORKERS], ["python", "train.py"], folder)
    seen = {path.relative_to(folder.resolve()).as_posix() for path in patch.own.files}
    assert seen == {"train.py", "helper.py", "pkg/__init__.py", "pkg/loop.py", "pkg/data.py"}
    assert [path.name for path in patch.files] == ["data.py"]


@pytest.mark.parametrize(
    ("script", "own"),
    [("env/job/train.py", True), ("env/train.py", True), ("env/bin/train.py", False),
     ("env/lib/python3/train.py", False), ("env/Scripts/train.py", False)],
)  # fmt: skip
def test_a_project_in_the_folder_of_its_environment_is_its_users_own(folder, script, own):
    write(folder, {"env/pyvenv.cfg": "", script: SCRIPT})
    patch = make_patch([WORKERS], ["python", script], folder)
    assert bool(patch.files) is own


def test_a_script_that_another_script_is_given_counts(folder: Path):
    write(folder, {"tools/launch.py": "import sys\n"})
    patch = make_patch([WORKERS], ["python", "tools/launch.py", "train.py"], folder)
    assert [path.name for path in patch.files] == ["train.py"]


def test_a_package_that_is_run_by_name(folder: Path):
    write(folder, {"src/app/__main__.py": "from app.data import x\n", "src/app/data.py": SCRIPT,
                   "src/app/__init__.py": ""})  # fmt: skip
    for start in (folder, folder / "src"):
        patch = make_patch([WORKERS], ["python", "-m", "app"], start)
        assert [path.name for path in patch.files] == ["data.py"]


def test_files_that_a_finding_names_count(folder: Path):
    write(folder, {"plugins/data.py": SCRIPT, "train.py": "import importlib\n"})
    kept = KeptFix("loader-workers", [MORE], [Place(file="plugins/data.py", line=3, function="x")])
    patch = make_patch([kept], ["python", "train.py"], folder)
    assert [path.name for path in patch.files] == ["data.py"]


def test_files_of_others_are_never_touched(folder: Path, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "mine.py"
    elsewhere.write_text(SCRIPT)
    inside = folder / "lib" / "site-packages" / "mine.py"
    write(folder, {"lib/site-packages/mine.py": SCRIPT, "train.py": "x = 1\n"})
    places = [Place(file=str(path), line=3, function="x") for path in (elsewhere, inside)]
    patch = make_patch([KeptFix("loader-workers", [MORE], places)], ["python", "train.py"], folder)
    assert patch.files == {}
    assert patch.diff == ""


def test_what_has_no_source_form_is_said_in_one_sentence(folder: Path):
    kept = [
        KeptFix("expandable-segments", [Edit(knob="env.PYTORCH_CUDA_ALLOC_CONF", value="a:True")]),
        KeptFix("async-checkpoint", [Edit(knob="checkpoint.asynchronous", value=True)]),
    ]
    assert make_patch(kept, ["python", "train.py"], folder).sentences == (
        "expandable-segments: export PYTORCH_CUDA_ALLOC_CONF=a:True, appended with a comma if it "
        "is already set, before the command",
        "async-checkpoint: write torch.distributed.checkpoint.async_save(...) instead of "
        "torch.save(...)",
    )


def test_what_was_left_says_where_and_why(folder: Path):
    write(folder, {"train.py": SCRIPT.replace("data, 4", "data, num_workers=most()")})
    said = make_patch([WORKERS], ["python", "train.py"], folder).sentences
    assert said == (
        "loader-workers: write DataLoader(..., num_workers=4) "
        "(train.py, line 3 has num_workers=most())",
    )


def test_a_reason_that_two_calls_of_a_line_have_is_said_once(folder: Path):
    call = "DataLoader(data, num_workers=most())"
    write(folder, {"train.py": SCRIPT.replace("DataLoader(data, 4)", f"zip({call}, {call})")})
    (said,) = make_patch([WORKERS], ["python", "train.py"], folder).sentences
    assert said.count("has num_workers=most()") == 1


BRANCHES = """import torch
if plain:
    opt = torch.optim.SGD(p)
else:
    opt = torch.optim.AdamW(p)
"""


@pytest.mark.parametrize(("made", "lacking", "notes", "sentences"), [
    ({5: ""}, (), ("fused: written where the trials changed it; "
                   "train.py, line 3 was not changed in the trials",), 0),
    ({5: "", 3: "sparse"}, ("fused",), (), 1),
    ({}, ("fused",), (), 1),
], ids=["not reached", "left", "none"])  # fmt: skip
def test_a_branch_that_no_trial_came_to_is_nothing_to_do(folder, made, lacking, notes, sentences):
    write(folder, {"train.py": BRANCHES})
    fused = KeptFix("fused", [Edit(knob="optimizer.fused", value=True)])
    lines = {f"{folder / 'train.py'}:{line}": why for line, why in made.items()}
    told = {"optimizer.fused": lines}
    patch = make_patch([fused], ["python", "train.py"], folder, made=told)
    assert patch.lacking == lacking
    assert patch.notes == notes
    assert len(patch.sentences) == sentences


@pytest.mark.parametrize(
    "text", ["def broken(:\n", "\x00", SCRIPT.encode("utf-16").decode("latin1")]
)
def test_a_file_that_cannot_be_read_is_a_sentence(folder: Path, text: str):
    write(folder, {"train.py": text})
    patch = make_patch([WORKERS], ["python", "train.py"], folder)
    assert patch.diff == ""
    assert len(patch.sentences) == 1
    assert "num_workers=4" in patch.sentences[0]
    assert "persistent_workers=True" in patch.sentences[0]


def test_warnings_of_the_users_own_code_are_theirs(folder: Path):
    write(folder, {"train.py": SCRIPT + "x = '\\d'\n"})
    assert make_patch([WORKERS], ["python", "train.py"], folder).diff


def test_a_command_without_a_script_is_a_sentence(folder: Path):
    for command in (
        ["my-trainer", "--fast"],
        ["python", "-c", "x = 1;" * 999],
        ["a b.py" * 99],
        [],
    ):
        patch = make_patch([WORKERS], command, folder)
        assert patch.files == {}
        assert len(patch.sentences) == 1


def test_a_knob_that_stays_as_it_was_is_not_spoken_of(folder: Path):
    stays = Edit(knob="autocast.grad_scaler", value=False, was=False)
    assert (
        make_patch([KeptFix("autocast", [stays])], ["python", "train.py"], folder).sentences == ()
    )


@pytest.mark.parametrize(("kind", "said"), [("cuda", "cuda"), ("rocm", "cuda"), ("cpu", "cpu")])
def test_autocast_is_for_the_device_that_trains(folder: Path, kind: str, said: str):
    step = "import torch\nopt = torch.optim.SGD(m.parameters())\nloss = m(x)\nloss.backward()\n"
    write(folder, {"train.py": step})
    kept = [KeptFix("autocast", [Edit(knob="autocast.dtype", value="bfloat16")])]
    diff = make_patch(kept, ["python", "train.py"], folder, kind).diff
    assert f'+with torch.autocast("{said}", dtype=torch.bfloat16):' in diff


@pytest.mark.parametrize(("value", "told"), [(True, True), (False, False)])
def test_what_is_otherwise_in_a_file_than_in_a_trial_is_told(folder, value, told):
    write(folder, {"train.py": SCRIPT})
    edits = [
        Edit(knob="loader.workers", value=2, was=0),
        Edit(knob="loader.persistent_workers", value=value),
    ]
    patch = make_patch([KeptFix("loader-workers", edits)], ["python", "train.py"], folder)
    assert not patch.lacking
    assert any("from the second epoch on" in note for note in patch.notes) == told
    left = make_patch([KeptFix("loader-workers", edits)], ["python", "other.py"], folder)
    assert not left.notes
