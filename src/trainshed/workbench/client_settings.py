"""Variables and properties that point Google's clients at a server, without secrets.

Most settings have their source in docs/sources/gcloud.md 1.1, 1.2, 1.3, 1.4 and 7, and in
docs/sources/vertex.md 2; settings of gsutil, gcsfs and Google's C++ library have none. ``TOKEN``
marks a token in a value; the caller that prints the value replaces the mark.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainshed.model.faults import UsageFault

#: A placeholder for the token's text.
TOKEN = "\0token\0"  # noqa: S105  # a mark, not a token

#: The four APIs that gcloud contacts, and the path that it expects after the address.
_OVERRIDES = {"ml": "", "aiplatform": "", "storage": "storage/v1/", "logging": ""}

#: Variables that name a client's CA bundle.
_HTTPS_VARIABLES = (
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    "REQUESTS_CA_BUNDLE",
    "HTTPLIB2_CA_CERTS",
    "SSL_CERT_FILE",
)

#: gsutil needs https, and has no setting for a token.
_GSUTIL_SETTINGS = Path(__file__).with_name("gsutil.boto")
#: gsutil asks gcloud for an account, and sends no credentials without one.
_ACCOUNT = "trainshed"

#: Seconds between two polls of a log that ``gcloud ai-platform jobs submit training --stream-logs``
#: prints.  It must divide the 10 s after which gcloud checks for the job's end: a poll then comes
#: right before each check, and the server reports the end when that poll can read the last lines
#: (``api.streamed_ends``).
_POLLING_S = "2"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTarget:
    """The address of a server for a client, and its credentials.

    With neither ``token_file`` nor ``token_variable`` the client sends no credentials.
    """

    url: str
    grpc: str | None
    bundle: str | None
    """The CA bundle, for gRPC and https."""
    project: str
    region: str
    token_file: Path | None = None
    token_variable: str | None = None
    """The environment variable with the token, if there is no file."""
    bucket: str | None = None
    """The bucket for the SDK's uploads; None: the project's staging bucket."""
    storage: str | None = None
    """The address for storage clients, with a token for buckets in it; None: unknown."""

    def __post_init__(self) -> None:
        """Refuse values that the clients would refuse later with less precise messages."""
        if self.project.isdecimal():
            raise UsageFault(
                f"--project must be a project id for gcloud, got the number {self.project}"
            )
        if not re.fullmatch(r"https?://[^/\s?#]+", self.url):
            raise UsageFault(
                f"--url must be an address such as http://127.0.0.1:8080, got {self.url}"
            )

    @property
    def anonymous(self) -> bool:
        """Whether the client sends no credentials."""
        return self.token_file is None and self.token_variable is None


def variables(target: ClientTarget) -> dict[str, str | None]:
    """Return variables for gcloud and the SDKs; one with the value None must not be set.

    A storage client that was made without ``credentials`` sends no header to an emulator
    (docs/sources/vertex.md 2.4).  So the path contains a token, which is for buckets only and
    expires soon.
    """
    settings: dict[str, str | None] = {
        f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api.upper()}": address
        for api, address in _addresses(target).items()
    }
    settings["CLOUDSDK_AUTH_DISABLE_CREDENTIALS"] = "true" if target.anonymous else "false"
    token_file = None if target.token_file is None else str(target.token_file)
    settings["CLOUDSDK_AUTH_ACCESS_TOKEN_FILE"] = token_file
    settings["CLOUDSDK_AUTH_ACCESS_TOKEN"] = TOKEN if target.token_variable else None
    settings["CLOUDSDK_CORE_PROJECT"] = target.project
    settings["CLOUDSDK_COMPUTE_REGION"] = target.region
    settings["CLOUDSDK_AI_REGION"] = target.region
    settings["CLOUDSDK_CORE_DISABLE_USAGE_REPORTING"] = "true"
    # with gcloud's default of 60 s, streamed logs are late and gcloud ends minutes after the job
    settings["CLOUDSDK_ML_ENGINE_POLLING_INTERVAL"] = _POLLING_S
    settings["STORAGE_EMULATOR_HOST"] = target.url if target.anonymous else target.storage
    # the same for clients on Google's C++ library, such as pyarrow below pandas
    settings["CLOUD_STORAGE_EMULATOR_ENDPOINT"] = settings["STORAGE_EMULATOR_HOST"]
    # without it gcsfs calls an emulator's HTTP port by gRPC and waits for a minute
    settings["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
    settings["BOTO_CONFIG"] = str(_GSUTIL_SETTINGS)
    settings["CLOUDSDK_CORE_ACCOUNT"] = None if target.anonymous else _ACCOUNT
    return settings | certificate_variables(target)


def certificate_variables(target: ClientTarget) -> dict[str, str]:
    """Return the variables of the CA bundle: for gRPC if the server offers it, and for https.

    Each variable replaces the public authorities, so the bundle has them too.  Each client reads a
    different variable: gcloud, requests (google-cloud-storage and the SDKs), httplib2 (the
    discovery client), and clients with Python's own list, such as aiohttp below gcsfs.
    """
    if target.bundle is None:
        return {}
    settings = {}
    if target.grpc:
        settings["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"] = target.bundle
    if target.url.startswith("https:"):
        settings |= dict.fromkeys(_HTTPS_VARIABLES, target.bundle)
    return settings


def properties(target: ClientTarget) -> Mapping[str, str]:
    """Return the properties of gcloud; setting them needs no network.

    ``compute/region`` is not among them: gcloud asks Google whether there is such a region.
    Raises UsageFault if the token is not in a file: a property cannot contain a token.
    """
    if target.token_variable:
        raise UsageFault(
            f"gcloud's properties can name a file with a token, not {target.token_variable}; "
            "write the token to a file of mode 600 and add --token-file FILE"
        )
    settings = {f"api_endpoint_overrides/{api}": url for api, url in _addresses(target).items()}
    settings["auth/disable_credentials"] = "true" if target.anonymous else "false"
    if target.token_file:
        settings["auth/access_token_file"] = str(target.token_file)
    settings["core/project"] = target.project
    settings["ai/region"] = target.region
    settings["ml_engine/polling_interval"] = _POLLING_S
    if target.url.startswith("https:") and target.bundle:
        settings["core/custom_ca_certs_file"] = target.bundle
    return settings


def bucket_address(url: str, text: str) -> str:
    """Return a server's address with a token for buckets in its path."""
    return f"{url}/as/{text}"


def staging_bucket(target: ClientTarget) -> str:
    """Return the name of the bucket for the SDK's uploads."""
    return target.bucket or f"{re.sub('[^a-z0-9-]+', '-', target.project)}-staging"


def _addresses(target: ClientTarget) -> Mapping[str, str]:
    return {api: f"{target.url}/{path}" for api, path in _OVERRIDES.items()}
