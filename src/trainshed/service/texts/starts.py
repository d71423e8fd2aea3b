"""Says whether the job of a text would start now, and which edit of the text would let it start."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainshed.model.explanation import Change, Explanation
from trainshed.model.refusals import Refusal
from trainshed.model.resource_names import ProjectId
from trainshed.service.jobs.job_service import JobService
from trainshed.service.jobs.refusing import Merged
from trainshed.service.jobs.submission import AdmittedJob, JudgedSubmission
from trainshed.service.texts.admitting_changes import apply_change
from trainshed.service.texts.answers import StartChange, StartForecast
from trainshed.service.texts.edits import set_value
from trainshed.service.texts.forecasts import StartForecasts
from trainshed.service.texts.reading import TextJob
from trainshed.service.texts.violation_edits import text_edit

#: Judges a text as a submission does.
Judge = Callable[[ProjectId, TextJob], JudgedSubmission]


@dataclass(frozen=True, slots=True)
class TextStarts:
    """Forecasts for texts.  Thread-safe."""

    jobs: JobService
    forecasts: StartForecasts

    def forecast(
        self,
        project: ProjectId,
        job: TextJob,
        submission: JudgedSubmission,
        admitted: AdmittedJob,
        judge: Judge,
    ) -> StartForecast | None:
        """Return whether a valid job would start now; None if no node has been listed yet."""
        try:
            self.jobs.check_limits(project)
        except Refusal as refusal:
            return StartForecast(now=False, refused=True, message=refusal.message)
        obstacle = self.jobs.find_obstacle(project, admitted)
        if obstacle is None and not self.forecasts.can_tell():
            return None
        why = obstacle or self._forecast(project, admitted)
        if not isinstance(why, Explanation):
            return StartForecast(now=True, refused=False, emulated_on=why)
        return StartForecast(
            now=False,
            refused=obstacle is not None,
            reason=why.reason,
            message=why.message,
            change=_offer(project, job, submission, why.change, judge) if why.change else None,
        )

    def _forecast(self, project: ProjectId, admitted: AdmittedJob) -> Explanation | Sequence[str]:
        engine = self.jobs.choose_engine(admitted.needs(project), admitted.expanded)
        return self.forecasts.forecast(project, admitted, engine)


def _offer(
    project: ProjectId, job: TextJob, submission: JudgedSubmission, change: Change, judge: Judge
) -> StartChange:
    def judge_merged(merged: Merged) -> JudgedSubmission:
        return judge(project, TextJob(job.kind, merged, job.document, merged.region))

    changed = apply_change(change, job.merged, submission, judge_merged)
    if changed is None or changed.location:
        return StartChange(sentence=change.text, location=changed.location if changed else None)
    edit = set_value(job.document, job.root, changed.path, change.accepted)
    title = f"Use {change.accepted}"
    return StartChange(sentence=change.text, edit=text_edit(job, edit, title) if edit else None)
