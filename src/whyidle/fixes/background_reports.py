"""Report from beside the training."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InterruptionFacts


@fix("blocking-logging-upload", consent="none")
def background_reports(proof: Proof) -> Proposal | None:
    """Let a thread beside the training make the reports: all of them, in their order, with the
    times at which they were asked for, and the end of the process waits for them. For TensorBoard's
    writer and MLflow's client, whose calls are known, at run time; of another tracker or a request
    of the script's own nobody can tell whether its answer is needed, so that declines. What is
    reported later is copied first, as training changes parameters in place. Histograms are
    computed, not waited for, and a thread has the same interpreter and cores for them: less is
    expected of it than of making fewer."""
    facts = proof.get_facts(InterruptionFacts)
    if not facts.tracker:
        return None
    how = "a queue that a thread empties"
    if facts.mlflow:
        how = f"mlflow.config.enable_async_logging(), or {how}"
    if facts.histograms:
        how += "; put copies of the parameters into it, which training changes in place"
    return Proposal(
        summary=f"make the tracker's calls in a thread of their own, in order ({how})",
        edits=(Edit(knob="logging.asynchronous", value=True, was=False),),
        predicted=facts.beside if facts.histograms else None,
        risk="a job that is killed loses the reports that waited; a tracker's error is told by the "
        "next call; encoding still shares the interpreter with the training",
    )
