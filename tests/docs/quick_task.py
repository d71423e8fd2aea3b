"""Stand in for the trainer of examples/torch-ddp in `make test`: its lines, without PyTorch."""

import argparse
import json
import os
from pathlib import Path

from trainshed_trainer import ReplicaEnv, report_metric

parser = argparse.ArgumentParser()
parser.add_argument("--job-dir", default="runs")
parser.add_argument("--epochs", type=int, default=20)
args = parser.parse_args()
replica = ReplicaEnv.from_environ()
print(f"rank {replica.rank} of {replica.world_size} on cpu", flush=True)
if replica.rank == 0:
    for epoch in range(1, args.epochs + 1):
        print(f"epoch {epoch}/{args.epochs}  loss 0.5  accuracy 0.9  0.1 s", flush=True)
    report_metric("accuracy", 0.9, step=args.epochs)
    folder = Path(args.job_dir.replace("gs:/", os.environ.get("TRAINSHED_BUCKETS", "/gcs"), 1))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text(json.dumps({"accuracy": 0.9}) + "\n")
    print(f"test accuracy 0.9 after {args.epochs} epochs", flush=True)
