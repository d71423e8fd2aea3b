"""``trainshed ai hp-tuning-jobs create``."""

from trainshed.cli.connecting import place_of
from trainshed.cli.drafting import said_of, send
from trainshed.cli.flags import Request
from trainshed.cli.submitted import Submitted, told_of
from trainshed.cli.tuning_create_options import WORDS
from trainshed.client.collections import collection_of
from trainshed.workbench.job_drafts import tuning_job

GROUP = "ai hp-tuning-jobs"


def run(request: Request) -> int:
    """Create a tuning job."""
    args = request.args
    place, of = place_of(args), collection_of(GROUP)
    merged = tuning_job(said_of(args, place.project, WORDS))
    job = send(place.server, of.parent(place.project, place.region), merged)
    return told_of(args, place, Submitted(group=GROUP, name=job["name"], resource=job))
