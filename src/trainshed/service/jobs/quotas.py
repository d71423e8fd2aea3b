"""Lists the configured accelerator quotas and their current use."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trainshed.placement.jobs import QuotaRule
from trainshed.placement.quota import EACH, limit_of
from trainshed.store.opening import Store
from trainshed.store.records.jobs import Holding
from trainshed.wire.native_v1 import Answer


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class QuotaUse(Answer):
    """The limit and the present use of an accelerator by a project in a region.

    A rule for ``*`` counts each project or region separately.  Without a rule, ``limit`` is None.
    """

    project: str
    region: str
    accelerator: str
    limit: int | None = None
    in_use: int
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUses(Answer):
    """The quotas of a project, or of all, by project, region and accelerator."""

    quotas: Sequence[QuotaUse]


def list_quotas(
    store: Store, rules: Sequence[QuotaRule], project: str | None
) -> Sequence[QuotaUse]:
    """List the quotas of a project (None: of all projects) with their current use."""
    holdings = [h for h in store.holding() if project in (None, h.project)]
    in_use = list(_in_use(holdings, rules))
    counted = {(use.project, use.region, use.accelerator) for use in in_use}
    unused = (
        use
        for use in _list_unused(rules, project)
        if (use.project, use.region, use.accelerator) not in counted
    )
    return sorted((*in_use, *dict.fromkeys(unused)), key=_sort_key)


def _in_use(holdings: Iterable[Holding], rules: Sequence[QuotaRule]) -> Iterator[QuotaUse]:
    amounts: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for holding in holdings:
        for accelerator, amount in holding.demand.gpus.items():
            amounts[holding.project, holding.demand.region or "", accelerator].append(amount)
    for (project, region, accelerator), counts in amounts.items():
        yield QuotaUse(
            project=project,
            region=region,
            accelerator=accelerator,
            limit=limit_of(rules, project, region, accelerator),
            in_use=sum(counts),
            jobs=len(counts),
        )


def _list_unused(rules: Sequence[QuotaRule], project: str | None) -> Iterator[QuotaUse]:
    """List the rules of a project with nothing in use."""
    for rule in rules:
        if project is not None and rule.project not in (EACH, project):
            continue
        counted_project = project if project is not None else rule.project
        yield QuotaUse(
            project=counted_project,
            region=rule.region,
            accelerator=rule.accelerator,
            limit=limit_of(rules, counted_project, rule.region, rule.accelerator),
            in_use=0,
            jobs=0,
        )


def _sort_key(use: QuotaUse) -> tuple[str, str, str]:
    return use.project, use.region, use.accelerator
