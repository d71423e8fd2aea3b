"""``GET /``: leads a browser to the console, or shows a page about the API without one.

The page is the same for every caller and needs no token, so it contains no project, no version
and no address.  A client that does not accept HTML gets a 404, as for an unknown path.
"""

import base64
import hashlib
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from trainshed.api.chain import ChainServices, guard_page
from trainshed.api.console.pages import CONSOLE_PATH
from trainshed.api.documents import refusal_response
from trainshed.api.incoming import request_context
from trainshed.model.refusals import Code, Refusal

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:3rem auto;padding:0 1rem;"
    "color:#1b1f24;background:#fff}code,pre{font:14px/1.5 ui-monospace,monospace;"
    "background:#f3f5f7}pre{padding:.8rem;overflow-x:auto}"
)
_PAGE: Final = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Trainshed</title>
<link rel="icon" href="data:,">
<style>{_STYLE}</style>
</head>
<body>
<h1>Trainshed</h1>
<p>This server runs training jobs that were written for Google's AI Platform Training and Vertex AI.
Its web console is switched off: use the server from a terminal or a program. An administrator
switches the console on with <code>enabled = true</code> below <code>[console]</code> in
<code>config.toml</code>.</p>
<h2>Submit jobs</h2>
<p>Ask the administrator of this server for a token of your project, and write it to a file that
only you can read. In a shell that has the command <code>trainshed</code>, with the address of this
page as ADDRESS:</p>
<pre>eval "$(trainshed env --shell --url ADDRESS --project PROJECT --token-file FILE)"
trainshed jobs list
gcloud ai-platform jobs list</pre>
<p>If the address begins with <code>https</code>, add <code>--ca-file ca-bundle.pem</code>: the
administrator has that file in <code>tls/</code> of the server's data directory.
<code>trainshed env --python</code> prints the first lines of a script that uses the Vertex SDK.</p>
<h2>Watch jobs</h2>
<pre>trainshed jobs logs JOB --follow
trainshed jobs explain JOB</pre>
<p>The first line shows a job's log. The second says why a job waits.</p>
<h2>Read more</h2>
<p><code>trainshed --help</code> lists all commands. In the folder <code>docs</code> of
Trainshed's repository, <code>index.md</code> lists the guides and the reference by task.
<code>/healthz</code> says whether the server is well. <code>/trainshed/v1/openapi.json</code>
describes the native API, for callers with a token.</p>
</body>
</html>
"""
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
#: The page loads nothing, runs no script, and cannot be framed.
_HEADERS: Final = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept",
}


def front_page_route(services: ChainServices, *, has_console: bool) -> Route:
    """Return the route; it checks the Host and the Origin of a request like the console's page."""

    async def endpoint(request: Request) -> Response:
        try:
            guard_page(services, request_context(request.scope))
        except Refusal as refusal:
            return refusal_response(refusal)
        if "text/html" not in request.headers.get("accept", ""):
            return refusal_response(Refusal(Code.NOT_FOUND, "there is no method at /"))
        if has_console:
            return RedirectResponse(CONSOLE_PATH, 303, headers={"Vary": "Accept"})
        return HTMLResponse(_PAGE, headers=_HEADERS)

    return Route("/", endpoint, include_in_schema=False)
