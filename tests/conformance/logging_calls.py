"""Reads a log with the unmodified google-cloud-logging; prints one JSON object.

By REST and by gRPC, as a user's script does.  The client adds its own default clause, the last 24
hours, with an offset of ``+0000``.  Nothing of Trainshed is imported here.
"""

import argparse
import json
import sys

from google.cloud import logging
from google.oauth2.credentials import Credentials

FILTERS = {
    "word": 'resource.labels.job_id="{job}" accuracy',
    "severity": 'resource.labels.job_id="{job}" AND severity>=WARNING',
    "expression": 'resource.labels.job_id="{job}" AND jsonPayload.message=~"^line \\\\d$"',
    "refused": "thud=1",
}


def read(client, text):
    try:
        entries = list(client.list_entries(filter_=text, order_by=logging.ASCENDING, page_size=2))
    except Exception as error:  # noqa: BLE001 - a test compares it
        return str(error)
    return [[entry.severity, entry.payload["message"], entry.log_name] for entry in entries]


def main():
    parser = argparse.ArgumentParser()
    for name in ("rest", "grpc", "token", "job"):
        parser.add_argument(f"--{name}")
    args = parser.parse_args()
    results = {}
    for way, endpoint in (("rest", args.rest), ("grpc", args.grpc)):
        client = logging.Client(
            project="demo-proj",
            credentials=Credentials(args.token),
            client_options={"api_endpoint": endpoint},
            _use_grpc=way == "grpc",
        )
        texts = {name: text.replace("{job}", args.job) for name, text in FILTERS.items()}
        results[way] = {name: read(client, text) for name, text in texts.items()}
    sys.stdout.write(f"RESULTS {json.dumps(results)}\n")


main()
