"""Tuning with the unmodified Vertex SDK, run by a Python that has it; prints one JSON object.

Scenarios are what a user's script does (contracts/vertex-sdk.md 4.5, 8).  They run side by side,
for the SDK looks at a job only every five seconds.  Nothing of Trainshed is imported here.
"""

import argparse
import concurrent.futures
import json
import sys
import time
import traceback

from google.api_core import exceptions
from google.cloud import aiplatform
from google.cloud.aiplatform import gapic
from google.cloud.aiplatform import hyperparameter_tuning as hpt
from google.oauth2.credentials import Credentials
from tuning_trainer import IMAGE, TRAINER

PARENT = "projects/demo-proj/locations/us-central1"
X = {"x": hpt.DoubleParameterSpec(min=0.01, max=1.0, scale="log")}
LOW_X = {
    "parameter_id": "x",
    "double_value_spec": {"min_value": 0.0, "max_value": 1.0, "default_value": 0.25},
    "scale_type": "UNIT_LINEAR_SCALE",
}
ACCURACY = {"metric_id": "accuracy", "goal": "MAXIMIZE"}
LOSS = {"metric_id": "loss", "goal": "MINIMIZE"}


def pools(then=""):
    container = {"image_uri": IMAGE, "command": ["python", "-c", TRAINER]}
    if then:
        container["args"] = ["--then", then]
    machine = {"machine_type": "n1-standard-4"}
    return [{"machine_spec": machine, "replica_count": 1, "container_spec": container}]


def tuning(name, parameters, then="", **more):
    inner = aiplatform.CustomJob("inner", pools(then), base_output_dir="gs://out-bkt/sdk")
    found = {
        "metric_spec": {"accuracy": "maximize"},
        "parameter_spec": parameters,
        "max_trial_count": 3,
        "parallel_trial_count": 3,
        **more,
    }
    return aiplatform.HyperparameterTuningJob(name, inner, **found)


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


def every_kind_of_parameter():
    job = tuning(
        "every-kind",
        {
            **X,
            "units": hpt.IntegerParameterSpec(min=4, max=8, scale="linear"),
            "batch": hpt.DiscreteParameterSpec(values=[16, 32, 64], scale="log"),
            "width": hpt.DiscreteParameterSpec(values=[1, 2], scale="unspecified"),
            "decay": hpt.DoubleParameterSpec(min=0.5, max=0.9, scale="reverse_log"),
            "opt": hpt.CategoricalParameterSpec(values=["adam", "sgd"]),
        },
        labels={"team": "a"},
    )
    job.run(sync=True)
    found = aiplatform.HyperparameterTuningJob.get(job.resource_name)
    listed = aiplatform.HyperparameterTuningJob.list(filter='display_name="every-kind"')
    return {
        "name": job.resource_name,
        "state": job.state.name,
        "ended": found.end_time is not None and found.start_time is not None,
        "labels": dict(found.labels),
        "trials": shown(job.trials),
        "listed": job.resource_name in [each.resource_name for each in listed],
    }


def conditional_parameters():
    job = tuning(
        "conditional",
        {
            **X,
            "model": hpt.CategoricalParameterSpec(
                values=["wide", "deep"],
                conditional_parameter_spec={
                    "layers": hpt.IntegerParameterSpec(
                        min=2,
                        max=3,
                        scale="linear",
                        parent_values=["deep"],
                        conditional_parameter_spec={
                            "skip": hpt.CategoricalParameterSpec(
                                values=["yes", "no"], parent_values=[3]
                            )
                        },
                    ),
                    "width": hpt.DiscreteParameterSpec(
                        values=[64, 128], scale="unspecified", parent_values=["wide"]
                    ),
                },
            ),
        },
        search_algorithm="random",
        max_trial_count=6,
        parallel_trial_count=3,
    )
    job.run()
    return {"name": job.resource_name, "state": job.state.name, "trials": shown(job.trials)}


def a_grid_that_ends():
    job = tuning(
        "grid",
        {
            "x": hpt.IntegerParameterSpec(min=1, max=2, scale="linear"),
            "opt": hpt.CategoricalParameterSpec(values=["adam", "sgd"]),
        },
        search_algorithm="grid",
        max_trial_count=20,
        parallel_trial_count=4,
    )
    job.run()
    return {"state": job.state.name, "trials": shown(job.trials)}


def in_the_background_and_cancelled():
    job = tuning("cancelled", X, "hang")
    job.run(sync=False)
    job.wait_for_resource_creation()
    while job.state.name != "JOB_STATE_RUNNING":
        time.sleep(0.3)
    job.cancel()
    try:
        job.wait()
    except RuntimeError as error:
        raised = str(error)
    found = {
        "state": job.state.name,
        "raised": raised,
        "trials": [trial.state.name for trial in job.trials],
    }
    job.delete()
    return found


def without_a_result():
    job = tuning("in-vain", X, "misspell", max_failed_trial_count=1, max_trial_count=1)
    try:
        job.run()
    except RuntimeError as error:
        return {"raised": str(error), "state": job.state.name, "trials": shown(job.trials)}
    return {"raised": None}


def created(name, study, then="", **counts):
    """A study of the low-level client."""
    job = {
        "display_name": name,
        "study_spec": {"parameters": [LOW_X], **study},
        "max_trial_count": 3,
        "parallel_trial_count": 3,
        "trial_job_spec": {"worker_pool_specs": pools(then)},
        **counts,
    }
    return CLIENT.create_hyperparameter_tuning_job(parent=PARENT, hyperparameter_tuning_job=job)


