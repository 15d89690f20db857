"""Typed facts of proofs, for fixes that are asked without their causes."""

from dataclasses import fields

from whyidle import catalog
from whyidle.model import proof_facts
from whyidle.model.proof_facts import ProofFacts

FAMILIES = {
    family: getattr(proof_facts, f"{family.capitalize()}Facts")
    for family in sorted({cause.family for cause in catalog.load_causes().values()})
}


def kinds_of(fix):
    """The classes that the causes of a fix use, each once."""
    causes = catalog.load_causes()
    return list(
        dict.fromkeys(FAMILIES[causes[each].family] for each in catalog.load_fixes()[fix].causes)
    )


def among(kind, values):
    """Those of some values that a class has fields for."""
    return {each.name: values[each.name] for each in fields(kind) if each.name in values}


def facts_of(fix, **values) -> ProofFacts:
    """Values in the class of a cause of the fix that has a field for each.

    Raises:
        StopIteration: there is none.
    """
    if not values:
        return ProofFacts()
    return next(kind(**values) for kind in kinds_of(fix) if among(kind, values) == values)
