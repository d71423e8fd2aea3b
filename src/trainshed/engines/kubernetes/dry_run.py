"""Sends the JobSet of a probe without storing it: an old JobSet lacks fields that jobs have.

The API names an unknown field of a strict request, and without a strict request drops it.
"""

import re
from dataclasses import replace
from typing import Final

from trainshed.engines.kubernetes import paths
from trainshed.engines.kubernetes.api.client import Client
from trainshed.engines.kubernetes.api.errors import ApiRefused
from trainshed.engines.kubernetes.options import KubernetesOptions
from trainshed.engines.kubernetes.probing.pods import ProbeTarget, compose_probe
from trainshed.engines.kubernetes.request import PodRuntime

_QUERY: Final = {"dryRun": "All", "fieldValidation": "Strict"}
_NAME: Final = "ts-probe-dry-run"
#: No pod is created, so the values of the runtime and the image are never used.
_RUNTIME: Final = PodRuntime(start=("/ld.so",), archive="/a", architecture="any", user=0, group=0)
_IMAGE: Final = "trainshed.invalid/dry-run:1"
_UNKNOWN: Final = re.compile(r'unknown field "([^"]+)"')


def find_unknown_field(client: Client, options: KubernetesOptions, namespace: str) -> str:
    """Return the first field of a job's JobSet that the API does not know; empty: none is known.

    Other refusals, as by a quota or a policy, say nothing about fields.  Raises ApiAway.
    """
    settings = replace(options, probe_image=options.probe_image or _IMAGE)
    jobset = compose_probe(ProbeTarget(settings, "0", namespace, _RUNTIME), _NAME)
    try:
        client.post(paths.jobsets(namespace), jobset, _QUERY)
    except ApiRefused as refusal:
        match = _UNKNOWN.search(refusal.message)
        return match[1] if match else ""
    return ""
