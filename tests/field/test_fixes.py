"""What automatic fixes did to jobs, and its table."""

from field.fixes import Fixed, Trial
from field.page import render_page
from field.truth import Job

KEPT = Trial("fused-optimizer", True, "", 0.020, 0.016, 1.25, 1.2)
NEXT = Trial("async-checkpoint", True, "", 0.016, 0.010, 1.6, 1.5)
DROPPED = Trial("tf32", False, "no gain was measured", 0.010, 0.010, 1.0, 0.9)


def fixed(*trials, edit=""):
    return Fixed(job="a", source="", trials=trials, edit=edit)


def test_kept_fixes_multiply_and_others_do_not_count():
    assert fixed(KEPT, NEXT, DROPPED).speedup == 2.0
    assert fixed(DROPPED).speedup == 1.0


def test_the_table_has_steps_before_the_first_and_after_the_last_kept_fix():
    job = Job(half="open", source="x", kind="k", command="python a.py", gain=2.2, low=2.2, high=2.2)
    page = render_page({"a": job}, {}, {"a": fixed(KEPT, NEXT, DROPPED, edit="opt = fused()")})
    row = "`fused-optimizer`, `async-checkpoint` | 20 ms → 10 ms | 2.00 | 2.20 | `opt = fused()` |"
    assert f"| a | {row}" in page
    assert "| a | nothing | – | – | 2.20 | – |" in render_page(
        {"a": job}, {}, {"a": fixed(DROPPED)}
    )
