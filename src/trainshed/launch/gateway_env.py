"""What tells a program of the gateway, so that gs:// is there without a word of its own.

Every variable here is one that some client of Google's, or a library below it, reads by itself.
Each reads another: requests, curl, aiohttp, httplib2 and gRPC look for certificates in five places.
What each client needs was tried, one by one (docs/decisions/0041).
"""

import json
from typing import Final

from trainshed.launch.context import Context, Variables, program_of
from trainshed.model.gateway import AUTHORITY, BOTO, BUNDLE, GatewaySight
from trainshed.model.roles import Role

#: Clients find a metadata server by one of them: google-auth, TensorFlow, gcloud, gsutil.
METADATA: Final = ("GCE_METADATA_HOST", "GCE_METADATA_IP", "GCE_METADATA_ROOT")

#: Clients find their CA bundle by one of them.
CERTIFICATES: Final = (
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
    "HTTPLIB2_CA_CERTS",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
)

#: TensorFlow opens a connection for each object, and for each it reads all of this file:
#: 170 authorities cost it 7 ms, three times all the rest (benchmarks/service/storage.py).
_TENSORFLOW: Final = "CURL_CA_BUNDLE"

#: Where every bucket here says that it is.
BUCKET_LOCATION: Final = "us"

#: Hosts that are reached without a proxy, besides those of the job.
_LOCAL: Final = ("localhost", "127.0.0.1", "::1", "metadata.google.internal")

#: gcsfs asks a proxy only where settings of its session say so: fsspec reads this name.
_FSSPEC: Final = {"FSSPEC_GS": json.dumps({"session_kwargs": {"trust_env": True}})}


def variables(context: Context, role: Role, _index: int) -> Variables:
    """Give a replica what its clients look for; a reducer is our own program, and has none."""
    sight = context.site.gateway
    if sight is None or role is Role.REDUCER:
        return {}
    return {
        **dict.fromkeys(METADATA, sight.address),
        **dict.fromkeys(CERTIFICATES, f"{sight.folder}/{BUNDLE}"),
        **_of_curl(context, role, sight),
        "BOTO_PATH": f"/etc/boto.cfg:{sight.folder}/{BOTO}:~/.boto",  # the last word is the user's
        # google-auth gives up on a machine that is busy: 3 s by default
        "GCE_METADATA_TIMEOUT": "30",
        "GOOGLE_CLOUD_PROJECT": context.site.project,
        # TensorFlow then asks for a bucket before it opens a file, and says what is wrong: its
        # GFile.readline tells of no error, and takes what cannot be read for empty
        "GCS_ALLOWED_BUCKET_LOCATIONS": BUCKET_LOCATION,
        # TensorFlow clears so much memory for each piece that it reads: 64 by default, which costs
        # 50 ms for a file of a few bytes
        "GCS_READ_CACHE_BLOCK_SIZE_MB": "16",
        # it would ask by gRPC for a kind of bucket that is not here
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        **({} if sight.hosts else _proxy_variables(context, sight)),
    }


def _of_curl(context: Context, role: Role, sight: GatewaySight) -> Variables:
    """TensorFlow trusts ours alone; the command curl reads the same name, and gets all by a file.

    A user who sets the name means both.
    """
    group = context.spec.group(role)
    program = program_of(context.spec, group) if group else None
    if program and _TENSORFLOW in dict(program.env):
        return {}
    return {_TENSORFLOW: f"{sight.folder}/{AUTHORITY}", "CURL_HOME": sight.folder}


def _proxy_variables(context: Context, sight: GatewaySight) -> Variables:
    """Where Google's names lead elsewhere, https:// goes through the gateway.

    gRPC obeys these too, and replicas of one job must meet without it.
    """
    peers = dict.fromkeys(address.host for address in context.site.addresses.values())
    without = ",".join(dict.fromkeys((*_LOCAL, *peers, *sight.without_proxy)))
    return {
        **dict.fromkeys(("https_proxy", "HTTPS_PROXY"), f"http://{sight.address}"),
        **dict.fromkeys(("no_proxy", "NO_PROXY"), without),
        **_FSSPEC,
    }
