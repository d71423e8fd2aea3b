"""Studies of the low-level client, with fields that the high-level classes lack (contract 8).

Nothing of Trainshed is imported here.
"""

import time

from tuning_client import CLIENT, PARENT, describe_trials, pools

LOW_X = {
    "parameter_id": "x",
    "double_value_spec": {"min_value": 0.0, "max_value": 1.0, "default_value": 0.25},
    "scale_type": "UNIT_LINEAR_SCALE",
}
ACCURACY = {"metric_id": "accuracy", "goal": "MAXIMIZE"}
LOSS = {"metric_id": "loss", "goal": "MINIMIZE"}
SAFETY = {"safety_threshold": 100.0, "desired_min_safe_trials_fraction": 0.5}


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
    return {"state": job.state.name, "trials": describe_trials(job.trials), "study": echo}


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
    return low_level("safe", study, max_trial_count=9, parallel_trial_count=1)


def convex_stopping():
    convex = {"max_step_count": 10, "min_step_count": 1, "min_measurement_count": 2}
    convex |= {"learning_rate_parameter_name": "x", "update_all_stopped_trials": False}
    study = {"metrics": [ACCURACY], "convex_automated_stopping_spec": convex}
    return low_level("convex", study, max_trial_count=2, parallel_trial_count=1)


def median_stopping():
    """Trial 4 is by far the worst of a grid, and would hang."""
    study = {
        "metrics": [LOSS | {"goal": "MAXIMIZE"}],
        "parameters": [{"parameter_id": "x", "discrete_value_spec": {"values": [1, 2, 3, 30]}}],
        "algorithm": "GRID_SEARCH",
        "median_automated_stopping_spec": {"use_elapsed_duration": False},
    }
    return low_level("median", study, "hang-above-3", max_trial_count=4, parallel_trial_count=1)
