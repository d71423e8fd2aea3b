"""The variables that connect a program to the gateway, so that gs:// works without changes.

Google's clients, or the libraries that they use, read these variables.  Each library reads others:
requests, curl, aiohttp, httplib2 and gRPC look for certificates in five places.  The needs of each
client were found by experiment (docs/decisions/0041).
"""

import json
from typing import Final

from trainshed.launch.context import Context, Variables, program_of
from trainshed.model.gateway import AUTHORITY, BOTO, BUNDLE, GatewaySight
from trainshed.model.roles import Role

#: Variables by which google-auth, TensorFlow, gcloud and gsutil find a metadata server.
METADATA: Final = ("GCE_METADATA_HOST", "GCE_METADATA_IP", "GCE_METADATA_ROOT")

#: Variables by which clients find their CA bundle.
CERTIFICATES: Final = (
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
    "HTTPLIB2_CA_CERTS",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
)

#: TensorFlow opens a connection for each object, and reads this whole file for each: 170
#: authorities take 7 ms, three times the rest of the call (benchmarks/service/storage.py).
_TENSORFLOW: Final = "CURL_CA_BUNDLE"

#: The location that every bucket has.
BUCKET_LOCATION: Final = "us"

#: Hosts that need no proxy, in addition to those of the job.
_LOCAL: Final = ("localhost", "127.0.0.1", "::1", "metadata.google.internal")

#: gcsfs uses a proxy only if settings of its session say so: fsspec reads this variable.
_FSSPEC: Final = {"FSSPEC_GS": json.dumps({"session_kwargs": {"trust_env": True}})}


def variables(context: Context, role: Role, _index: int) -> Variables:
    """Return the variables for the clients of a replica; a reducer uses no clients of Google."""
    gateway = context.site.gateway
    if gateway is None or role is Role.REDUCER:
        return {}
    return {
        **dict.fromkeys(METADATA, gateway.address),
        **dict.fromkeys(CERTIFICATES, f"{gateway.folder}/{BUNDLE}"),
        **_curl_variables(context, role, gateway),
        "BOTO_PATH": f"/etc/boto.cfg:{gateway.folder}/{BOTO}:~/.boto",  # the user's file wins
        # by default google-auth gives up after 3 s, which is too short on a busy machine
        "GCE_METADATA_TIMEOUT": "30",
        "GOOGLE_CLOUD_PROJECT": context.site.project,
        # with it, TensorFlow requests the bucket before it opens a file, and reports errors:
        # GFile.readline reports none, and returns an empty text if it cannot read
        "GCS_ALLOWED_BUCKET_LOCATIONS": BUCKET_LOCATION,
        # TensorFlow clears this much memory for each block that it reads; the default, 64 MB, takes
        # 50 ms for a file of a few bytes
        "GCS_READ_CACHE_BLOCK_SIZE_MB": "16",
        # otherwise gcsfs requests by gRPC a kind of bucket that Trainshed does not have
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        **({} if gateway.hosts else _proxy_variables(context, gateway)),
    }


def _curl_variables(context: Context, role: Role, gateway: GatewaySight) -> Variables:
    """Return variables with which TensorFlow trusts our authority only, and curl all authorities.

    curl reads TensorFlow's variable too, but its configuration file in CURL_HOME has priority.  A
    value that the user sets applies to both.
    """
    group = context.spec.group(role)
    program = program_of(context.spec, group) if group else None
    if program and _TENSORFLOW in dict(program.env):
        return {}
    return {_TENSORFLOW: f"{gateway.folder}/{AUTHORITY}", "CURL_HOME": gateway.folder}


def _proxy_variables(context: Context, gateway: GatewaySight) -> Variables:
    """Return variables that send https:// through the gateway, for sites without its host names.

    gRPC reads these variables too, and replicas of one job must connect without the proxy.
    """
    peers = dict.fromkeys(address.host for address in context.site.addresses.values())
    no_proxy = ",".join(dict.fromkeys((*_LOCAL, *peers, *gateway.without_proxy)))
    return {
        **dict.fromkeys(("https_proxy", "HTTPS_PROXY"), f"http://{gateway.address}"),
        **dict.fromkeys(("no_proxy", "NO_PROXY"), no_proxy),
        **_FSSPEC,
    }
