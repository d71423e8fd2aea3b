"""The goodput and the cost of a job in one sentence."""

from trainshed.model.event_kinds import GOODPUT
from trainshed.model.texts import count_noun
from trainshed.planning.goodput import Goodput
from trainshed.planning.job_cost import JobCost
from trainshed.planning.plan_words import money
from trainshed.store.records.steps import NewEvent


def goodput_sentence(goodput: Goodput, cost: JobCost | None) -> str:
    """Return the goodput in one sentence, with the cost if a price is known."""
    return _add_cost(goodput.words, cost)


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


def end_event(goodput: Goodput, cost: JobCost | None) -> NewEvent:
    """Make the event with the goodput and the cost of a job that has ended."""
    data: dict[str, object] = {
        "goodput": goodput.ratio,
        "at_most": goodput.at_most,
        "ettr": goodput.ettr,
        "seconds": goodput.seconds,
        "cost": None if cost is None else cost.document,
    }
    return NewEvent(kind=GOODPUT, message=goodput_sentence(goodput, cost), data=data)
