"""The first lines of a script that uses the Vertex SDK; they run as printed."""

from collections.abc import Iterator

from trainshed.model.faults import UsageFault
from trainshed.workbench.client_settings import (
    TOKEN,
    Target,
    certificate_variables,
    staging_bucket,
    storage_address,
)


def python_snippet(target: Target, transport: str) -> str:
    """Raises UsageFault for gRPC where the server offers none, or none is known."""
    if transport == "grpc" and target.grpc is None:
        raise UsageFault("no gRPC address is known; leave --transport grpc out")
    return "\n".join([*_head(target), "", *_imports(target), "", *_init(target, transport)])


def _head(target: Target) -> Iterator[str]:
    """Variables come first: the clients read them when they are imported."""
    yield "import os"
    if target.token_file:
        yield "from pathlib import Path"
    yield ""
    if target.token_file:
        yield f"token = Path({str(target.token_file)!r}).read_text().strip()"
    elif target.token_variable:
        yield f"token = os.environ[{target.token_variable!r}]"
    before, mark, _ = storage_address(target).partition(TOKEN)
    yield f'os.environ["STORAGE_EMULATOR_HOST"] = {before!r}{" + token" if mark else ""}'
    for name, value in certificate_variables(target).items():
        yield f"os.environ[{name!r}] = {value!r}"


def _imports(target: Target) -> Iterator[str]:
    if target.anonymous:
        yield "from google.auth.credentials import AnonymousCredentials"
    yield "from google.cloud import aiplatform"
    if not target.anonymous:
        yield "from google.oauth2.credentials import Credentials"


def _init(target: Target, transport: str) -> Iterator[str]:
    credentials = "AnonymousCredentials()" if target.anonymous else "Credentials(token)"
    endpoint = target.grpc if transport == "grpc" else target.url
    yield "aiplatform.init("
    yield f"    project={target.project!r},"
    yield f"    location={target.region!r},"
    yield f"    api_endpoint={endpoint!r},"
    yield f"    api_transport={transport!r},"
    yield f"    credentials={credentials},"
    yield f"    staging_bucket={staging_bucket(target.project)!r},"
    yield ")"
