"""Calls of google-api-python-client, run by a Python that has it; prints one JSON object.

Nothing of Trainshed is imported here (docs/sources/vertex.md 7).
"""

import json
import sys
import time

from google.oauth2.credentials import Credentials
from googleapiclient import discovery
from googleapiclient.errors import HttpError

URL, TOKEN = sys.argv[1:]
PARENT = "projects/demo-proj"
FINAL = {"SUCCEEDED", "FAILED", "CANCELLED"}


def service(name):
    return discovery.build(
        name, "v1", client_options={"api_endpoint": URL}, credentials=Credentials(TOKEN)
    )


def awaited(get, is_over):
    while not is_over(job := get().execute()):
        time.sleep(0.3)
    return job


def ml():
    jobs = service("ml").projects().jobs()
    body = {
        "jobId": f"discovered_{int(time.time())}",
        "labels": {"a": "b"},
        "trainingInput": {
            "scaleTier": "CUSTOM",
            "masterType": "n1-standard-4",
            "masterConfig": {
                "imageUri": "registry.test/p/img:1",
                "containerCommand": ["python", "-c"],
                "containerArgs": ["print('trained')"],
            },
            "region": "us-central1",
        },
    }
    created = jobs.create(parent=PARENT, body=body).execute()
    name = f"{PARENT}/jobs/{created['jobId']}"
    patched = jobs.patch(name=name, updateMask="labels", body={"labels": {"c": "d"}}).execute()
    stale = error_of(
        lambda: jobs.patch(
            name=name, updateMask="labels,etag", body={"labels": {}, "etag": "AAAA"}
        ).execute()
    )
    ended = awaited(lambda: jobs.get(name=name), lambda job: job["state"] in FINAL)
    jobs.cancel(name=name).execute()
    pages = [jobs.list(parent=PARENT, pageSize=1, filter="jobId:discovered*").execute()]
    while following := pages[-1].get("nextPageToken"):
        pages.append(
            jobs.list(
                parent=PARENT, pageSize=1, filter="jobId:discovered*", pageToken=following
            ).execute()
        )
    return {
        "created": created["state"],
        "echo": created["trainingInput"] == body["trainingInput"],
        "patched": patched["labels"],
        "stale": stale,
        "ended": ended["state"],
        "times": all(ended.get(key) for key in ("createTime", "startTime", "endTime")),
        "again": error_of(lambda: jobs.create(parent=PARENT, body=body).execute()),
        "missing": error_of(lambda: jobs.get(name=f"{PARENT}/jobs/none").execute()),
        "listed": sum(len(page.get("jobs", [])) for page in pages),
    }


def vertex():
    jobs = service("aiplatform").projects().locations().customJobs()
    parent = f"{PARENT}/locations/us-central1"
    pool = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": "1",
        "containerSpec": {
            "imageUri": "registry.test/p/img:1",
            "command": ["python", "-c"],
            "args": ["print('trained')"],
        },
    }
    body = {"displayName": "discovered", "jobSpec": {"workerPoolSpecs": [pool]}}
    created = jobs.create(parent=parent, body=body).execute()
    ended = awaited(
        lambda: jobs.get(name=created["name"]), lambda job: job["state"].endswith(tuple(FINAL))
    )
    masked = jobs.list(parent=parent, readMask="name,displayName", pageSize=1).execute()
    operation = jobs.delete(name=created["name"]).execute()
    return {
        "ended": ended["state"],
        "masked": sorted(masked["customJobs"][0]),
        "deleted": operation["done"] and "response" in operation,
        "gone": error_of(lambda: jobs.get(name=created["name"]).execute()),
        "no_name": error_of(
            lambda: jobs.create(parent=parent, body={"jobSpec": body["jobSpec"]}).execute()
        ),
    }


def error_of(call):
    try:
        call()
    except HttpError as error:
        return [error.resp.status, str(error)]
    return None


sys.stdout.write(json.dumps({"ml": ml(), "vertex": vertex()}) + "\n")
