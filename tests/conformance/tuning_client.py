"""The unmodified Vertex SDK, pointed at the server that the command line names.

Shared by the scenarios of tuning.  Nothing of Trainshed is imported here.
"""

import argparse

from google.cloud import aiplatform
from google.cloud.aiplatform import gapic
from google.oauth2.credentials import Credentials
from tuning_trainer import IMAGE, TRAINER

PARENT = "projects/demo-proj/locations/us-central1"


def pools(then=""):
    container = {"image_uri": IMAGE, "command": ["python", "-c", TRAINER]}
    if then:
        container["args"] = ["--then", then]
    machine = {"machine_type": "n1-standard-4"}
    return [{"machine_spec": machine, "replica_count": 1, "container_spec": container}]


def shown(trials):
    """What a user reads off the trials."""
    return [
        {
            "id": trial.id,
            "state": trial.state.name,
            "values": {each.parameter_id: each.value for each in trial.parameters},
            "final": {each.metric_id: each.value for each in trial.final_measurement.metrics},
            "step": trial.final_measurement.step_count,
            "steps": [each.step_count for each in trial.measurements],
            "job": trial.custom_job,
            "reason": trial.infeasible_reason,
            "timed": trial.start_time is not None and trial.end_time is not None,
        }
        for trial in trials
    ]


parser = argparse.ArgumentParser()
parser.add_argument("--endpoint", required=True)
parser.add_argument("--transport")
parser.add_argument("--token", required=True)
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
CLIENT = gapic.JobServiceClient(
    credentials=CREDENTIALS,
    transport=ARGS.transport,
    client_options={"api_endpoint": ARGS.endpoint},
)
