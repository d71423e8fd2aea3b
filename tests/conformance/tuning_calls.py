"""Tuning with the unmodified Vertex SDK, run by a Python that has it; prints one JSON object.

Scenarios are what a user's script does (docs/sources/vertex.md 4.5, 8).  They run side by side,
for the SDK looks at a job only every five seconds.  Nothing of Trainshed is imported here.
"""

import concurrent.futures
import json
import os
import sys
import time
import traceback

from google.api_core import exceptions
from google.cloud import aiplatform
from google.cloud.aiplatform import hyperparameter_tuning as hpt
from tuning_client import describe_trials, pools
from tuning_low_level import (
    ACCURACY,
    LOW_X,
    convex_stopping,
    created,
    median_stopping,
    safety_and_an_end,
    several_metrics,
)

X = {"x": hpt.DoubleParameterSpec(min=0.01, max=1.0, scale="log")}


def tuning(name, parameters, then="", **more):
    inner = aiplatform.CustomJob("inner", pools(then), base_output_dir="gs://out-bkt/sdk")
    options = {
        "metric_spec": {"accuracy": "maximize"},
        "parameter_spec": parameters,
        "max_trial_count": 3,
        "parallel_trial_count": 3,
        **more,
    }
    return aiplatform.HyperparameterTuningJob(name, inner, **options)


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
    fetched = aiplatform.HyperparameterTuningJob.get(job.resource_name)
    listed = aiplatform.HyperparameterTuningJob.list(filter='display_name="every-kind"')
    return {
        "name": job.resource_name,
        "state": job.state.name,
        "ended": fetched.end_time is not None and fetched.start_time is not None,
        "labels": dict(fetched.labels),
        "trials": describe_trials(job.trials),
        "listed": job.resource_name in [entry.resource_name for entry in listed],
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
    return {
        "name": job.resource_name,
        "state": job.state.name,
        "trials": describe_trials(job.trials),
    }


def labels_of_the_search():
    few = {"max_trial_count": 2, "parallel_trial_count": 2}
    earlier = tuning("earlier", X, search_algorithm="random", **few)
    earlier.run()
    number = earlier.resource_name.rpartition("/")[2]
    labels = {
        "trainshed-prior-x": "25e-2_narrow",
        "trainshed-warm-start": number,
        "trainshed-early-stopping": "asha",
    }
    job = tuning("labelled", X, labels=labels)
    job.run()
    return {
        "name": job.resource_name,
        "earlier": number,
        "state": job.state.name,
        "labels": dict(job.labels) == labels,
        "trials": describe_trials(job.trials),
    }


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
    return {"state": job.state.name, "trials": describe_trials(job.trials)}


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
    result = {
        "state": job.state.name,
        "raised": raised,
        "trials": [trial.state.name for trial in job.trials],
    }
    result["deleted"] = deleted(job.resource_name)
    return result


def deleted(name):
    """A job whose run has failed cannot be deleted by the object that ran it: the SDK's way."""
    aiplatform.HyperparameterTuningJob.get(name).delete()
    try:
        aiplatform.HyperparameterTuningJob.get(name)
    except exceptions.NotFound:
        return True
    return False


def without_a_result():
    job = tuning("in-vain", X, "misspell", max_failed_trial_count=1)
    try:
        job.run()
    except RuntimeError as error:
        return {
            "raised": str(error),
            "state": job.state.name,
            "trials": describe_trials(job.trials),
        }
    return {"raised": None}


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
    refusals = {name: refusal("refused", study) for name, study in bad.items()}
    for name, trial_counts in counts.items():
        refusals[name] = refusal("refused", {"metrics": [ACCURACY]}, **trial_counts)
    refusals["parent"] = high_level_refusal()
    listed = aiplatform.HyperparameterTuningJob.list(filter='display_name="refused"')
    return {"refusals": refusals, "started": len(listed)}


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
    *([labels_of_the_search] if os.environ.get("TRAINSHED_CHAOS") == "full" else []),
)


def run_scenario(scenario):
    try:
        return scenario()
    except Exception:  # noqa: BLE001  # what a user would see is the result
        return {"crashed": traceback.format_exc()[-3000:]}


def main():
    with concurrent.futures.ThreadPoolExecutor(len(SCENARIOS)) as threads:
        running = {
            scenario.__name__: threads.submit(run_scenario, scenario) for scenario in SCENARIOS
        }
    results = {name: future.result() for name, future in running.items()}
    sys.stdout.write("RESULTS " + json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
