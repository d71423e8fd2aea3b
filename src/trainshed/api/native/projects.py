"""The native route that lists projects."""

from fastapi import APIRouter, Request

from trainshed.api.native.callers import Known
from trainshed.model.access import ALL_PROJECTS
from trainshed.service.jobs.project_lists import Projects
from trainshed.service.jobs.project_lists import list_projects as list_all
from trainshed.store.opening import Store


def project_router(store: Store) -> APIRouter:
    """Return the route that lists projects."""
    router = APIRouter(tags=["projects"])

    @router.get("/projects")
    def list_projects(caller: Known, request: Request) -> Projects:
        """List the projects that the caller may see, with their open jobs by state."""
        if caller.project == ALL_PROJECTS:
            return list_all(store, None)
        return list_all(store, request.app.state.permissions.project_id(caller.project))

    return router
