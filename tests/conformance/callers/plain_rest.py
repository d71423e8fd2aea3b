"""A deploy script over plain REST: a key of a service account, and the published paths."""

import os
import sys
import time

import google.auth
from google.auth.transport.requests import AuthorizedSession

ENDPOINT = os.environ.get("VERTEX_ENDPOINT", "https://us-central1-aiplatform.googleapis.com")
POOL = {
    "machineSpec": {"machineType": "n1-standard-4"},
    "replicaCount": 1,
    "containerSpec": {
        "imageUri": "registry.test/p/img:1",
        "command": ["python", "-c"],
        "args": ["print('trained')"],
    },
}

credentials, project = google.auth.default(
    scopes=["https://www.googleapis.com/auth/cloud-platform"]
)
session = AuthorizedSession(credentials)
parent = f"{ENDPOINT}/v1/projects/{project}/locations/us-central1/customJobs"
answer = session.post(
    parent, json={"displayName": "by-rest", "jobSpec": {"workerPoolSpecs": [POOL]}}, timeout=60
)
answer.raise_for_status()
job = answer.json()
while job["state"] not in {"JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED"}:
    time.sleep(1)
    job = session.get(f"{ENDPOINT}/v1/{job['name']}", timeout=60).json()
sys.stdout.write(f"RESULT {job['state']}\n")
