"""A flow run in a work pool of the type vertex-ai, as prefect's worker submits it."""

import asyncio
import sys

from prefect.client.schemas.objects import FlowRun
from prefect_gcp.credentials import GcpCredentials
from prefect_gcp.workers.vertex import VertexAIWorker, VertexAIWorkerJobConfiguration

configuration = VertexAIWorkerJobConfiguration(
    name="by-prefect",
    region="us-central1",
    credentials=GcpCredentials(project="demo-proj"),
    job_watch_poll_interval=1,
    job_spec={
        "maximum_run_time_hours": 1,
        "worker_pool_specs": [
            {
                "replica_count": 1,
                "container_spec": {
                    "image_uri": "registry.test/p/img:1",
                    "command": ["python", "-c", "print('trained')"],
                },
                "machine_spec": {"machine_type": "n1-standard-4"},
                "disk_spec": {"boot_disk_type": "pd-ssd", "boot_disk_size_gb": 100},
            }
        ],
    },
)


async def main():
    worker = VertexAIWorker(work_pool_name="vertex")
    flow_run = FlowRun(flow_id="00000000-0000-0000-0000-000000000001", name="by-prefect")
    result = await worker.run(flow_run, configuration)
    sys.stdout.write(f"RESULT {result.status_code}\n")


asyncio.run(main())
