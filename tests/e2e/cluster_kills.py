"""What jobs on a cluster go through while their server is killed again and again."""

from e2e import fleet
from e2e.support import native, wait_until


def state_of(server, name):
    """The state of a job; None where the server was killed before it answered."""
    response = server.try_call("GET", f"/v1/{name}")
    return response and response[1].get("state")


def cancel_two(server, jobs, code):
    """One that just came, and one that runs."""
    for may_begin in (False, True):
        if name := jobs.submit(code=code):
            if may_begin:
                wait_until(
                    lambda name=name: server.has_ended or _runs(server, name),
                    lambda name=name: fleet.story_text(server, name),
                )
            jobs.cancel(name)


def _runs(server, name):
    return state_of(server, name) == "JOB_STATE_RUNNING"


def are_cancelled(server, jobs):
    return all(state_of(server, name) == "JOB_STATE_CANCELLED" for name in jobs.those("cancelled"))


def delete_one(server, jobs):
    for name in jobs.those("ended"):
        if state_of(server, name) == "JOB_STATE_SUCCEEDED":
            server.try_call("DELETE", f"/v1/{name}")
            jobs.fates[name] = "deleted"
            return


def check_fates(server, jobs):
    """Every acknowledged job came to what was done to it, at its first attempt."""
    for fate, states in (
        ("lives", {"SUCCEEDED"}),
        ("ended", {"SUCCEEDED"}),
        ("cancelled", {"CANCELLED"}),
        ("maybe cancelled", {"CANCELLED", "PENDING", "QUEUED", "ENQUEUED", "RUNNING"}),
    ):
        for name in jobs.those(fate):
            wait_until(
                lambda name=name, states=states: native(server, name)["state"] in states,
                lambda name=name: fleet.story_text(server, name),
            )
    for name in [name for fate in ("lives", "ended") for name in jobs.those(fate)]:
        job = native(server, name)
        assert (job["attempt"], job.get("restarts")) == (1, None), fleet.story_text(server, name)
    for name in jobs.those("lives"):
        assert fleet.output_lines(server, name) == ["began"]
