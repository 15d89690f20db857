"""Cards are read, drawn and refused; nothing in them or in the scripts tells the answer."""

import ast
import re

import pytest
from sheets import sheet

from clinic.card import CARDS, WORKLOADS, cases
from clinic.typed import command, environment, interpreter
from whyidle import catalog
from whyidle.model.buckets import BUCKETS

CASES = cases()
SCRIPTS = sorted(WORKLOADS.glob("*.py"))
SHEET = sheet(
    workload="rows",
    before="options = { hidden = 64 }",
    habit='sick = { save_every = 1 }\ncured = { save_every = 0 }\nfix = "never save"',
    after="[levels]\nmild = { columns = [10, 1000] }\nsevere = { columns = 7 }",
)
TELLING = {
    "whyidle", "clinic", "sick", "healthy", "oracle", "decoy", "cured", "planted", "bottleneck",
    "starved", "slow", "inject", "severity", "defect", "unhealthy", "anomaly-mode", "antipattern",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "123.toml").write_text(SHEET)
    return tmp_path


def test_levels_become_cases(folder):
    mild, severe = cases(folder=folder)
    assert (mild.id, severe.id) == ("c1231", "c1233")
    assert mild.options["columns"] == 100  # the geometric middle
    assert severe.options == {"hidden": 64, "columns": 7, "seed": 1233}


def test_arms_differ_by_the_cure_alone(folder):
    mild, _ = cases(folder=folder)
    sick, cured = (mild.arm(which) for which in mild.arms().values())
    assert {key for key in sick if sick[key] != cured[key]} == {"save_every"}


def test_other_seeds_draw_other_numbers_within_the_range(folder):
    drawn = {cases(seed, folder)[0].options["columns"] for seed in range(5)}
    assert len(drawn) > 1
    assert all(10 <= number <= 1000 for number in drawn)
    assert cases(3, folder) == cases(3, folder)
    assert cases(3, folder)[1].options["columns"] == 7


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('kind = "single"', 'kind = "healthy"'), "nothing planted"),
        (('kind = "single"', 'kind = "varying"'), "onset"),
        (('fix = "never save"', 'fix = "never"\nfixed = 1'), "fixed"),
        (('kind = "single"', 'kind = "odd"'), "odd"),
        (("columns = 7", "columns = [7, 8, 9]"), "two numbers"),
        (("columns = 7", 'columns = [7, "8"]'), "two numbers"),
        (("columns = 7", "columns = []"), "two numbers"),
    ],
)
def test_a_card_that_makes_no_sense_is_refused(tmp_path, change, words):
    (tmp_path / "123.toml").write_text(SHEET.replace(*change))
    with pytest.raises(ValueError, match=words):
        cases(folder=tmp_path)


def test_ids_are_neutral_and_unique():
    ids = [case.id for case in CASES]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"c\d{4}", name) for name in ids)


def test_a_card_speaks_of_what_exists():
    for case in CASES:
        known = catalog.load_causes()
        if case.recording:
            continue
        script = (WORKLOADS / f"{case.workload}.py").read_text(encoding="utf-8")
        for fault in case.inject:
            assert not fault.names - set(known), case.id
            assert set(fault.buckets) <= set(BUCKETS), case.id
            assert fault.cause or case.kind == "unknown", case.id
            if fault.cause:
                assert fault.family == known[fault.cause].family, case.id
            assert fault.fix_id == "" or fault.fix_id in catalog.load_fixes(), case.id
        for cured in case.arms().values():
            for name in case.arm(cured):
                assert name[0] in "$@%" or f'"--{name.replace("_", "-")}"' in script, (
                    case.id,
                    name,
                )


def test_cures_are_advice_where_the_product_says_so_of_its_own():
    """A sheet may not call a cure advice that the product applies, nor the other way round."""
    page = (CARDS.parents[1] / "docs" / "fixes.md").read_text(encoding="utf-8")
    people = set(re.findall(r"^\| `([\w-]+)`", page.partition("## Advice")[2], re.MULTILINE))
    told = {(f.fix_id, f.advice) for case in CASES for f in case.inject if f.fix_id}
    assert told == {(name, name in people) for name, _ in told}
    assert {advice for _, advice in told} == {True, False}


def test_a_script_does_not_tell_the_answer():
    for path in SCRIPTS:
        text = path.read_text(encoding="utf-8").lower()
        words = set(re.findall(r"[a-z]+", text))
        assert not words & TELLING, path
        for cause in catalog.load_causes():
            assert cause not in text, path
            assert cause.replace("-", "_") not in text, path
            assert cause.replace("-", " ") not in text, path


def test_a_script_downloads_nothing_and_stands_alone():
    for path in SCRIPTS:
        text = path.read_text(encoding="utf-8")
        names = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add(node.module or "")
        assert not {name for name in names if name.partition(".")[0] in ("clinic", "whyidle")}, path
        assert not re.search(r"https?://(?!127\.0\.0\.1|localhost)", text), path


def test_what_is_typed_does_not_tell_the_answer():
    for case in CASES:
        python = interpreter(case.arm())  # its path is the clone's, whatever that is called
        typed = command(case.arm(), "cpu", 1.0, case.measure)[1:]
        words = " ".join(word for word in typed if word != python).lower()
        words += " ".join(
            environment(case.arm()).get(n[1:], "") for n in case.options if n[0] == "$"
        )
        assert not set(re.findall(r"[a-z]+", words)) & TELLING, case.id
        assert not [cause for cause in catalog.load_causes() if cause in words], case.id
        assert case.id not in words, case.id


def test_every_sheet_has_a_job():
    assert {path.stem for path in SCRIPTS} >= {c.workload for c in CASES if not c.recording}
    assert len(list(CARDS.glob("*.toml"))) == len({case.id[:4] for case in CASES})
