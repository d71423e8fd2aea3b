"""``trainshed ai custom-jobs create``."""

from trainshed.cli.connecting import place_of
from trainshed.cli.custom_create_options import WORDS
from trainshed.cli.drafting import said_of, send
from trainshed.cli.flags import Request
from trainshed.cli.submitted import Submitted, told_of
from trainshed.client.collections import collection_of
from trainshed.workbench.job_drafts import custom_job

GROUP = "ai custom-jobs"


def run(request: Request) -> int:
    """Create a custom job; gives 0, or with ``--stream-logs`` the job's exit code."""
    args = request.args
    place, of = place_of(args), collection_of(GROUP)
    merged = custom_job(args.worker_pool_spec, said_of(args, place.project, WORDS))
    job = send(place.server, of.parent(place.project, place.region), merged)
    return told_of(args, place, Submitted(group=GROUP, name=job["name"], resource=job))
