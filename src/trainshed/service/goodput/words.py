"""The goodput and the cost of a job in one sentence."""

from trainshed.planning.goodput import Goodput
from trainshed.planning.job_cost import JobCost
from trainshed.planning.plan_words import money


def goodput_sentence(goodput: Goodput, cost: JobCost | None) -> str:
    """Return the goodput in one sentence, with the cost if a price is known."""
    if cost is None or cost.amount is None or cost.currency is None:
        return goodput.words
    return f"{goodput.words.rstrip('.')}; cost {cost_words(cost)}."


def cost_words(cost: JobCost) -> str:
    """Return a known amount: ``3.12 USD``, or ``at least 3.12 USD (no price of X is known)``."""
    amount = money(cost.amount or 0.0, cost.currency or "")
    return f"at least {amount} ({'; '.join(cost.lacking)})" if cost.is_at_least else amount
