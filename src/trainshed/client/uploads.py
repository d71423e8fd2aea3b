"""Uploads packages to a bucket, under the names that gcloud gives them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from trainshed.model.faults import UsageFault
from trainshed.storage.buckets import SCHEME, split

if TYPE_CHECKING:
    from trainshed.client.http import Server

_TYPES: Final = {".gz": "application/x-tar", ".whl": "application/zip", ".zip": "application/zip"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """The bucket for the packages of one submit, and the prefix of their names."""

    bucket: str
    prefix: str

    def upload(self, server: "Server", files: Sequence[Path]) -> list[str]:
        """Send files and return their URIs, which contain the digest of all of them together."""
        folder = f"{self.prefix}/{_digest(files)}"
        return [self._upload(server, file, f"{folder}/{file.name}") for file in files]

    def _upload(self, server: "Server", file: Path, name: str) -> str:
        path = f"/upload/storage/v1/b/{quote(self.bucket, safe='')}/o"
        kind = _TYPES.get(file.suffix, "application/octet-stream")
        with file.open("rb") as content:
            query = {"uploadType": "media", "name": name}
            response = server.put_file(path, content, kind, query)
        return f"{SCHEME}{response['bucket']}/{response['name']}"


def staging_of(job_id: str, bucket: str | None, job_dir: str | None) -> Staging:
    """Return the folder for a job's packages: in its staging bucket, else in its job directory.

    See docs/sources/gcloud.md 4.  Raises UsageFault if neither is in a bucket.
    """
    if bucket:
        name, folder = split(bucket if "://" in bucket else f"{SCHEME}{bucket}")
        return Staging(bucket=name, prefix=f"{folder.strip('/')}/{job_id}".lstrip("/"))
    if job_dir and job_dir.startswith(SCHEME):
        name, folder = split(job_dir)
        return Staging(bucket=name, prefix=f"{folder.strip('/')}/packages".lstrip("/"))
    raise UsageFault(
        "local packages need a bucket: give --staging-bucket gs://BUCKET, or a "
        "--job-dir that begins with gs:// (trainshed buckets create BUCKET makes one)"
    )


def _digest(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as content:
            while piece := content.read(1 << 20):
                digest.update(piece)
    return digest.hexdigest()
