"""The same study by the Vertex SDK; connect.py is what ``trainshed env --python`` prints.

Usage: python sdk.py DIGITS-1.0.TAR.GZ [TRIALS]
"""

import sys

import connect  # noqa: F401  # tells the SDK which server, and as whom
from google.cloud import aiplatform, storage
from google.cloud.aiplatform import hyperparameter_tuning as hpt

BUCKET = "my-bucket"
IMAGE = "us-docker.pkg.dev/vertex-ai/training/sklearn-cpu.1-6:latest"

package, *rest = sys.argv[1:]
trials = int(rest[0]) if rest else 24

blob = storage.Client(project="any").bucket(BUCKET).blob("packages/digits-1.0.tar.gz")
blob.upload_from_filename(package)

trial = aiplatform.CustomJob(
    "digits-trial",
    [
        {
            "machine_spec": {"machine_type": "n1-standard-4"},
            "replica_count": 1,
            "python_package_spec": {
                "executor_image_uri": IMAGE,
                "package_uris": [f"gs://{BUCKET}/{blob.name}"],
                "python_module": "trainer.task",
            },
        }
    ],
    base_output_dir=f"gs://{BUCKET}/digits-sdk",
)
momentum = hpt.DoubleParameterSpec(min=0.0, max=0.99, scale="linear", parent_values=["sgd"])
study = aiplatform.HyperparameterTuningJob(
    "digits-sdk",
    trial,
    metric_spec={"accuracy": "maximize"},
    parameter_spec={
        "learning_rate": hpt.DoubleParameterSpec(min=0.0001, max=0.1, scale="log"),
        "hidden_units": hpt.IntegerParameterSpec(min=8, max=128, scale="log"),
        "batch_size": hpt.DiscreteParameterSpec(values=[32, 64, 128, 256], scale="unspecified"),
        "optimizer": hpt.CategoricalParameterSpec(
            values=["sgd", "adam"], conditional_parameter_spec={"momentum": momentum}
        ),
    },
    max_trial_count=trials,
    parallel_trial_count=min(2, trials),
    measurement_selection="last",  # the SDK's own default is the best one
)
study.run()

for one in sorted(study.trials, key=lambda one: -one.final_measurement.metrics[0].value):
    values = {parameter.parameter_id: parameter.value for parameter in one.parameters}
    print(f"trial {one.id:>2}  {one.final_measurement.metrics[0].value:.4f}  {values}")
