"""The ladder for values written in place: the first rung that is provably right, or the reason why none is."""

from __future__ import annotations

from collections.abc import Callable

from tapefix.documents.document import Document
from tapefix.flow.facts import Buffer
from tapefix.rewrite import imports
from tapefix.rewrite.accumulators.arrays import plan_tensor_array
from tapefix.rewrite.accumulators.batched import plan_batched
from tapefix.rewrite.accumulators.elsewhere import plan_filled_elsewhere
from tapefix.rewrite.accumulators.facts import Facts, SyntaxFacts
from tapefix.rewrite.accumulators.functional import plan_functional
from tapefix.rewrite.accumulators.job import Job
from tapefix.rewrite.accumulators.lists import plan_list
from tapefix.rewrite.accumulators.made import plan_unwrapped
from tapefix.rewrite.accumulators.outcome import NotProven, Plan, Refusal, Rung
from tapefix.rewrite.accumulators.slots import plan_slots
from tapefix.rewrite.accumulators.state import plan_state, plan_state_of_one_function
from tapefix.rewrite.accumulators.syntax import syntax_of
from tapefix.rewrite.edits import EditConflict, EditSet

_RUNGS = (
    plan_unwrapped,
    plan_list,
    plan_tensor_array,
    plan_slots,
    plan_state_of_one_function,
    plan_functional,
    plan_state,
)


def plan_shared(document: Document, buffer: Buffer, facts: Facts, others: dict[str, Facts]) -> Plan | Refusal:
    """The rewrite of a buffer that functions of other files fill; `others` are the answers about these, by file."""
    syntax = syntax_of(document)
    edits = EditSet(document)
    try:
        job = Job.of(document, syntax, facts, buffer)
        made = plan_filled_elsewhere(job, edits, others)
        imports.remove_unused(edits)
        return Plan(made.applicability, edits.edits(), made.message, made.rung)
    except NotProven as reason:
        return reason.refusal
    except EditConflict as conflict:
        return Refusal(str(conflict))


def plan(document: Document, buffer: Buffer, facts: Facts | None = None) -> Plan | Refusal:
    """The rewrite of a buffer that cuts a gradient, or why there is none.

    `facts` answers what the tree of the document alone does not tell; by default the tree alone answers.
    """
    syntax = syntax_of(document)
    job = Job.of(document, syntax, facts or SyntaxFacts(syntax), buffer)
    reasons: dict[Callable[[Job, EditSet], Plan], NotProven] = {}
    for rung in _RUNGS:
        edits = EditSet(document)
        try:
            made = rung(job, edits)
            imports.remove_unused(edits)
            return Plan(made.applicability, edits.edits(), made.message, made.rung, made.alternatives)
        except NotProven as reason:
            reasons[rung] = reason
        except EditConflict as conflict:
            reasons[rung] = NotProven(str(conflict))
    return _most_telling(job, reasons).refusal


def _most_telling(job: Job, reasons: dict[Callable[[Job, EditSet], Plan], NotProven]) -> NotProven:
    """The reason of the most general rung that the buffer's kind leaves room for."""
    if not job.writes:
        return reasons[plan_unwrapped]
    return reasons[plan_state if job.made.library == "variable" and job.holder[0] == "attribute" else plan_functional]


__all__ = ["Facts", "NotProven", "Plan", "Refusal", "Rung", "SyntaxFacts", "plan", "plan_batched", "plan_shared"]
