"""Composes the launch plan of a job that a caller could create; stores and starts nothing.

The job passes the checks of a create.  Its plan is composed and rendered by the code that a start
and ``jobs manifest`` use, so that it does not differ from them.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Final

from trainshed.engines.several import Engines
from trainshed.model.faults import EngineFault, Fault, TransientFault
from trainshed.model.launch_plan import LaunchPlan
from trainshed.model.refusals import Code, Refusal
from trainshed.model.resource_names import JobId, resource_name
from trainshed.model.resources import Claim, SeatsOrClaim
from trainshed.service.jobs.job_service import CreateCall, JobService
from trainshed.service.jobs.manifests import Manifest, render_parts
from trainshed.service.jobs.refusing import invalid
from trainshed.service.starts.launching import UNSTORED_KEY, UnstoredJob

#: How long a caller waits for the dry run of another caller, in seconds.
_TURN_S_MAX: Final = 10.0
#: Stands for the number that the store gives a Vertex job.
_NO_NUMBER: Final = "0"
_NOTE: Final = (
    "This is a dry run: ports, job numbers and nodes may differ when the job starts, and the "
    "fleet counts as empty."
)
_TRIAL_NOTE: Final = (
    "This is the plan of one trial without its parameters: the server chooses them when the trial "
    "starts."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRuns:
    """Makes the manifests of jobs that are not stored, one at a time: a plan may be large."""

    jobs: JobService
    engines: Engines
    preview: Callable[[UnstoredJob, SeatsOrClaim], LaunchPlan]
    lock: Lock = field(default_factory=Lock)

    def manifest(self, call: CreateCall) -> Manifest:
        """Compose the manifest that the server would send for the first attempt.

        Raises Refusal as a create does.  Raises FAILED_PRECONDITION for a job that could not be
        started, and UNAVAILABLE if the engine does not answer or other dry runs take too long.
        """
        kind, project, location = call.kind, call.project, call.location
        call.check_location()
        admitted, place = self.jobs.admit(call)
        if isinstance(place, Claim):
            place = replace(place, priority=admitted.spec.scheduling.priority or 0)
        spec = admitted.expanded
        job_id = admitted.spec.job_id or _NO_NUMBER
        notes = (*((_TRIAL_NOTE,) if spec.study else ()), _NOTE)
        unstored = UnstoredJob(
            project=project,
            job_id=job_id,
            spec=spec,
            notes=(*admitted.notes, *notes),
            demand=admitted.demand,
        )
        engine = self.engines.name_at(place)
        with self._take_turn():
            parts = render_parts(self._compose(unstored, place, engine))
        return Manifest(
            job=resource_name(kind.value, project, location, JobId(job_id)),
            attempt=UNSTORED_KEY.attempt,
            engine=engine,
            parts=parts,
            study_start=admitted.start.report if admitted.start else None,
        )

    @contextmanager
    def _take_turn(self) -> Iterator[None]:
        if not self.lock.acquire(timeout=_TURN_S_MAX):
            message = "the server is busy with other dry runs; try again later"
            raise Refusal(Code.UNAVAILABLE, message)
        try:
            yield
        finally:
            self.lock.release()

    def _compose(
        self, unstored: UnstoredJob, place: SeatsOrClaim, engine: str
    ) -> Mapping[str, str]:
        try:
            plan = self.preview(unstored, place)
            return self.engines.get_by_name(engine).manifest(UNSTORED_KEY, plan, place)
        except Fault as fault:
            raise invalid(fault.violations) from None
        except TransientFault as fault:
            message = f"cannot compose the launch plan now: {fault}; try again later"
            raise Refusal(Code.UNAVAILABLE, message) from None
        except EngineFault as fault:
            raise Refusal(Code.FAILED_PRECONDITION, f"the job cannot be started: {fault}") from None
        except OSError as error:
            message = f"cannot compose the launch plan now: {error}; try again later"
            raise Refusal(Code.UNAVAILABLE, message) from error
