"""The unmodified Vertex SDK, pointed at the server that the command line names.

Shared by the scripts that a Python with the SDK runs.  Nothing of Trainshed is imported here.
"""

import argparse

from google.cloud import aiplatform
from google.oauth2.credentials import Credentials

parser = argparse.ArgumentParser()
parser.add_argument("--endpoint", required=True)
parser.add_argument("--transport")
parser.add_argument("--token", required=True)
parser.add_argument("--cases", nargs="*", help="the names of some cases; all by default")
ARGS = parser.parse_args()
CREDENTIALS = Credentials(ARGS.token)
aiplatform.init(
    project="demo-proj",
    location="us-central1",
    api_endpoint=ARGS.endpoint,
    api_transport=ARGS.transport,
    credentials=CREDENTIALS,
    staging_bucket="gs://stage-bkt",
)
