#!/bin/sh
# A cluster emulated on this machine (root), a server whose jobs it runs, a gang, and a job that waits.
# On a cluster of yours: demo.sh DATA_DIR CONFIG, a file like trainshed.toml.
set -eu
data=${1:?usage: demo.sh DATA_DIR [CONFIG]}
here=$(cd "$(dirname "$0")" && pwd)

if [ -n "$(ls -A "$data" 2>/dev/null)" ] && [ ! -e "$data/serve.log" ]; then
    echo "$data is not empty, and no demo has made it: name another folder" >&2
    exit 2
fi
rm -rf "$data" && mkdir -p -m 700 "$data"
data=$(cd "$data" && pwd)
server= cluster=
end() {
    [ -z "$server" ] || { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null || true; }
    [ -z "$cluster" ] || { kill "$cluster" 2>/dev/null; wait "$cluster" 2>/dev/null || true; }
}
trap end EXIT
if [ $# -gt 1 ]; then
    cp "$2" "$data/config.toml"
else
    PYTHONPATH="$here/../../tests" python3 -m k8s.demo_cluster "$data/cluster" &
    cluster=$!
    until [ -s "$data/cluster/kubeconfig" ]; do
        kill -0 $cluster 2>/dev/null || { cluster=; exit 1; }
        sleep 0.1
    done
    sed -e "s|/srv/trainshed|$data/cluster/claims/default/trainshed|" -e 's|"training"|"default"|' \
        -e "s|^# kubeconfig = \"[^\"]*\"|kubeconfig = \"$data/cluster/kubeconfig\"|" \
        "$here/trainshed.toml" > "$data/config.toml"
    export KUBECONFIG="$data/cluster/kubeconfig"
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
submit() {
    trainshed ai custom-jobs create --region us-central1 --format json "$@" |
        sed -n 's|^ *"name": "\(projects/.*/customJobs/[0-9]*\)".*|\1|p'
}
job=$(submit --display-name ring --config job.yaml)
[ -n "$job" ]
trainshed ai custom-jobs stream-logs "$job"
echo
echo "what happened to it (trainshed jobs events):"
trainshed jobs events "$job"
[ -n "$cluster" ] || exit 0

echo
echo "a job that is too large for every node (trainshed jobs explain):"
sed 's/n1-standard-4/n1-standard-96/' job.yaml > "$data/large.yaml"
large=$(submit --display-name large --config "$data/large.yaml")
tries=0
until trainshed jobs explain "$large" > "$data/explained" && grep -q CAPACITY "$data/explained"; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || break
    sleep 0.2
done
cat "$data/explained"
if command -v kubectl > /dev/null; then
    echo
    echo "and the same job on the cluster (kubectl get jobsets,pods):"
    kubectl get jobsets,pods -L trainshed.dev/job,trainshed.dev/role
fi
trainshed ai custom-jobs cancel "$large"
