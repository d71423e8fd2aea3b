#!/bin/sh
# A Slurm of its own on this machine (root and Debian's packages), a server whose jobs it runs, a gang, a job that waits.
# With a cluster of yours: demo.sh DATA_DIR CONFIG, a file like trainshed.toml.
set -eu
data=${1:?usage: demo.sh DATA_DIR [CONFIG]}
here=$(cd "$(dirname "$0")" && pwd)

if [ -n "$(ls -A "$data" 2>/dev/null)" ] && [ ! -e "$data/serve.log" ]; then
    echo "$data is not empty, and no demo has made it: name another folder" >&2
    exit 2
fi
rm -rf "$data" && mkdir -p "$data"
data=$(cd "$data" && pwd)
server= cluster= commands=
end() {
    [ -z "$server" ] || { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null || true; }
    [ -z "$cluster" ] || { kill "$cluster" 2>/dev/null; wait "$cluster" 2>/dev/null || true; }
}
trap end EXIT
if [ $# -gt 1 ]; then
    cp "$2" "$data/config.toml"
else
    python=$(command -v python3)
    "$python" "$here/../../tests/slurm/cluster.py" "$data/cluster" &
    cluster=$!
    until [ -s "$data/cluster" ]; do
        kill -0 $cluster 2>/dev/null || { cluster=; exit 1; }
        sleep 0.1
    done
    folder=$(cat "$data/cluster")
    commands=$folder/bin/
    mkdir -p "$folder/shared/spool"
    sed -e "s|/shared/trainshed|$folder/shared/spool|" -e "s|/usr/bin|$folder/bin|" \
        -e "s|^python = \"python3\"|python = \"$python\"|" -e "s|/opt/torch/bin/python|$python|" \
        "$here/trainshed.toml" > "$data/config.toml"
    echo "a cluster of six nodes, with four GPUs each that are none:"
    "${commands}sinfo" -o '%P %D %c %m %G %T'
    echo
fi

export TRAINSHED_DATA_DIR="$data" CLOUDSDK_CORE_PROJECT=demo-proj CLOUDSDK_COMPUTE_REGION=us-central1
trainshed serve --port 0 --grpc-port 0 > "$data/serve.log" 2>&1 &
server=$!
until [ -s "$data/server.json" ]; do
    kill -0 $server 2>/dev/null || { cat "$data/serve.log" >&2; exit 1; }
    sleep 0.1
done
head -n 2 "$data/serve.log"
echo
echo "its nodes (trainshed nodes list):"
trainshed nodes list
echo
cd "$here"
job=$(trainshed ai custom-jobs create --region us-central1 --display-name ring --config job.yaml --format json |
    sed -n 's|^ *"name": "\(projects/.*/customJobs/[0-9]*\)".*|\1|p')
[ -n "$job" ]
trainshed ai custom-jobs stream-logs "$job"
echo
echo "what happened to it (trainshed jobs events):"
trainshed jobs events "$job"
if [ -n "$commands" ]; then
    echo
    echo "and what Slurm says of it (scontrol show job):"
    "${commands}scontrol" -o show job | tr ' ' '\n' | grep -E '^(JobId|JobName|JobState|NodeList|Comment|Requeue)='
fi
