#!/bin/sh
# A server of its own, the torch-ddp example submitted to it, its log as it comes, and the end.
set -eu
data=${1:?usage: demo.sh DATA_DIR}
here=$(cd "$(dirname "$0")" && pwd)

if [ -n "$(ls -A "$data" 2>/dev/null)" ] && [ ! -e "$data/serve.log" ]; then
    echo "$data is not empty, and no demo has made it: name another folder" >&2
    exit 2
fi
rm -rf "$data" && mkdir -p "$data"
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
cd "$here/../torch-ddp"
trainshed ai-platform jobs submit training ddp_1 --config config.yaml --runtime-version 2.11 --python-version 3.7 \
    --module-name trainer.task --package-path trainer --staging-bucket gs://my-bucket --job-dir gs://my-bucket/out \
    --stream-logs -- --epochs 5
echo
echo "what happened to it (trainshed jobs events ddp_1):"
trainshed jobs events ddp_1
