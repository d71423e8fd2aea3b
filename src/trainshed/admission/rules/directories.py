"""The rule about a job's output directory: ``jobDir`` and ``baseOutputDirectory``.

The program gets both, and the server makes a folder for them.  If the value is neither in a bucket
nor on this machine, it would silently become a folder with that name.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from trainshed.admission.context import RuleContext, broken
from trainshed.model.faults import Field, Violation
from trainshed.model.job import JobSpec

ACCEPTED: Final = "gs://BUCKET/PATH, or a path on this machine"
BUCKET_SCHEME: Final = "gs://"

#: Two letters or more, so that a drive letter is not taken for a scheme; one slash is a typing
#: mistake.
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")

#: One letter is enough: the discovery client sends gs://b/j (docs/sources/vertex.md 7).
_BUCKET: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?")


def job_dir_is_a_path(context: RuleContext) -> Iterator[Violation]:
    """The directory of either dialect is a gs:// URI or a local path."""
    yield from violations(context.submitted_spec)


def violations(spec: JobSpec) -> Iterator[Violation]:
    """Yield the violations of a spec's directories.  This check needs no catalog."""
    for directory in (spec.job_dir, spec.base_output_dir):
        fault = None if directory is None else _find_fault(directory)
        if fault:
            yield broken(None, Field.JOB_DIR, "job-dir", fault, ACCEPTED)


def _find_fault(directory: str) -> str | None:
    if not directory.strip():
        return "the directory is empty"
    if any(unicodedata.category(letter) == "Cc" for letter in directory):
        return f"{directory!r} has control characters"
    if directory.startswith(BUCKET_SCHEME):
        return _find_uri_fault(directory)
    scheme = _SCHEME.match(directory)
    if scheme:
        return (
            f"{directory!r} is neither in a bucket nor on this machine: {scheme[1]}: is not gs://"
        )
    return None


def _find_uri_fault(uri: str) -> str | None:
    bucket, _, name = uri.removeprefix(BUCKET_SCHEME).partition("/")
    if not bucket:
        return f"{uri!r} names no bucket"
    if not _BUCKET.fullmatch(bucket):
        return f"{uri!r}: {bucket!r} is not a bucket name"
    if {".", ".."}.intersection(name.split("/")):
        return f"{uri!r}: a path in a bucket must not have '.' or '..' as a part"
    return None
