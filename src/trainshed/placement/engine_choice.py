"""Chooses the engine of a job, again for each attempt.

A label of the job may name the engine.  Otherwise the first engine in the configured order that
serves the job's region and accepts the job is chosen.  An unavailable engine is chosen only if no
other engine accepts the job; the job then waits for that engine.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trainshed.model.explanation import Explanation, Reason
from trainshed.model.labels import ENGINE_LABEL, OfferedEngine


class PassedOver(NamedTuple):
    """An engine that was not chosen, and why."""

    engine: str
    why: Explanation


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """The chosen engine, and the engines before it that were not chosen."""

    engine: str | None
    """None if no engine can ever run the job."""
    passed: tuple[PassedOver, ...] = ()
    """The engines that were not chosen, in their configured order."""

    @property
    def refusal(self) -> Explanation | None:
        """Why no engine can run the job; None if one can."""
        if self.engine is not None:
            return None
        if len(self.passed) == 1:
            return self.passed[0].why
        reason = self.passed[0].why.reason if self.passed else Reason.NO_SUCH_NODE
        message = _join_passed(self.passed) or "this server runs without any engine"
        return Explanation(reason=reason, message=message)

    @property
    def sentence(self) -> str:
        """The sentence for the job's events; empty if no engine was passed over."""
        if self.engine is None or not self.passed:
            return ""
        return f"Goes to the engine {self.engine}; passed over: {_join_passed(self.passed)}."


#: Returns why the engine of a name can never run the job; None if it can.
Judge = Callable[[str], Explanation | None]


def choose(
    wanted: str | None, region: str | None, offered: Sequence[OfferedEngine], judge: Judge
) -> EngineChoice:
    """Choose an engine by the job's label (``wanted``), or its region, or neither."""
    if wanted is not None and wanted not in {engine.name for engine in offered}:
        return EngineChoice(
            engine=None, passed=(PassedOver(wanted, _explain_unknown(wanted, offered)),)
        )
    passed, unavailable = [], None
    for engine in offered:
        if why := _find_exclusion(engine, wanted, region) or judge(engine.name):
            passed.append(PassedOver(engine.name, why))
        elif engine.away and wanted is None:
            unavailable = unavailable or engine.name
            passed.append(PassedOver(engine.name, engine.away))
        else:
            return EngineChoice(engine=engine.name, passed=tuple(passed))
    if unavailable is None and wanted is not None:
        passed = [row for row in passed if row.engine == wanted]
    return EngineChoice(
        engine=unavailable, passed=tuple(row for row in passed if row.engine != unavailable)
    )


def _find_exclusion(
    engine: OfferedEngine, wanted: str | None, region: str | None
) -> Explanation | None:
    """Return why the job's label or region excludes an engine; None if neither does."""
    if wanted is not None:
        if engine.name == wanted:
            return None
        message = f"the label {ENGINE_LABEL} names {wanted}"
    elif not engine.regions or region is None or region in engine.regions:
        return None
    else:
        message = f"serves the regions {', '.join(engine.regions)}, and the job's is {region}"
    return Explanation(reason=Reason.NO_SUCH_NODE, message=message)


def _explain_unknown(wanted: str, offered: Sequence[OfferedEngine]) -> Explanation:
    names = ", ".join(engine.name for engine in offered)
    message = f"the label {ENGINE_LABEL} names {wanted}, and the server has only: {names or 'none'}"
    return Explanation(reason=Reason.NO_SUCH_NODE, message=message)


def _join_passed(passed: Sequence[PassedOver]) -> str:
    return "; ".join(f"{row.engine} ({row.why.message.rstrip('.')})" for row in passed)