def low_level(name, study, then="", **counts):
    """The same, seen to its end."""
    job = created(name, study, then, **counts)
    while not job.end_time:
        time.sleep(0.5)
        job = CLIENT.get_hyperparameter_tuning_job(name=job.name)
    echo = type(job).to_dict(job)["study_spec"]
    return {"state": job.state.name, "trials": shown(job.trials), "study": echo}


def several_metrics():
    study = {
        "metrics": [ACCURACY, LOSS],
        "measurement_selection_type": "LAST_MEASUREMENT",
        "observation_noise": "HIGH",
    }
    return low_level("two-objectives", study)


def safety_and_an_end():
    study = {
        "metrics": [ACCURACY, {**LOSS, "safety_config": SAFETY}],
        "measurement_selection_type": "BEST_MEASUREMENT",
        "observation_noise": "LOW",
        "decay_curve_stopping_spec": {"use_elapsed_duration": False},
        "study_stopping_config": {
            "should_stop_asap": True,
            "min_num_trials": 1,
            "max_num_trials": 2,
            "max_num_trials_no_progress": 50,
            "max_duration_no_progress": {"seconds": 3600},
            "minimum_runtime_constraint": {"max_duration": {"seconds": 0}},
            "maximum_runtime_constraint": {"max_duration": {"seconds": 3600}},
        },
    }
    return low_level("safe", study, max_trial_count=9)


def convex_stopping():
    convex = {"max_step_count": 10, "min_step_count": 1, "min_measurement_count": 2}
    convex |= {"learning_rate_parameter_name": "x", "update_all_stopped_trials": False}
    study = {"metrics": [ACCURACY], "convex_automated_stopping_spec": convex}
    return low_level("convex", study, max_trial_count=2, parallel_trial_count=1)


def median_stopping():
    """Trial 4 is the worst of a grid, and would hang."""
    study = {
        "metrics": [LOSS | {"goal": "MAXIMIZE"}],
        "parameters": [{"parameter_id": "x", "discrete_value_spec": {"values": [1, 2, 3, 4]}}],
        "algorithm": "GRID_SEARCH",
        "median_automated_stopping_spec": {"use_elapsed_duration": False},
    }
    return low_level(
        "median", study, "hang-above-3", max_trial_count=4, parallel_trial_count=1
    )


def refused():
    """What each bad study is answered with."""
    bad = {
        "bounds": {"metrics": [ACCURACY], "parameters": [{**LOW_X, "double_value_spec": REVERSED}]},
        "log": {"metrics": [ACCURACY], "parameters": [{**LOW_X, "scale_type": "UNIT_LOG_SCALE"}]},
        "twice": {"metrics": [ACCURACY], "parameters": [LOW_X, LOW_X]},
        "grid": {"metrics": [ACCURACY], "algorithm": "GRID_SEARCH"},
        "lost": {"metrics": [{"metric_id": "timestamp"}]},
        "values": {
            "metrics": [ACCURACY],
            "parameters": [{"parameter_id": "x", "discrete_value_spec": {"values": range(1001)}}],
        },
        "none": {"metrics": []},
    }
    counts = {"parallel": {"max_trial_count": 2, "parallel_trial_count": 3}}
    found = {name: refusal("refused", study) for name, study in bad.items()}
    for name, each in counts.items():
        found[name] = refusal("refused", {"metrics": [ACCURACY]}, **each)
    found["parent"] = high_level_refusal()
    listed = aiplatform.HyperparameterTuningJob.list(filter='display_name="refused"')
    return {"refusals": found, "started": len(listed)}


def refusal(name, study, **counts):
    try:
        created(name, study, **counts)
    except exceptions.GoogleAPICallError as error:
        return [type(error).__name__, str(error)]
    return None


def high_level_refusal():
    child = hpt.IntegerParameterSpec(min=1, max=2, scale="linear", parent_values=["rmsprop"])
    parent = hpt.CategoricalParameterSpec(
        values=["adam"], conditional_parameter_spec={"steps": child}
    )
    try:
        tuning("refused", {**X, "opt": parent}).run()
    except exceptions.GoogleAPICallError as error:
        return [type(error).__name__, str(error)]
    return None


SAFETY = {"safety_threshold": 100.0, "desired_min_safe_trials_fraction": 0.5}
REVERSED = {"min_value": 1.0, "max_value": 0.5}
SCENARIOS = (
    every_kind_of_parameter,
    conditional_parameters,
    a_grid_that_ends,
    in_the_background_and_cancelled,
    without_a_result,
    several_metrics,
    safety_and_an_end,
    convex_stopping,
    median_stopping,
    refused,
)


def tried(scenario):
    try:
        return scenario()
    except Exception:  # noqa: BLE001  # what a user would see is the result
        return {"crashed": traceback.format_exc()[-3000:]}


def main():
    with concurrent.futures.ThreadPoolExecutor(len(SCENARIOS)) as threads:
        running = {each.__name__: threads.submit(tried, each) for each in SCENARIOS}
    results = {name: future.result() for name, future in running.items()}
    sys.stdout.write("RESULTS " + json.dumps(results) + "\n")


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
if __name__ == "__main__":
    main()
