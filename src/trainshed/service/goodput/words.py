"""The goodput and the cost of a job in one sentence."""

from collections.abc import Mapping
from typing import Final

from trainshed.model.event_kinds import GOODPUT
from trainshed.model.texts import count_noun
from trainshed.planning.amounts import money
from trainshed.planning.goodput import Goodput
from trainshed.planning.job_cost import JobCost
from trainshed.store.records.steps import NewEvent

#: A smaller share of idle GPU time is not mentioned.
_IDLE_MIN: Final = 0.01


def goodput_sentence(goodput: Goodput, cost: JobCost | None, idle: float) -> str:
    """Return the goodput in one sentence, with the cost if a price is known.

    ``idle`` is the share of the held GPU time in which the GPUs ran nothing: a program that makes
    no step and does not hang, such as a notebook, has a goodput and uses no GPU.
    """
    sentence = goodput.words.rstrip(".")
    if idle >= _IDLE_MIN:
        sentence += f"; GPUs idle {100 * idle:.1f} %"
    return _add_cost(sentence, cost)


def study_sentence(goodput: Goodput, trials: int, cost: JobCost | None) -> str:
    """Return the goodput of a study, whose times are weighted, in one sentence with the cost."""
    if not goodput.held_s:
        return goodput.words
    return _add_cost(f"{goodput.short_words} of the time of {count_noun(trials, 'trial')}", cost)


def _add_cost(sentence: str, cost: JobCost | None) -> str:
    if cost is None or cost.amount is None or cost.currency is None:
        return f"{sentence.rstrip('.')}."
    return f"{sentence.rstrip('.')}; cost {cost_words(cost)}."


def cost_words(cost: JobCost) -> str:
    """Return a known amount: ``3.12 USD``, or ``at least 3.12 USD (no price of X is known)``."""
    amount = money(cost.amount or 0.0, cost.currency or "")
    return f"at least {amount} ({'; '.join(cost.lacking)})" if cost.is_at_least else amount


def end_event(
    goodput: Goodput, cost: JobCost | None, idle: float, inputs: Mapping[str, object]
) -> NewEvent:
    """Make the event with the goodput and the cost of a job that has ended.

    ``inputs`` are values of the computation that are not stored elsewhere.
    """
    data: dict[str, object] = {
        **inputs,
        "goodput": goodput.ratio,
        "at_most": goodput.at_most,
        "ettr": goodput.ettr,
        "seconds": goodput.seconds,
        "cost": None if cost is None else cost.document,
    }
    return NewEvent(kind=GOODPUT, message=goodput_sentence(goodput, cost, idle), data=data)
