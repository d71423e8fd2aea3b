"""Jobs in explanations are named as the console names them."""

from trainshed.cli.jobs.job_titles import JobTitles
from trainshed.client.faults import ServerRefusal

VERTEX = "projects/p/locations/us-central1/customJobs/12"
ML = "projects/p/jobs/census_1"
FOREIGN = "projects/other/jobs/secret"
NAMES = {VERTEX: "census", ML: "census_1"}


class Answers:
    """A server that shows two jobs."""

    def __init__(self):
        self.calls = 0

    def call(self, verb, path):
        self.calls += 1
        assert verb == "GET"
        number = path.rpartition("/")[2]
        for name, display_name in NAMES.items():
            if name.endswith(f"/{number}"):
                return {"name": name, "displayName": display_name}
        raise ServerRefusal(403, "PERMISSION_DENIED", "no", [])


def test_jobs_have_their_display_names_and_numbers_and_are_read_once():
    server = Answers()
    titles = JobTitles(server)
    waiting = {
        "reason": "BEHIND_QUEUE",
        "message": f"waits behind {VERTEX}, which was created earlier",
        "blockers": [VERTEX, ML, FOREIGN, "node-1"],
        "queuePosition": 2,
    }
    named = {
        "reason": "BEHIND_QUEUE",
        "message": "waits behind census (12), which was created earlier",
        "blockers": ["census (12)", "census_1", FOREIGN, "node-1"],
        "queuePosition": 2,
    }
    assert titles.name_waiting(waiting) == named
    assert titles.name_waiting(waiting) == named
    assert server.calls == 3
    assert titles.name_waiting({}) == {}


def test_a_gang_of_blockers_is_read_in_part():
    server = Answers()
    names = [f"projects/p/jobs/job_{number}" for number in range(100)]
    waiting = {"message": "m", "blockers": names}
    assert JobTitles(server).name_waiting(waiting)["blockers"] == names
    assert server.calls <= 20
