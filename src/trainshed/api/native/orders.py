"""Native routes that change jobs: cancel one or several, change labels, delete."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Request

from trainshed.api.native import models
from trainshed.api.native.callers import ANY_PROJECT, Known, Submittable
from trainshed.api.permissions import refuse_low
from trainshed.model.access import AccessRole, Caller
from trainshed.model.refusals import Code
from trainshed.model.resource_names import ProjectId, ResourceName
from trainshed.service.auth.tokens import Nothing
from trainshed.service.jobs.orders import OK, Enter, JobLabels, JobOrders, OrderResults
from trainshed.service.jobs.refusing import not_found
from trainshed.service.upkeep.audit_log import AuditLog

#: Results that the audit log has: changes, and what the caller may not change.
_AUDITED: Final = frozenset({OK, Code.PERMISSION_DENIED.name})


def enter_named(caller: Known, project: str, request: Request) -> Enter:
    """Return the function that admits the projects of resource names.  Raises Refusal."""
    permissions = request.app.state.permissions
    scope = None
    if project == ANY_PROJECT:
        refuse_low(caller, AccessRole.SUBMITTER)
    else:
        scope = permissions.enter(caller, AccessRole.SUBMITTER, project)

    def enter(named_project: str) -> str:
        if scope not in {None, named_project}:
            raise not_found(f"a job of project {named_project} in project {scope}")
        permissions.authorise(caller, AccessRole.SUBMITTER, named_project)
        return named_project

    return enter


def order_router(orders: JobOrders, audit_log: AuditLog) -> APIRouter:
    """Return the routes that change jobs."""
    router = APIRouter(prefix="/projects/{project}", tags=["jobs"])

    @router.post("/jobs:cancel", response_model_exclude_none=True)
    def cancel_jobs(
        caller: Known,
        enter: Annotated[Enter, Depends(enter_named)],
        cancellation: models.JobNames,
        request: Request,
    ) -> OrderResults:
        """Cancel up to 500 jobs; each has its own result, and one refusal stops no other.

        The project ``-`` permits the jobs of all projects of the caller.
        """
        results = orders.cancel_all(cancellation.names, enter, by=caller.name)
        _audit(audit_log, caller, request.state.call.address, results)
        return results

    @router.post("/jobs/{job}:cancel")
    def cancel_job(caller: Known, project: Submittable, job: str) -> Nothing:
        """Cancel a job, by its AI Platform id or its Vertex number; an ended job stays as it is."""
        orders.cancel(ProjectId(project), job, by=caller.name)
        return Nothing()

    @router.post("/jobs/{job}:resume")
    def resume_job(caller: Known, project: Submittable, job: str) -> Nothing:
        """Resume a job that is held because a person stopped it in its cluster.

        For a tuning job, resume its held trials.
        """
        orders.resume(ProjectId(project), job, by=caller.name)
        return Nothing()

    @router.post("/jobs/{job}:label")
    def label_job(project: Submittable, job: str, changes: models.LabelChanges) -> JobLabels:
        """Set labels of a job, and remove those whose value is null; return all its labels."""
        return orders.label(ProjectId(project), job, changes.labels)

    @router.delete("/jobs/{job}")
    def delete_job(project: Submittable, job: str) -> Nothing:
        """Delete a job that has ended: it is no longer listed; its log stays until retention."""
        orders.delete(ProjectId(project), job)
        return Nothing()

    return router


def _audit(audit_log: AuditLog, caller: Caller, address: str, results: OrderResults) -> None:
    """Log each job of one call: the entry of the call itself has no names."""
    for result in results.results:
        if result.code in _AUDITED:
            audit_log.add(
                caller=caller.name,
                credential=caller.credential,
                address=address,
                method="POST /trainshed/v1/projects/{project}/jobs/{job}:cancel",
                resource=f"/trainshed/v1/{result.name}:cancel",
                project=ResourceName.parse(result.name).project,
                status=result.code,
            )
