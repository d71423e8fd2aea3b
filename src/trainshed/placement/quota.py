"""Quotas: how many GPUs of a type may be in use at once.

A rule with ``*`` for its project or region is counted for each project or region apart.  Of several
rules that match a job, the most special counts: one that names the project before one that names
the region before one that names neither.  So an administrator writes the usual limit once and the
exceptions beside it.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from trainshed.model.bounded import BoundedDict
from trainshed.model.resources import JobDemand
from trainshed.placement.jobs import QuotaRule

EACH = "*"

#: Remembered claims; beyond it they are forgotten all at once, which only costs time.
_REMEMBERED_MAX = 8192


@dataclass(frozen=True, slots=True)
class QuotaBucket:
    """What is counted together: an accelerator's GPUs in one project and region."""

    project: str
    region: str
    accelerator: str

    def __str__(self) -> str:
        """``quota of NVIDIA_TESLA_T4 of project p in us-central1``."""
        where = f" in {self.region}" if self.region else ""
        return f"quota of {self.accelerator} of project {self.project}{where}"


@dataclass(frozen=True, slots=True)
class QuotaClaim:
    """What a job takes of a bucket, and the bucket's limit."""

    bucket: QuotaBucket
    amount: int
    limit: int


@dataclass(frozen=True, slots=True)
class ExceededQuota:
    """A claim that does not fit beside what is in use."""

    claim: QuotaClaim
    in_use: int


class Quotas:
    """The rules, and what is in use by which job."""

    def __init__(self, rules: Sequence[QuotaRule] = ()) -> None:
        """Nothing is in use yet."""
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
        """What the job takes of each bucket; empty where no rule counts it.

        A job without a region is counted by the rules that name none.
        """
        if not self._rules:
            return ()
        claims = self._claims_by_demand.get((project, demand))
        if claims is None:
            claims = self._claims_by_demand[project, demand] = tuple(self._claimed(project, demand))
        return claims

    def exceeded(self, project: str, demand: JobDemand) -> tuple[ExceededQuota, ...]:
        """The claims that do not fit now; empty when quota does not block the job."""
        exceeded = []
        for claim in self.claims(project, demand):
            in_use = self._in_use.get(claim.bucket, 0)
            if in_use + claim.amount > claim.limit:
                exceeded.append(ExceededQuota(claim, in_use))
        return tuple(exceeded)

    def too_large(self, project: str, demand: JobDemand) -> tuple[QuotaClaim, ...]:
        """The claims that exceed their limit by themselves: no waiting helps."""
        return tuple(c for c in self.claims(project, demand) if c.amount > c.limit)

    def take(self, uid: int, project: str, demand: JobDemand) -> None:
        """Count a job's GPUs as in use, whether or not they fit: they are.  Replaces the job's."""
        self.release(uid)
        claims = self.claims(project, demand)
        for claim in claims:
            self._in_use[claim.bucket] = self._in_use.get(claim.bucket, 0) + claim.amount
            self._users.setdefault(claim.bucket, {})[uid] = None
        if claims:
            self._claims[uid] = claims

    def release(self, uid: int) -> None:
        """Give back what a job has in use; nothing for an unknown one."""
        for claim in self._claims.pop(uid, ()):
            self._in_use[claim.bucket] -= claim.amount
            del self._users[claim.bucket][uid]

    def users(self, bucket: QuotaBucket) -> Collection[int]:
        """The jobs that have taken of a bucket, in the order of taking."""
        return self._users.get(bucket, {})

    def _claimed(self, project: str, demand: JobDemand) -> Iterator[QuotaClaim]:
        region = demand.region or ""
        for accelerator, amount in sorted(demand.gpus.items()):
            limit = limit_of(self._rules.get(accelerator, ()), project, region, accelerator)
            if limit is not None:
                yield QuotaClaim(QuotaBucket(project, region, accelerator), amount, limit)


def limit_of(rules: Iterable[QuotaRule], project: str, region: str, accelerator: str) -> int | None:
    """The limit of the most special rule that counts an accelerator there; None without one."""
    matching = [
        rule
        for rule in rules
        if rule.accelerator == accelerator
        and rule.project in (EACH, project)
        and rule.region in (EACH, region)
    ]
    return max(matching, key=_special).limit if matching else None


def _special(rule: QuotaRule) -> tuple[bool, bool, int]:
    """How special a rule is; of two alike the stricter counts."""
    return (rule.project != EACH, rule.region != EACH, -rule.limit)
