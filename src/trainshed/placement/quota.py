"""Quotas: how many GPUs of a type may be in use at once.

A rule with ``*`` for its project or region counts each project or region separately.  Of several
matching rules the most specific applies: first a rule that names the project, then a rule that
names the region, then a rule that names neither.  So an administrator writes the usual limit once,
and adds exceptions.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from trainshed.model.bounded import BoundedDict
from trainshed.model.resources import JobDemand
from trainshed.placement.jobs import QuotaRule

EACH = "*"

#: The most cached claims; above it, the cache drops entries and computes them again.
_REMEMBERED_MAX = 8192


@dataclass(frozen=True, slots=True)
class QuotaBucket:
    """The unit of counting: an accelerator's GPUs in one project and region."""

    project: str
    region: str
    accelerator: str

    def __str__(self) -> str:
        """Return for example ``quota of NVIDIA_TESLA_T4 of project p in us-central1``."""
        where = f" in {self.region}" if self.region else ""
        return f"quota of {self.accelerator} of project {self.project}{where}"


@dataclass(frozen=True, slots=True)
class QuotaClaim:
    """The amount that a job uses of a bucket, and the bucket's limit."""

    bucket: QuotaBucket
    amount: int
    limit: int


@dataclass(frozen=True, slots=True)
class ExceededQuota:
    """A claim that would exceed its limit, because other jobs use ``in_use`` of it."""

    claim: QuotaClaim
    in_use: int


class Quotas:
    """The quota rules, and the GPUs that each job uses of them."""

    def __init__(self, rules: Sequence[QuotaRule] = ()) -> None:
        """Start with no quota in use."""
        self._rules: dict[str, list[QuotaRule]] = {}
        for rule in rules:
            self._rules.setdefault(rule.accelerator, []).append(rule)
        self._in_use: dict[QuotaBucket, int] = {}
        self._users: dict[QuotaBucket, dict[int, None]] = {}
        self._claims: dict[int, tuple[QuotaClaim, ...]] = {}
        self._claims_by_demand = BoundedDict[tuple[str, JobDemand], tuple[QuotaClaim, ...]](
            _REMEMBERED_MAX
        )

    def claims(self, project: str, demand: JobDemand) -> tuple[QuotaClaim, ...]:
        """Return the job's claims on buckets; empty if no rule applies.

        Rules that name no region apply to a job without a region.
        """
        if not self._rules:
            return ()
        claims = self._claims_by_demand.get((project, demand))
        if claims is None:
            claims = self._claims_by_demand[project, demand] = tuple(self._claimed(project, demand))
        return claims

    def exceeded(self, project: str, demand: JobDemand) -> tuple[ExceededQuota, ...]:
        """Return the claims that do not fit now; empty if quota does not block the job."""
        exceeded = []
        for claim in self.claims(project, demand):
            in_use = self._in_use.get(claim.bucket, 0)
            if in_use + claim.amount > claim.limit:
                exceeded.append(ExceededQuota(claim, in_use))
        return tuple(exceeded)

    def too_large(self, project: str, demand: JobDemand) -> tuple[QuotaClaim, ...]:
        """Return the claims that exceed their limit alone, so that waiting does not help."""
        return tuple(c for c in self.claims(project, demand) if c.amount > c.limit)

    def take(self, uid: int, project: str, demand: JobDemand) -> None:
        """Count a job's GPUs as in use, even above a limit; replace the job's earlier claims."""
        self.release(uid)
        claims = self.claims(project, demand)
        for claim in claims:
            self._in_use[claim.bucket] = self._in_use.get(claim.bucket, 0) + claim.amount
            self._users.setdefault(claim.bucket, {})[uid] = None
        if claims:
            self._claims[uid] = claims

    def release(self, uid: int) -> None:
        """Release a job's quota; do nothing for an unknown job."""
        for claim in self._claims.pop(uid, ()):
            self._in_use[claim.bucket] -= claim.amount
            del self._users[claim.bucket][uid]

    def users(self, bucket: QuotaBucket) -> Collection[int]:
        """Return the uids of the jobs that use a bucket, the earliest first."""
        return self._users.get(bucket, {})

    def _claimed(self, project: str, demand: JobDemand) -> Iterator[QuotaClaim]:
        region = demand.region or ""
        for accelerator, amount in sorted(demand.gpus.items()):
            limit = limit_of(self._rules.get(accelerator, ()), project, region, accelerator)
            if limit is not None:
                yield QuotaClaim(QuotaBucket(project, region, accelerator), amount, limit)


def limit_of(rules: Iterable[QuotaRule], project: str, region: str, accelerator: str) -> int | None:
    """Return the limit of the most specific rule for an accelerator; None without a rule."""
    matching = [
        rule
        for rule in rules
        if rule.accelerator == accelerator
        and rule.project in (EACH, project)
        and rule.region in (EACH, region)
    ]
    return max(matching, key=_precedence).limit if matching else None


def _precedence(rule: QuotaRule) -> tuple[bool, bool, int]:
    """Return the precedence of a rule; of two equally specific rules the lower limit applies."""
    return (rule.project != EACH, rule.region != EACH, -rule.limit)
