"""Native routes of the console's sign-in, and of downloads by a link.

``/signin`` answers callers without credentials too, because they sign in with it.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final, cast

from fastapi import APIRouter, Depends, Query, Request, Response

from trainshed.api.chain import RequestContext
from trainshed.api.console.browsers import check_connection, connection_of, cookie_header
from trainshed.api.native import models
from trainshed.api.native.callers import Known
from trainshed.api.native.services import Native
from trainshed.model.access import Caller
from trainshed.model.refusals import Code, Refusal
from trainshed.service.auth.access import ANONYMOUS
from trainshed.service.auth.browser_proofs import check_target
from trainshed.service.auth.sign_ins import BrowserSignIn
from trainshed.service.auth.tokens import Nothing
from trainshed.wire.times import rfc3339

NOT_SIGNED_IN: Final = (
    "This browser is not signed in. Sign in at /console/signin with a token, or run trainshed "
    "console where the token is: it prints a link."
)
NO_SIGN_IN: Final = "This server was started with --anonymous and needs no sign-in: open /console/"
NO_CONSOLE: Final = (
    "The console of this server is switched off; an administrator can set enabled = true below "
    "[console] in config.toml, and start the server without --no-console"
)
ONE_WAY: Final = "the body must have either token or code"
BEARER_ONLY: Final = (
    "A signed-in browser cannot make a code; run trainshed console where the token is"
)
NO_LINK: Final = "only a signed-in browser needs a link; send the token with the download itself"


def sign_in_router(native: Native, version: str) -> APIRouter:
    """Return the routes of sign-ins and downloads."""
    router = APIRouter(tags=["access"])
    handlers = SignInHandlers(native, version)

    @router.get("/signin", response_model_exclude_none=True)
    def get_sign_in(call: Call) -> models.SignedInCaller:
        """Return the caller; a signed-in browser also gets the header that its calls need.

        A browser that is not signed in gets 401, or 400 if no browser can sign in.
        """
        return handlers.describe(call)

    @router.post("/signin", response_model_exclude_none=True)
    def sign_in(
        call: Call, response: Response, credential: models.NewSignIn
    ) -> models.SignedInCaller:
        """Sign a browser in with a token or a code; the response sets its cookie."""
        begun = handlers.begin(call, credential)
        response.headers.append("Set-Cookie", _cookie(call, begun))
        return handlers.show(begun)

    @router.delete("/signin")
    def sign_out(call: Call, response: Response, *, everywhere: Everywhere = False) -> Nothing:
        """End the sign-in of this browser, or all sign-ins with its token."""
        handlers.end(call, everywhere=everywhere)
        response.headers.append("Set-Cookie", _cookie(call, None))
        return Nothing()

    @router.post("/signin:code")
    def create_sign_in_code(call: Call, caller: Known) -> models.MadeSignInCode:
        """Create a code with which a browser signs in once, within 60 seconds."""
        if call.browser is not None:
            raise Refusal(Code.PERMISSION_DENIED, BEARER_ONLY)
        handlers.check_wanted()
        code, until = native.sign_ins.make_code(caller)
        return models.MadeSignInCode(code=code, expireTime=cast("str", rfc3339(until)))

    @router.post("/downloads")
    def create_download(call: Call, caller: Known, download: models.NewDownload) -> models.Download:
        """Return a link that a signed-in browser can follow for 60 seconds."""
        return models.Download(path=handlers.link_of(call, caller, download.path))

    return router


def call_of(request: Request) -> RequestContext:
    """Return the call of a request, as the chain's admission left it."""
    call = request.state.call
    if not isinstance(call, RequestContext):
        raise TypeError("the chain's admission must run before a native route")
    return call


Call = Annotated[RequestContext, Depends(call_of)]
Everywhere = Annotated[bool, Query(description="Whether to end all sign-ins with this token.")]


@dataclass(frozen=True, slots=True)
class SignInHandlers:
    """The handlers of the routes of sign-ins and downloads."""

    native: Native
    version: str

    def describe(self, call: RequestContext) -> models.SignedInCaller:
        """Return the caller of a call.  Raises Refusal without credentials."""
        if call.browser is not None:
            return self.show(self.native.sign_ins.current(call.browser))
        if call.caller is not None:
            return self._render(call.caller)
        self._check_possible(call)
        raise Refusal(Code.UNAUTHENTICATED, NOT_SIGNED_IN)

    def begin(self, call: RequestContext, credential: models.NewSignIn) -> BrowserSignIn:
        """Sign a browser in.  Raises Refusal."""
        self._check_possible(call)
        if (credential.token is None) == (credential.code is None):
            raise Refusal(Code.INVALID_ARGUMENT, ONE_WAY)
        sign_ins = self.native.sign_ins
        begun = (
            sign_ins.begin_with_code(credential.code, call.address)
            if credential.code is not None
            else sign_ins.begin_with_token(credential.token or "", call.address)
        )
        call.caller = begun.caller  # the audit log reads it
        return begun

    def show(self, sign_in: BrowserSignIn) -> models.SignedInCaller:
        """Return a browser's sign-in, with the header for its calls."""
        return self._render(sign_in.caller, until=rfc3339(sign_in.until), csrf=sign_in.csrf)

    def end(self, call: RequestContext, *, everywhere: bool) -> None:
        """End the sign-in of a call, or all sign-ins with its token."""
        if everywhere and call.caller is not None:
            self.native.sign_ins.end_everywhere(call.caller)
        if call.browser is not None:
            self.native.sign_ins.end(call.browser.cookie)

    def link_of(self, call: RequestContext, caller: Caller, path: str) -> str:
        """Return the address of a download for the caller's browser.  Raises Refusal."""
        if call.browser is not None:
            return self.native.sign_ins.make_ticket(call.browser, path)
        if caller != ANONYMOUS:
            raise Refusal(Code.FAILED_PRECONDITION, NO_LINK)
        check_target(path)
        return path

    def check_wanted(self) -> None:
        """Raise Refusal if the server has no console, or needs no sign-in."""
        if not self.native.console.is_enabled:
            raise Refusal(Code.FAILED_PRECONDITION, NO_CONSOLE)
        if self.native.console.is_anonymous:
            raise Refusal(Code.FAILED_PRECONDITION, NO_SIGN_IN)

    def _check_possible(self, call: RequestContext) -> None:
        self.check_wanted()
        connection = connection_of(call)
        check_connection(connection, plain_http=self.native.console.plain_http)

    def _render(self, caller: Caller, **more: Any) -> models.SignedInCaller:
        return models.SignedInCaller(
            name=caller.name,
            role=cast("models.GrantedRole", caller.role.name),
            project=caller.project,
            anonymous=self.native.console.is_anonymous,
            version=self.version,
            pageRevision=self.native.console.revision,
            **more,
        )


def _cookie(call: RequestContext, sign_in: BrowserSignIn | None) -> str:
    """Return the header that sets the cookie of a sign-in, or deletes it if None."""
    connection = connection_of(call)
    if sign_in is None:
        return cookie_header(connection, "", datetime.now(UTC))
    return cookie_header(connection, sign_in.cookie, sign_in.until)
