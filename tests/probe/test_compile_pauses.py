"""When code was compiled."""

from whyidle.probe.trial.trial_recorder import FEW, CompilePauses


def test_what_is_compiled_on_the_way_is_part_of_it():
    """The inner one is told first, as it ends first."""
    found = CompilePauses()
    found.note_compilation(0, 10, 20)
    found.note_compilation(7, 110, 120)
    found.note_compilation(7, 130, 140)
    found.note_compilation(7, 100, 150)
    found.note_compilation(9, 160, 170)
    assert found.pauses_by_step() == [(0, 10), (7, 50), (9, 10)]


def test_a_few_pauses_may_be_once_and_for_all_and_many_are_how_it_goes():
    found = CompilePauses()
    for steps in (1, *range(10, 10 + FEW)):
        found.note_compilation(steps, 100 * steps, 100 * steps + 7)
        found.note_compilation(steps, 100 * steps + 10, 100 * steps + 17)
    assert found.once_ns(4) == 14 * FEW
    found.note_compilation(100, 10_000, 10_007)
    assert found.once_ns(4) == 0
    assert found.once_ns(50) == 7
