#!/bin/sh
# A server of its own, the study of hpt.yaml, its trials as they come, and the report.
# What follows the directory are flags of the create: demo.sh /tmp/tuning --max-trial-count 8
set -eu
data=${1:?usage: demo.sh DATA_DIR [flags of hp-tuning-jobs create]}
shift
here=$(cd "$(dirname "$0")" && pwd)

if [ -n "$(ls -A "$data" 2>/dev/null)" ] && [ ! -e "$data/serve.log" ]; then
    echo "$data is not empty, and no demo has made it: name another folder" >&2
    exit 2
fi
rm -rf "$data" && mkdir -p "$data"
data=$(cd "$data" && pwd)
export TRAINSHED_DATA_DIR="$data"
trainshed serve --port 0 --grpc-port 0 > "$data/serve.log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null' EXIT
until [ -s "$data/server.json" ]; do
    kill -0 $server 2>/dev/null || { cat "$data/serve.log" >&2; exit 1; }
    sleep 0.1
done
head -n 2 "$data/serve.log"
echo

trainshed buckets create my-bucket
# a bucket is a folder of the server; elsewhere: gcloud storage cp digits-1.0.tar.gz gs://my-bucket/packages/
mkdir -p "$data/buckets/my-bucket/packages"
tar -C "$here/.." --exclude __pycache__ -czf "$data/buckets/my-bucket/packages/digits-1.0.tar.gz" tuning/setup.py tuning/trainer
cd "$here"
study=$(trainshed ai hp-tuning-jobs create --config hpt.yaml --display-name digits --format json "$@" |
    sed -n 's|^ *"name": "\(projects/.*/hyperparameterTuningJobs/[0-9]*\)".*|\1|p')
[ -n "$study" ]
trainshed ai hp-tuning-jobs watch "$study"
echo
echo "why trials were stopped early (trainshed jobs events):"
trainshed jobs events "$study" | sed -n '1,2p; /TRIAL_STOPPED_EARLY/p'
echo
trainshed ai hp-tuning-jobs report "$study" --out "$data/digits.html"
