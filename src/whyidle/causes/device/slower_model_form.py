"""A faster form of the same model was measured."""

from __future__ import annotations

from whyidle.analysis.device.model_account import build_architecture
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Predicted
from whyidle.model.proof_facts import DeviceFacts


@cause(
    "A faster form of the model was measured",
    bucket="compute",
    needs=("model_look",),
    watched=("model_look",),
)
def slower_model_form(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    ``whyidle run --look model`` tried variants of the model on the job's own batch. One is faster.

    Why it costs
    ------------
    The present form takes longer for the same result, apart from rounding or precision: another
    memory format, operators in 32 bits.

    How it is detected
    ------------------
    The probe times passes with and without each variant in alternation. The step time is predicted
    from the lower quartiles, the interval from the pairs. It must lie above 1.

    What looks alike
    ----------------
    Variants that were not measured have their own causes: ``no-mixed-precision``,
    ``wrong-memory-format``, ``naive-attention``.

    What to do
    ----------
    Use the variant that was measured.

    References
    ----------
    PyTorch, Performance Tuning Guide; Williams et al., "Roofline" (CACM 2009).
    """
    account = build_architecture(facts)
    forms: dict[str, tuple[str, Predicted]] = {}
    for swap in account.swaps if account else ():  # the largest gain first
        if swap.change and swap.change[0] > 1.0 and swap.step_s and account and account.step_s:
            low, high = swap.change
            middle = min(max(account.step_s / swap.step_s, low), high)
            gain = Predicted(speedup=middle, low=low, high=high, method="measured in this job")
            consent = "numerics" if swap.kind == "bfloat16" else "rounding"
            forms.setdefault(consent, (swap.title, gain))
    if not forms or account is None:
        return None
    title, best = max(forms.values(), key=lambda form: form[1].speedup)
    return Proof(
        headline=f"With {title}, the step is {best.speedup:.2f} times as fast, as measured",
        predicted=best,
        evidence=(
            make_evidence("step", account.step_s or 0.0, "s"),
            make_evidence("predicted step", (account.step_s or 0.0) / best.speedup, "s"),
        ),
        confidence=0.9,
        facts=DeviceFacts(forms=forms),
    )
