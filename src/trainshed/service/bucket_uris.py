"""The gs:// URIs of a job: well formed, and of buckets that its project may use."""

from collections.abc import Iterator

from trainshed.model.faults import Field, FieldPath, UsageFault, Violation
from trainshed.model.job import JobSpec
from trainshed.model.refusals import Code, Refusal
from trainshed.storage.buckets import SCHEME, split
from trainshed.store.base import Rest


def malformed_uris(spec: JobSpec) -> Iterator[Violation]:
    """URIs that cannot be found here.  A package on the server's own disk is none of the job's."""
    for place in (spec.job_dir, spec.base_output_dir):
        if place and place.startswith(SCHEME):
            yield from _malformed(FieldPath(Field.JOB_DIR), "job-dir", place)
    for group in spec.groups:
        path = FieldPath(Field.PACKAGE_URIS, group.role)
        for uri in group.program.package_uris if group.program else ():
            yield from _malformed(path, "package-uris", uri)


def _malformed(path: FieldPath, rule: str, uri: str) -> Iterator[Violation]:
    try:
        split(uri)
    except UsageFault as fault:
        accepted = "gs://BUCKET/NAME"
        yield Violation(field=path, rule=rule, message=str(fault), accepted=accepted)


def claim_buckets(store: Rest, project: str, spec: JobSpec) -> None:
    """Let the project have the buckets that its job writes to; a bucket has one project.

    Raises Refusal (PERMISSION_DENIED) for a bucket of another project.
    """
    written = {_bucket(uri) for uri in (spec.job_dir, spec.base_output_dir) if uri}
    programs = [group.program for group in spec.groups if group.program]
    read = {_bucket(uri) for program in programs for uri in program.package_uris}
    for bucket in sorted((written | read) - {""}):
        known = store.bucket(bucket)
        owner = known[0] if known else project
        if not known and bucket in written:
            owner = store.add_bucket(bucket, project)
        if owner != project:
            message = f"the bucket {bucket} belongs to another project"
            raise Refusal(Code.PERMISSION_DENIED, message)


def _bucket(uri: str) -> str:
    return split(uri)[0] if uri.startswith(SCHEME) else ""
