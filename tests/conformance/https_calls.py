"""A call of each of Google's Python clients, run by a Python that has them; prints one JSON object.

Whom they trust stands in the environment.  Nothing of Trainshed is imported here.
"""

import json
import sys

from google.cloud import aiplatform, storage
from google.oauth2.credentials import Credentials

URL, TOKEN, *CALLS = sys.argv[1:]
PROJECT, REGION = "demo-proj", "us-central1"
CONTENT = b"over tls " * 100_000


def vertex_sdk():
    aiplatform.init(
        project=PROJECT,
        location=REGION,
        api_endpoint=URL,
        api_transport="rest",
        credentials=Credentials(TOKEN),
    )
    return [job.display_name for job in aiplatform.CustomJob.list()]


def discovery_client():
    from googleapiclient import discovery  # noqa: PLC0415  # the older generation has none

    options = {"api_endpoint": URL}
    ml = discovery.build("ml", "v1", client_options=options, credentials=Credentials(TOKEN))
    jobs = ml.projects().jobs().list(parent=f"projects/{PROJECT}").execute()
    return sorted(job["jobId"] for job in jobs.get("jobs", ()))


def cloud_storage():
    blob = storage.Client(project=PROJECT).bucket("out-bkt").blob("over/tls")
    blob.upload_from_string(CONTENT)
    return blob.download_as_bytes() == CONTENT


def gcsfs_files():
    import gcsfs  # noqa: PLC0415  # the same

    fs = gcsfs.GCSFileSystem(token="anon", project=PROJECT, use_listings_cache=False)
    fs.pipe_file("out-bkt/gcsfs/tls", CONTENT)
    return fs.cat_file("out-bkt/gcsfs/tls") == CONTENT


def main():
    results = {call: globals()[call]() for call in CALLS}
    sys.stdout.write(f"RESULTS {json.dumps(results)}\n")


main()
