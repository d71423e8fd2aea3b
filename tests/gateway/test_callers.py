"""Who calls: a process of an attempt that lives, for its own project's buckets, and nobody else."""

import time

import pytest
from starlette.requests import Request

from gateway.replica import ONE, OTHER, TWO
from trainshed.api.gateway.denials import ENTRIES_PER_MINUTE_MAX, Denials
from trainshed.model.refusals import Refusal
from trainshed.service.auth.access import Access
from trainshed.service.gateway.attempts import LivingAttempt
from trainshed.service.gateway.tokens import LIFE_S, AttemptTokens

TOKEN = "/computeMetadata/v1/instance/service-accounts/default/token"
FLAVOR = {"Metadata_Flavor": "Google"}


def test_a_foreign_process_gets_nothing(replica, world):
    world.caller = None
    for target in ("/", TOKEN, "/storage/v1/b/mine/o", "/mine/x"):
        assert replica.plain().ask("GET", target, **FLAVOR).status == 403
    wire = replica.plain()
    wire.send("CONNECT storage.googleapis.com:443 HTTP/1.1\r\n\r\n")
    assert wire.answer().status == 403
    assert replica.tls(connect=False).ask("GET", "/mine/x").status == 403
    assert {entry["status"] for entry in world.denied} == {"PERMISSION_DENIED"}


def test_a_program_in_a_loop_does_not_fill_the_audit_log():
    noted, now = [], [0.0]
    denials = Denials(lambda **fields: noted.append(fields), clock=lambda: now[0])
    request = Request({"type": "http", "method": "GET", "path": "/x", "headers": []})
    jobs = [LivingAttempt(key=key, job_id="j", project="one", project_number="1").caller()
            for key in (ONE, TWO)]  # fmt: skip
    for _ in range(2 * ENTRIES_PER_MINUTE_MAX):
        denials.note(request, jobs[0], "PERMISSION_DENIED")
    assert len(noted) == ENTRIES_PER_MINUTE_MAX
    denials.note(request, jobs[1], "PERMISSION_DENIED")
    now[0] = 60.0
    denials.note(request, jobs[0], "PERMISSION_DENIED")
    assert len(noted) == ENTRIES_PER_MINUTE_MAX + 2


def test_an_attempt_that_is_over_gets_nothing(replica, world):
    wire = replica.tls()
    assert wire.ask("GET", "/mine").status == 200
    world.ended.add(ONE)
    assert wire.ask("GET", "/mine").status == 403  # also on a connection that it had
    assert replica.plain().ask("GET", TOKEN, **FLAVOR).status == 403


def test_another_projects_bucket_is_not_there(replica, world):
    world.put("secret", b"x", bucket="theirs")
    for target in ("/theirs/secret", "/theirs", "/storage/v1/b/theirs/o/secret?alt=media"):
        assert replica.tls().ask("GET", target).status == 404
    answer = replica.tls().ask("PUT", "/theirs/mine", body=b"x")
    assert answer.status == 404
    world.caller = OTHER
    assert replica.tls().ask("GET", "/theirs/secret", token=world.token(OTHER)).body == b"x"


@pytest.mark.parametrize("holder", [TWO, OTHER])
def test_a_token_is_worthless_to_another_attempt(replica, world, holder):
    world.caller = holder
    assert replica.tls().ask("GET", "/mine", token=world.token(ONE)).status == 401
    assert replica.plain().ask("GET", "/storage/v1/b/mine/o", token=world.token(ONE)).status == 401


def test_a_token_ends_and_cannot_be_made_up(replica, world):
    stale = world.token(now_s=time.time() - LIFE_S - 1)
    forged = AttemptTokens(b"another secret").make(ONE, time.time())
    for token in (stale, forged, world.token()[:-3], "tsa_", "tsa_\xff", "x"):
        assert replica.tls().ask("GET", "/mine", token=token).status == 401


def test_a_token_opens_nothing_but_the_gateway(world):
    class Store:
        def token(self, _digest):
            return None

    access = Access(Store(), anonymous=False, clock=time.time)
    with pytest.raises(Refusal, match="does not know the token"):
        access.caller(f"Bearer {world.token()}", loopback=True)


def test_googles_hosts_want_a_token_to_change_something_and_the_emulators_address_does_not(
    replica, world
):
    world.put("emulator", b"x")
    assert replica.tls().ask("PUT", "/mine/emulator", token="", body=b"y").status == 401
    assert replica.tls().ask("DELETE", "/mine/emulator", token="").status == 401
    assert replica.tls().ask("GET", "/mine/emulator", token="").body == b"x"
    media = "/download/storage/v1/b/mine/o/emulator?alt=media"
    assert replica.plain().ask("GET", media).body == b"x"


def test_a_job_makes_and_removes_no_bucket(replica, world):
    api = replica.tls("www.googleapis.com")
    answer = api.ask("POST", "/storage/v1/b?project=one", body=b'{"name": "new"}')
    assert (answer.status, b"trainshed buckets create" in answer.body) == (403, True)
    assert api.ask("DELETE", "/storage/v1/b/mine").status == 403
    assert world.objects.buckets.names() == ["mine", "theirs"]
