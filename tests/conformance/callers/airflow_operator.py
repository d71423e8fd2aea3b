"""A task of a DAG with an operator of the Google provider: a model comes back."""

import sys
from unittest.mock import MagicMock

from airflow.providers.google.cloud.operators.vertex_ai.custom_job import (
    CreateCustomContainerTrainingJobOperator,
)

#: A program that saves its model where it is told to.
SAVES = """
import os
from trainshed_trainer import local_path
folder = local_path(os.environ["AIP_MODEL_DIR"])
folder.mkdir(parents=True, exist_ok=True)
(folder / "model").write_text("weights")
"""
train = CreateCustomContainerTrainingJobOperator(
    task_id="train",
    project_id="demo-proj",
    region="us-central1",
    display_name="by-airflow",
    container_uri="registry.test/p/img:1",
    command=["python", "-c", SAVES],
    model_serving_container_image_uri="registry.test/serve:1",
    staging_bucket="gs://stage-bkt",
    machine_type="n1-standard-4",
    replica_count=1,
)
pushed = MagicMock()
model = train.execute({"ti": pushed, "task_instance": pushed})
sys.stdout.write(f"RESULT {model['artifactUri']}\n")
