"""``trainshed ai custom-jobs create`` and ``trainshed ai hp-tuning-jobs create``."""

from trainshed.cli.connecting import place_of
from trainshed.cli.drafting import draft_of, send
from trainshed.cli.flags import Request
from trainshed.cli.submitted import Submitted, report_created
from trainshed.cli.vertex_create_options import TUNING_WORDS, WORDS
from trainshed.client.collections import collection_of
from trainshed.workbench.job_drafts import custom_job, tuning_job


def run(request: Request) -> int:
    """Create a job; gives 0, or with ``--stream-logs`` the job's exit code."""
    args = request.args
    place, of = place_of(args), collection_of(args.group)
    if args.group == "ai custom-jobs":
        merged = custom_job(args.worker_pool_spec, draft_of(args, place.project, WORDS))
    else:
        merged = tuning_job(draft_of(args, place.project, TUNING_WORDS))
    job = send(place.server, of.parent(place.project, place.region), merged)
    return report_created(args, place, Submitted(group=args.group, name=job["name"], resource=job))
