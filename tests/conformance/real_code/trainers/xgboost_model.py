"""XGBoost: the data comes by gsutil, the model goes by google-cloud-storage and gsutil."""

import os
import subprocess
import sys

import pandas as pd
import xgboost as xgb
from google.cloud import storage

from trainers.flags import parsed, split


def main():
    args = parsed()
    subprocess.check_call(["gsutil", "cp", f"{args.data}/iris.csv", "data.csv"], stderr=sys.stdout)
    frame = pd.read_csv("data.csv")
    labels = frame.pop("species").astype("category").cat.codes
    train = xgb.DMatrix(frame, label=labels)
    params = {"objective": "multi:softmax", "num_class": 3, "nthread": 1}
    booster = xgb.train(params, train, 10)

    booster.save_model("model.bst")
    bucket, folder = split(args.output)
    blob = storage.Client().bucket(bucket).blob(f"{folder}/model.bst")
    blob.upload_from_filename("model.bst")
    subprocess.check_call(
        ["gsutil", "cp", f"{args.output}/model.bst", "again.bst"], stderr=sys.stdout
    )
    assert os.path.getsize("again.bst") == os.path.getsize("model.bst")
    again = xgb.Booster(model_file="again.bst")
    assert (again.predict(train) == labels).mean() > 0.9


if __name__ == "__main__":
    main()
