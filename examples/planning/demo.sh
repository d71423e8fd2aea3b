#!/bin/sh
# The digits trainer is measured on this machine for some seconds, and planned for 1 to 8 hosts.
set -eu
out=${1:?usage: demo.sh FOLDER}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$here/../torch-reduction"

echo "how long a step takes here, and a link of 200 Mbit/s, of which a stream gets 191:"
trainshed plan calibrate --module-name trainer.task --package-path trainer --runs A --seconds 10 --batch 24 \
    --machine-type n1-standard-4 --network-gbps 0.2 --stream-gbps 0.191 --out "$out/calibration.toml" -- --epochs 1000 --batch-size 24
echo
echo "what more hosts would bring:"
trainshed plan "$here/job.yaml" --calibration "$out/calibration.toml" --what-if hosts=1,2,4,8 \
    --target samples=100000 --png "$out/plan.png" --html "$out/plan.html"
