"""A user's script on the unmodified Vertex SDK: make a job of a program, and wait for its end."""

import sys

from google.cloud import aiplatform
from google.oauth2.credentials import Credentials

url, token, code = sys.argv[1:]
aiplatform.init(
    project="demo-proj",
    location="us-central1",
    api_endpoint=url,
    api_transport="rest",
    credentials=Credentials(token),
    staging_bucket="gs://results",
)
pool = {
    "machine_spec": {"machine_type": "n1-standard-4"},
    "replica_count": 1,
    "container_spec": {
        "image_uri": "registry.test/p/img:1",
        "command": ["python", "-c"],
        "args": [code],
    },
}
job = aiplatform.CustomJob("ridden", [pool])
job.run()
sys.stdout.write(f"RETURNED {job.state.name}\n")
