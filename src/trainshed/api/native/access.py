"""Native routes of access: tokens, keys, tokens for buckets, and the audit log."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from trainshed.api.native import models
from trainshed.api.native.callers import Known, Readable, administrator
from trainshed.api.native.services import Native
from trainshed.service.auth import bucket_tokens, signing_keys, tokens
from trainshed.service.auth.bucket_tokens import BucketToken, MadeBucketToken
from trainshed.service.auth.signing_keys import Keys, KeySummary
from trainshed.service.auth.tokens import MadeToken, Nothing, Tokens
from trainshed.service.upkeep import audit_log
from trainshed.service.upkeep.audit_log import AuditPage
from trainshed.store.opening import Store


def credential_router(native: Native) -> APIRouter:
    """Return the routes of tokens and keys, for administrators."""
    router = APIRouter(tags=["access"], dependencies=[Depends(administrator)])
    store, access = native.store, native.access

    @router.get("/tokens", response_model_exclude_none=True)
    def list_tokens() -> Tokens:
        """List the tokens without their texts, with the minute of their last use."""
        access.note_use()
        return tokens.listing(store)

    @router.post("/tokens", response_model_exclude_none=True)
    def create_token(token: models.NewToken) -> MadeToken:
        """Create a token; only this response contains its text."""
        return tokens.create(store, token.model_dump(exclude_none=True))

    @router.delete("/tokens/{token}")
    def revoke_token(token: str) -> Nothing:
        """Revoke a token."""
        revoked = tokens.revoke(store, token)
        access.forget()
        return revoked

    @router.get("/keys")
    def list_keys() -> Keys:
        """List the registered keys."""
        return signing_keys.listing(store)

    @router.post("/keys")
    def add_key(key: models.NewKey) -> KeySummary:
        """Register the public key of a service account, which signs its own tokens."""
        return signing_keys.add(store, key.model_dump(exclude_none=True))

    @router.delete("/keys/{key}")
    def remove_key(key: str) -> Nothing:
        """Remove a key."""
        removed = signing_keys.remove(store, key)
        access.forget()
        return removed

    return router


def bucket_token_router(store: Store) -> APIRouter:
    """Return the routes of tokens for buckets."""
    router = APIRouter(prefix="/projects/{project}/bucketTokens", tags=["access"])

    @router.post("")
    def create_bucket_token(
        caller: Known, project: Readable, token: models.NewBucketToken
    ) -> MadeBucketToken:
        """Create a token for buckets, for storage clients that cannot send a header."""
        return bucket_tokens.create(store, caller, project, token.model_dump(exclude_none=True))

    @router.post("/{token}:renew")
    def renew_bucket_token(
        caller: Known, project: Readable, token: str, life: models.Life | None = None
    ) -> BucketToken:
        """Extend a token for buckets that the caller created."""
        del project
        document = life.model_dump(exclude_none=True) if life else {}
        return bucket_tokens.renew(store, caller, token, document)

    return router


def audit_router(native: Native) -> APIRouter:
    """Return the route of the audit log, for administrators."""
    router = APIRouter(tags=["access"], dependencies=[Depends(administrator)])

    @router.get("/audit")
    def list_audit_log(
        project: str | None = None,
        since: str | None = None,
        limit: Annotated[int, Query(ge=1, le=audit_log.LIST_MAX)] = audit_log.LIST_MAX,
    ) -> AuditPage:
        """List the newest entries of the audit log, in order: changes and refused calls."""
        native.audit_log.write()
        query = {"project": project, "since": since, "limit": limit}
        return audit_log.listing(native.store, query)

    return router
