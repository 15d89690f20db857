"""Advice on work of each step that is not the model's."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import TRAINING, advice
from whyidle.model.proof_facts import DeviceFacts, HostFacts, InterruptionFacts
from whyidle.model.purposes import Purpose

EVERY = 100
"""steps after which a report is soon enough for people"""


def _report_rarely(proof: Proof) -> str | None:
    facts, place = proof.get_facts(HostFacts), proof.where[0] if proof.where else None
    if place is None and facts.purpose == Purpose.LOGGING:  # a trainer reports by itself
        return None
    at = f" of {place.file}:{place.line}" if place else ""
    what = f", {facts.text}," if facts.text else ""
    last = ", or for the last batch of an epoch" if facts.purpose == Purpose.RENDERING else ""
    return f"do the work{at}{what} in every {EVERY}th step only{last}"


def _count_along(proof: Proof) -> str | None:
    if proof.get_facts(HostFacts).purpose != Purpose.METRICS:
        return None
    return "accumulate the metric batch by batch, and read it where it is printed"


def _join_norms(proof: Proof) -> str | None:
    if proof.get_facts(HostFacts).purpose != Purpose.NORMS:
        return None
    return "take the norms of all tensors in one call, and read them in one transfer"


def _report_by_trainer(proof: Proof) -> str | None:
    facts = proof.get_facts(HostFacts)
    if facts.purpose != Purpose.LOGGING or (proof.where and "self.log" not in facts.text):
        return None
    return "let the trainer log every hundredth step, and compute what is logged only then"


def _stop_growth(proof: Proof) -> str:
    facts, place = proof.get_facts(HostFacts), proof.where[0] if proof.where else None
    at = f" at {place.file}:{place.line}" if place else ""
    if facts.reporting:
        return (
            f"do not recompute over everything so far{at}: keep running sums (right += ..., "
            "seen += ...), keep only the last entries, or do it once at the end of an epoch"
        )
    return f"bound what grows{at}: keep only the last entries, append to files, or clear caches"


def _cut_graphs(proof: Proof) -> str | None:
    if proof.get_facts(HostFacts).purpose != Purpose.BACKWARD:
        return None
    return "detach what outlives a step: the backward pass runs through the graphs of earlier steps"


def _join_calls(proof: Proof) -> str | None:
    facts, place = proof.get_facts(HostFacts), proof.where[0] if proof.where else None
    at = f" at {place.file}:{place.line}" if place else ""
    if facts.layer:
        return None
    what = f" ({facts.text})" if facts.text else ""
    return (
        f"replace the loop{at}{what} by operators on whole tensors (broadcasting, "
        "indexing; padded tensors with a mask where lengths differ)"
    )


def _use_layer(proof: Proof) -> str | None:
    facts, place = proof.get_facts(HostFacts), proof.where[0] if proof.where else None
    at = f" at {place.file}:{place.line}" if place else ""
    layer = f"call nn.{facts.layer} once on the whole sequence instead of the loop{at}"
    return layer if facts.layer else None


def _cheaper_call(proof: Proof) -> str:
    facts, place = proof.get_facts(HostFacts), proof.where[0] if proof.where else None
    at = f"at {place.file}:{place.line}" if place else "there"
    return (
        f"{at}: {facts.text}"
        if facts.text
        else f"make what is called {at} cheaper: compute on whole arrays; keep what stays the same "
        "from step to step; where it goes through everything that is stored, update sums, a tree "
        "or an index instead"
    )


def _keep_results(proof: Proof) -> str:
    facts, place = proof.get_facts(HostFacts), proof.where[0] if proof.where else None
    at = f" at {place.file}:{place.line}" if place else ""
    what = f" ({facts.text})" if facts.text else ""
    if not facts.of_samples:
        return f"compute the result{at}{what} once, before the loop over epochs"
    return (
        f"compute the result{at}{what} once for every sample before training, keep it by the "
        "sample's index, and let the data set return it beside the sample"
    )


_CALLED = {
    "predict": "call the model in a traced function instead of predict: run = tf.function(lambda "
    "x: model(x, training=False)), then run(states); on JAX, model.stateless_call under jax.jit",
    "fit": "call model.train_on_batch(x, y) instead of fit, which sets up a data set in each call",
}


_CACHE = "keep the compiler's caches in a folder that outlives the job"


def _without_graph(proof: Proof) -> str | None:
    without = proof.get_facts(InterruptionFacts).without_graph
    return "" if proof.get_facts(DeviceFacts).gradients or without is not None else None


ADVICE = (
    advice(
        *("batched-environments", "single-sample-policy"),
        title="Step several environments together",
        doc="Let several environments answer at once, and call the policy on the batch of their "
        "observations; or recompute the turns of an episode by one call for the loss. Only the "
        "author can change how episodes are played.",
        summary="step several environments together and call the policy on the batch of their "
        "observations; or play without gradients and compute all turns of an episode by one call",
        consent="convergence",
        risk="several environments give other episodes; one call for all turns gives the same",
    ),
    advice(
        *("cheaper-call", "costly-call"),
        title="Use the cheaper form of a costly call",
        doc="Change the line with much of the step: to the cheaper form of a library's function, "
        "or, where it calls the job's own code, to less work. Only the author can edit it.",
        summary=_cheaper_call,
        consent="rounding",
        risk="what training needs in every step must stay; other code may round differently",
    ),
    advice(
        *("whole-tensors", "short-operators-in-model"),
        title="Compute on whole tensors",
        doc="Replace a loop over samples, words or elements by operators on a padded tensor of all "
        "of them. Declines where a recurrent layer can replace the loop. Only the author can "
        "reshape the data.",
        summary=_join_calls,
        consent="rounding",
        risk="sums round differently; padding must be masked",
    ),
    advice(
        *("recurrent-layer", "short-operators-in-model"),
        title="Use the layer instead of a loop over its cell",
        doc="``nn.LSTM``, ``nn.GRU`` and ``nn.RNN`` run over a whole sequence in one call, and "
        "``num_layers`` stacks them. Proposed where only the states of cells pass from one time "
        "step to the next. Only the author can edit the model.",
        summary=_use_layer,
        consent="rounding",
        risk="sums round differently; the weights of saved models have other names: weight_ih of "
        "the cell is weight_ih_l0 of the layer",
    ),
    advice(
        *("kept-results", "same-result-again"),
        title="Compute once, and keep the result",
        doc="Compute what depends on the sample alone before training, and keep it by the sample's "
        "index in memory or in a file (numpy.memmap). Only the author can add it to the data set.",
        summary=_keep_results,
        consent="rounding",
        risk="a random augmentation that is added later would no longer reach what is kept; a "
        "network rounds differently for batches of another size",
    ),
    advice(
        *("report-rarely", "work-beside-training"),
        title="Report in every hundredth step",
        doc="Put work that only people look at under a condition on the step. Only the author "
        "knows how often a number is needed.",
        summary=_report_rarely,
        risk="curves have fewer points",
    ),
    advice(
        *("running-metric", "work-beside-training"),
        title="Accumulate a metric batch by batch",
        doc="Add up what each batch contributes to a metric on the device, and read the sum where "
        "it is printed. Declines for other work. Only the author knows which metrics are sums.",
        summary=_count_along,
        consent="rounding",
        risk="a metric that is not a sum over batches needs its own state",
    ),
    advice(
        *("joined-norms", "work-beside-training"),
        title="Read all norms at once",
        doc="Take the norms of many tensors in one call, and read them in one transfer. Declines "
        "for other work. Only the author can edit it: names must be matched to numbers.",
        summary=_join_norms,
        consent="rounding",
    ),
    advice(
        *("rarer-trainer-logs", "work-beside-training"),
        title="Let the trainer log less often",
        doc="Set the trainer's own interval of logging and of its progress bar, and compute what "
        "is logged only in these steps. Declines for other work.",
        summary=_report_by_trainer,
        risk="curves have fewer points",
    ),
    advice(
        *("bounded-history", "growing-step"),
        title="Keep what a step works on from growing",
        doc="Replace computation over all earlier steps by running sums, detach tensors that "
        "outlive their step, and bound lists and caches. The source shows the line, but not what "
        "it is for.",
        summary=_stop_growth,
        consent="rounding",
        risk="a sum that is counted along the way may round differently",
    ),
    advice(
        *("detached-history", "growing-step"),
        kinds=TRAINING,
        title="Detach what outlives a step",
        doc="Detach hidden states, targets and sums of losses before the next step. Declines where "
        "the backward pass does not grow. Whether gradients should flow through earlier steps is "
        "the author's decision.",
        summary=_cut_graphs,
        consent="convergence",
        risk="gradients no longer flow through earlier steps, if that was intended",
    ),
    advice(
        *("called-model", "short-step-calls"),
        title="Call the model itself, not predict or fit",
        doc="Call the model in a traced function, or train_on_batch, which make no data set. "
        "Declines for other calls. The author knows how many inputs there are at a time.",
        summary=lambda proof: _CALLED.get(proof.get_facts(HostFacts).called),
        consent="rounding",
        risk="a shape that is new is traced again: make a traced function once, outside the loop, "
        "with an input_signature whose batch size is None",
    ),
    advice(
        *("fewer-callbacks", "callback-overhead"),
        title="Let callbacks work less often",
        doc="Let callbacks that only report work at every hundredth batch or once per epoch, and "
        "buffer what they write. What a callback is for the recording does not show.",
        summary="run the callback at every hundredth batch only, or at the end of the epoch",
        risk="curves have fewer points",
    ),
    advice(
        *("async-checkpoint", "sync-checkpoint"),
        kinds=TRAINING,
        title="Write checkpoints in a thread",
        doc="Copy the state to host memory and write the copy in a thread. The file has the same "
        "bytes and is complete a little later. On a CPU job this recovers the time in which saving "
        "waits for the disk, and little of the time in which it computes.",
        summary="copy the state to host memory and save the copy in a thread",
        edits=(Edit(knob="checkpoint.asynchronous", value=True, was=False),),
        predicted=lambda proof: proof.get_facts(InterruptionFacts).beside,
        risk="needs host memory for one more copy of the state; the file is complete only later, "
        "and a job that is killed before that keeps the previous checkpoint",
    ),
    advice(
        *("compile-cache", "compile-autotune-warmup"),
        title="Keep compiled code on a persistent disk",
        doc="Let the next run reuse the code compiled by this one. Declines where no compiler ran "
        "and only kernels were loaded.",
        summary=lambda proof: _CACHE if proof.get_facts(InterruptionFacts).compiler else None,
        edits=(Edit(knob="compile.cache", value="persistent"),),
        predicted=lambda proof: proof.get_facts(InterruptionFacts).cached,
        risk="clear the cache when versions change",
    ),
    advice(
        *("evaluate-without-gradients", "needless-compute", "heavy-evaluation"),
        title="Evaluate without recording a backward graph",
        doc="The numbers stay the same. Declines where nothing shows evaluation, or evaluation "
        "that records a backward graph.",
        summary=_without_graph,
        edits=(Edit(knob="evaluation.gradients", value=False, was=True),),
        predicted=lambda proof: proof.get_facts(InterruptionFacts).without_graph,
        risk="code that needs gradients during evaluation fails; written into the script, fused "
        "attention layers take a faster path that returns zeros at padded positions",
    ),
)
