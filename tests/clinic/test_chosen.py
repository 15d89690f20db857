"""Which cases are healed as a sample."""

from clinic.card import GIVEN, cases
from clinic.verbs._chosen import drawn

JOBS = [(case, mode) for case in cases(3) for mode in case.modes if not case.recording]


def test_of_each_sheet_one_level_is_drawn_and_its_twin_stays():
    ids = [case.id for case, _ in drawn(JOBS, 3)]
    sheets = [name if name.endswith("9") else name[:-1] for name in ids]
    assert len(set(sheets)) == len(sheets)
    assert {name[:-1] for name in ids} == {c.id[:-1] for c, _ in JOBS if c.consent in GIVEN}


def test_cures_that_need_consent_are_in_no_sample():
    assert any(case.consent not in GIVEN for case, _ in JOBS)
    assert all(case.consent in GIVEN for case, _ in drawn(JOBS, 3))


def test_a_seed_draws_the_same_sample_in_the_same_order():
    assert drawn(JOBS, 3) == drawn(JOBS, 3)
    assert drawn(JOBS, 4) != drawn(JOBS, 3)
    assert [case.id for case, _ in drawn(JOBS, 3)] != sorted(case.id for case, _ in drawn(JOBS, 3))
