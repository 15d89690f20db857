"""Whether a loss stays as it is where Hugging Face's ``Trainer`` makes fewer, larger micro-batches.

A model whose ``forward`` takes any keyword is told how many labels a step has, and the trainer then
divides by nothing itself. Many are told and take the mean all the same, as BERT's do: with fewer
micro-batches their gradients would be as many times smaller. So only losses that are seen to divide
by that number are joined, and means where every micro-batch has as many labels as the others.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

COUNTED = ("ForCausalLMLoss", "ForMaskedLMLoss", "ForTokenClassification")
"""the framework's losses that divide by the number they are given"""
CLASSES = "ForSequenceClassificationLoss"
"""one that does so for one kind of problem"""
OF_TOKENS = ("LanguageModeling", "TokenClassification", "Seq2Seq", "WholeWord", "Completion")
"""in the names of collators whose labels are of tokens, some of which do not count"""
OF_SAMPLES = ("SequenceClassification", "ImageClassification", "AudioClassification")
"""in the names of models with a label to each sample"""
LABELS = ("labels", "label", "label_ids")


def against(kind: type, bound: dict[str, Any], whole: bool) -> str:
    """Why the loss of this trainer would be another; empty where it would not. ``whole``: no
    micro-batch is smaller than others."""
    if bound.get("compute_loss_func") is not None:
        return "its loss is a function of the script's own"
    if _says(kind):
        return f"{kind.__name__} says by itself how its loss is scaled"
    model = bound["model"]
    if hasattr(model, "get_base_model"):  # PEFT, which the trainer looks beneath as well
        model = model.get_base_model()
    told = getattr(model, "accepts_loss_kwargs", None)
    if told is None:
        named = inspect.signature(model.forward).parameters.values()
        told = any(one.kind == one.VAR_KEYWORD for one in named)
    if told:
        if _counted(model) and not _smoothed(bound["args"]):
            return ""
        return "its loss is not seen to be divided by the number of labels that a step has"
    if not whole:
        return "its loss is a mean, and the last micro-batches of an epoch are of unequal size"
    if not _alike(model, bound):
        return "its loss is a mean over labels, of which micro-batches may have unequal numbers"
    return ""


def _says(kind: type) -> bool:
    """Whether a trainer decides by itself what the model is told, or who divides."""
    if getattr(kind, "loss_is_scaled_for_ga", None) is not None:
        return True
    own = [one for one in kind.__mro__ if not one.__module__.startswith("transformers.")]
    codes = [getattr(vars(one).get("__init__"), "__code__", None) for one in own]
    return any("model_accepts_loss_kwargs" in code.co_names for code in codes if code)


def _smoothed(args: Any) -> bool:
    """Whether labels are smoothed by what does not divide by their number, as it once was."""
    if not getattr(args, "label_smoothing_factor", 0):
        return False
    smoother = importlib.import_module("transformers.trainer_pt_utils").LabelSmoother
    return "num_items_in_batch" not in inspect.signature(smoother.__call__).parameters


def _counted(model: Any) -> bool:
    """Whether its loss is one of the framework's, is given the number, and is all that there is."""
    if not _passed_on(model.forward):
        return False
    loss = getattr(model, "loss_function", None)
    if not getattr(loss, "__module__", "").startswith("transformers.loss."):
        return False
    name = getattr(loss, "__name__", "")
    problem = getattr(model.config, "problem_type", None)
    return name in COUNTED or (name == CLASSES and problem == "single_label_classification")


def _passed_on(forward: Callable[..., Any]) -> bool:
    """Whether ``forward`` hands its keywords to the loss, and adds nothing to that."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(forward))))
    except (OSError, TypeError, SyntaxError):
        return False
    given = 0
    for value in _losses(tree):
        if isinstance(value, ast.Constant) and value.value is None:
            continue
        if not isinstance(value, ast.Call) or getattr(value.func, "attr", "") != "loss_function":
            return False
        if not any(each.arg in (None, "num_items_in_batch") for each in value.keywords):
            return False
        given += 1
    return given > 0


def _losses(tree: ast.AST) -> Iterator[ast.expr | None]:
    """What a loss is set to, told by its name; None where something is added to it, or the like."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            targets, value = list(node.targets), node.value
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets, value = [node.target], None
        elif isinstance(node, ast.BinOp) and not isinstance(node.left, ast.Tuple):
            targets, value = [node.left, node.right], None
        else:
            continue
        names = [one.id for each in targets for one in ast.walk(each) if isinstance(one, ast.Name)]
        if any("loss" in name for name in names):
            yield value


def _alike(model: Any, bound: dict[str, Any]) -> bool:
    """Whether every sample is known to have one label, or as many numbers as the others."""
    collator, name = type(bound.get("data_collator")).__name__, type(model).__name__
    if any(word in collator for word in OF_TOKENS):
        return False
    if type(model).__module__.startswith("transformers.") and any(w in name for w in OF_SAMPLES):
        return True
    data = bound["train_dataset"]
    if isinstance(data, list | tuple) and data and isinstance(data[0], dict):
        return any(_one(data[0][key]) for key in LABELS if key in data[0])
    columns = getattr(data, "features", None)  # of the datasets library
    kinds = [columns[key] for key in LABELS if key in columns] if isinstance(columns, dict) else []
    return any(type(kind).__name__ in ("Value", "ClassLabel") for kind in kinds)


def _one(label: Any) -> bool:
    """A number, or numbers none of which is left out, as whole ones may be."""
    if isinstance(label, int | float):
        return True
    point = getattr(label, "is_floating_point", None)
    return point is not None and (label.numel() == 1 or bool(point()))
