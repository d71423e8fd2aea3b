"""What the scenarios of tuning share.  Nothing of Trainshed is imported here."""

from google.cloud.aiplatform import gapic
from sdk_connection import ARGS, CREDENTIALS
from tuning_trainer import IMAGE, TRAINER

PARENT = "projects/demo-proj/locations/us-central1"


def pools(then=""):
    container = {"image_uri": IMAGE, "command": ["python", "-c", TRAINER]}
    if then:
        container["args"] = ["--then", then]
    machine = {"machine_type": "n1-standard-4"}
    return [{"machine_spec": machine, "replica_count": 1, "container_spec": container}]


def describe_trials(trials):
    """What a user reads off the trials."""
    return [
        {
            "id": trial.id,
            "state": trial.state.name,
            "values": {parameter.parameter_id: parameter.value for parameter in trial.parameters},
            "final": {metric.metric_id: metric.value for metric in trial.final_measurement.metrics},
            "step": trial.final_measurement.step_count,
            "steps": [measurement.step_count for measurement in trial.measurements],
            "job": trial.custom_job,
            "reason": trial.infeasible_reason,
            "timed": trial.start_time is not None and trial.end_time is not None,
        }
        for trial in trials
    ]


CLIENT = gapic.JobServiceClient(
    credentials=CREDENTIALS,
    transport=ARGS.transport,
    client_options={"api_endpoint": ARGS.endpoint},
)
