"""The documentation says what the program does."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from whyidle import __version__, catalog
from whyidle.cli import _app

REPOSITORY = Path(__file__).parents[1]
PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")])


@pytest.fixture(scope="module")
def build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build", REPOSITORY / "docs" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_made_from_source_is_current(build: ModuleType):
    assert build.stale() == [], "run `make docs`"


def test_stale_pages_are_noticed(build: ModuleType, tmp_path: Path):
    odd = tmp_path / "docs" / "causes" / "of-no-cause.md"
    odd.parent.mkdir(parents=True)
    odd.write_text("x")
    stale = {str(path.relative_to(tmp_path)) for path in build.stale(tmp_path)}
    assert {
        "docs/causes/of-no-cause.md",
        "docs/causes/README.md",
        "docs/decisions/README.md",
        "docs/fixes.md",
        "docs/symptoms.md",
        "docs/tutorial.md",
    } <= stale


def test_every_cause_has_a_symptom():
    text = (REPOSITORY / "docs" / "symptoms.md").read_text(encoding="utf-8")
    assert set(re.findall(r"causes/([a-z0-9-]+)\.md", text)) == set(catalog.load_causes())


def test_terms_are_defined_once():
    text = (REPOSITORY / "docs" / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^\*\*(.+)\*\*$", text, re.MULTILINE)
    assert len(terms) > 40
    assert len(terms) == len(set(terms)) == text.count("\n:   ")


def test_decision_records_are_short_and_whole():
    for path in sorted((REPOSITORY / "docs" / "decisions").glob("[0-9]*.md")):
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [
            "Context",
            "Decision",
            "Alternatives",
        ], path
        assert text.startswith(f"# {int(path.name[:4])}. "), path
        assert len(text.split()) < 300, path


def test_links_lead_somewhere():
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if not link.startswith(("http:", "https:", "mailto:")):
                assert (page.parent / link).exists(), (page, link)


def test_pages_name_every_verb_and_the_readme_the_first_commands():
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert all(f"whyidle {verb}" in pages for verb in _app.VERBS)
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    for command in ("make demo", "make test", "whyidle run", "whyidle explain", "whyidle fix"):
        assert command in text


def test_no_message_names_a_command_that_does_not_exist():
    for path in (REPOSITORY / "src").rglob("*.py"):
        named = re.findall(r"(?:`|hint=f?\")whyidle ([a-z]+)", path.read_text(encoding="utf-8"))
        assert set(named) <= set(_app.VERBS), path


def test_pages_name_only_causes_and_commands_that_exist():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert set(re.findall(r"whyidle causes ([a-z][a-z0-9-]+)", text)) <= set(
            catalog.load_causes()
        ), page
        typed = re.findall(
            r"^(?:\s*)whyidle ([a-z]+)\b(?=.*(?:\n|```))", code_of(text), re.MULTILINE
        )
        assert set(typed) <= set(_app.VERBS), page


def code_of(text: str) -> str:
    """The blocks of code of a page."""
    return "\n".join(re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize("page", ["docs/a-day-in-the-code.md", "CONTRIBUTING.md"])
def test_files_that_these_pages_name_exist(page: str):
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    named = re.findall(r"`((?:src/|tests/)?[a-z_]+(?:/[a-z_]+)+\.py)`", text)
    assert named
    roots = (REPOSITORY, REPOSITORY / "src" / "whyidle")
    assert not [name for name in named if not any((root / name).is_file() for root in roots)]


def test_the_oldest_supported_versions_are_those_of_the_package():
    page = (REPOSITORY / "docs" / "support.md").read_text(encoding="utf-8")
    oldest = dict(re.findall(r"^\| (\w+)(?:, \w+)? \| ([\d.]+)", page, re.MULTILINE))
    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    assert f'requires-python = ">={oldest["Python"]}"' in text
    names = {"PyTorch": "torch", "TensorFlow": "tensorflow", "JAX": "jax", "Lightning": "lightning"}
    for shown, package in names.items():
        assert f'["{package}>={oldest[shown]}"]' in text


def test_changelog_has_a_section_for_this_version():
    text = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## [{__version__}]" in text


def test_the_version_is_the_same_everywhere():
    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    assert re.findall(r'^version = "(.+)"$', text, re.MULTILINE) == [__version__]


def test_pictures_are_there_small_and_refer_to_nothing_outside():
    drawn = REPOSITORY / "docs" / "pictures"
    assert {path.name for path in drawn.iterdir()} == {"page.png", "terminal.svg"}
    assert all(path.stat().st_size < 150_000 for path in drawn.iterdir())
    svg = (drawn / "terminal.svg").read_text(encoding="utf-8")
    assert "@font-face" not in svg
    assert "url(http" not in svg


def test_the_site_builds_without_warnings(tmp_path: Path):
    pytest.importorskip("mkdocs", reason="the extra 'docs' is not installed")
    pytest.importorskip("mkdocstrings", reason="the extra 'docs' is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    loaded = [
        (page.name, address)
        for page in (tmp_path / "site").rglob("*.html")
        for address in re.findall(
            r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)"', page.read_text("utf-8")
        )
    ]
    assert not loaded, "viewing the site would use the network"


PROOF = {
    "schema": "whyidle/gpu-results/1",
    "device": "NVIDIA H100",
    "emulated": False,
    "stages": {
        "truth": {
            "fp32": {"status": "done", "result": {"right": True}},
            "tf32-off": {"status": "done", "result": {"right": False}},
        },
        "harm": {"visible-by-uuid": {"status": "skipped", "reason": "no nvidia-smi"}},
    },
}


def test_what_was_proven_on_which_gpu_is_from_the_results_alone(build: ModuleType, tmp_path: Path):
    describe = build.proofs.describe_proofs
    assert describe(tmp_path, "", "") == "whyidle has been proven on no GPU yet."
    (tmp_path / "gpu-nvidia-h100-2026-01-31.json").write_text(json.dumps(PROOF))
    assert describe(tmp_path, "results/", "gpu.md") == (
        "The proof of whyidle has run on [NVIDIA H100](results/gpu-nvidia-h100-2026-01-31.md) "
        "(2026-01-31: 2 of 3 parts done, 1 skipped, 1 wrong first findings)."
    )


def test_a_rehearsal_is_no_proof(build: ModuleType, tmp_path: Path):
    (tmp_path / "gpu-emulated-2026-01-31.json").write_text(json.dumps({**PROOF, "emulated": True}))
    with pytest.raises(ValueError, match="no result of a GPU"):
        build.proofs.describe_proofs(tmp_path, "", "")
