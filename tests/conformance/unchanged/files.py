"""Programs that read and write gs:// as at Google: google-cloud-storage, gcsfs and pandas."""

import json
import sys

import fsspec
import gcsfs
import google.auth
from google.cloud import storage

BUCKET = sys.argv[1]
credentials, project = google.auth.default()
client = storage.Client()
blob = client.bucket(BUCKET).blob("in/parts.bin", chunk_size=256 << 10)
blob.upload_from_string(b"x" * 700_000)
files = gcsfs.GCSFileSystem()
with files.open(f"{BUCKET}/in/notes.txt", "w") as file:
    file.write("written by gcsfs")
with fsspec.open(f"gs://{BUCKET}/in/notes.txt") as file:
    text = file.read().decode()
results = {
    "project": project,
    "client": client.project,
    "credentials": type(credentials).__name__,
    "names": sorted(blob.name for blob in client.list_blobs(BUCKET, prefix="in/")),
    "size": len(blob.download_as_bytes()),
    "listed": sorted(files.ls(f"{BUCKET}/in")),
    "text": text,
}
sys.stdout.write("RESULTS " + json.dumps(results) + "\n")
