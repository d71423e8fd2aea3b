"""scikit-learn: a model is dumped by joblib and uploaded, as the samples of AI Platform do it."""

import datetime
import os
import pickle

import gcsfs
import joblib
import pandas as pd
from google.cloud import storage
from sklearn.linear_model import LogisticRegression

from trainers.flags import parsed


def main():
    args = parsed()
    blob = storage.Blob.from_string(f"{args.data}/iris.csv", client=storage.Client())
    blob.download_to_filename("iris.csv")
    frame = pd.read_csv("iris.csv")
    model = LogisticRegression(max_iter=500)
    model.fit(frame.drop(columns="species"), frame["species"])

    joblib.dump(model, "model.joblib")
    stamp = datetime.datetime.now(datetime.timezone.utc).strftime("iris_%Y%m%d_%H%M%S")
    for uri in (f"{args.output}/{stamp}/model.joblib", f"{args.output}/model.joblib"):
        upload = storage.Blob.from_string(uri, client=storage.Client())
        upload.upload_from_filename("model.joblib")
    with gcsfs.GCSFileSystem().open(f"{args.output}/model.pkl", "wb") as file:
        pickle.dump(model, file)

    with gcsfs.GCSFileSystem().open(f"{args.output}/model.joblib") as file:
        again = joblib.load(file)
    assert again.score(frame.drop(columns="species"), frame["species"]) > 0.9
    assert os.path.getsize("model.joblib") == upload.size


if __name__ == "__main__":
    main()
