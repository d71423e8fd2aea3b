"""The native route of buckets."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request

from trainshed.api.native import models
from trainshed.api.native.callers import administrator
from trainshed.api.native.services import Native
from trainshed.model.access import AccessRole, Caller
from trainshed.service.upkeep.buckets import AdoptedBucket


def bucket_router(native: Native) -> APIRouter:
    """Return the route that adopts a bucket."""
    router = APIRouter(tags=["buckets"])

    @router.post("/buckets/{bucket}:adopt")
    def adopt(
        bucket: str,
        adopter: models.Adopter,
        caller: Annotated[Caller, Depends(administrator)],
        request: Request,
    ) -> AdoptedBucket:
        """Give a bucket folder that belongs to no project to a project."""
        permissions = request.app.state.permissions
        project = permissions.enter(caller, AccessRole.ADMIN, adopter.project)
        return native.buckets.adopt(bucket, project)

    return router
