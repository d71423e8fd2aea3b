"""Browsers: how one signs in, how long that lasts, and what proves a call."""

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.model.access import AccessRole, Caller
from trainshed.model.refusals import Code, Refusal, Throttled
from trainshed.service.auth import bucket_tokens, tokens
from trainshed.service.auth.access import ANONYMOUS, Access, digest_of
from trainshed.service.auth.browser_proofs import (
    TICKET,
    BrowserProof,
    check_proof,
    make_ticket,
)
from trainshed.service.auth.sign_ins import CODE_LIFE, IDLE, LIFE, SignIns
from trainshed.store.base import StoreFault

HOME = "192.0.2.7"
MINUTE_S = 60.0
TARGET = "/trainshed/v1/projects/demo/jobs/7/logs:download?format=text"


@pytest.fixture
def sign_ins(store, access, clock):
    counted = []
    made = SignIns(store, access, clock, lambda *, is_refused: counted.append(is_refused))
    made.counted = counted
    return made


@pytest.fixture
def token(store):
    return tokens.create(store, {"name": "laptop", "project": "demo", "role": "viewer"})


def refused(call, *args, **options):
    with pytest.raises(Refusal) as error:
        call(*args, **options)
    return error.value.code, error.value.message


def proof_of(begun, **fields):
    """What the browser of a sign-in sends."""
    return BrowserProof(**{"cookie": begun.cookie, "csrf": begun.csrf, **fields})


def is_live(sign_ins, begun):
    try:
        sign_ins.current(proof_of(begun))
    except Refusal:
        return False
    return True


def test_a_token_signs_a_browser_in_as_the_same_caller(sign_ins, token, clock):
    begun = sign_ins.begin_with_token(f" {token.token}\n", HOME)
    assert sign_ins.counted == [False]
    assert begun.caller == Caller(name="laptop", project="demo", role=AccessRole.VIEWER)
    current = sign_ins.current(proof_of(begun))
    assert (current.caller, current.caller.credential) == (begun.caller, token.id)
    assert current.until.timestamp() == clock() + LIFE.total_seconds()


def test_the_store_never_learns_a_cookie_or_a_code(store, sign_ins, token, tmp_path):
    begun = sign_ins.begin_with_token(token.token, HOME)
    code, _ = sign_ins.make_code(begun.caller)
    store.close()
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for secret in (begun.cookie, begun.csrf, code):
        assert digest_of(secret).encode() in content
        assert secret.encode() not in content
    assert not [secret for secret in (begun.cookie, begun.csrf) if secret in repr(begun)]


@pytest.mark.parametrize("text", ["", "tsd_wrong", "x", "tsd_ y", "\udcff", "é" * 4000])
def test_a_wrong_token_signs_no_browser_in(sign_ins, text):
    assert refused(sign_ins.begin_with_token, text, HOME)[0] is Code.UNAUTHENTICATED
    assert sign_ins.counted == [True]


def test_tokens_of_other_kinds_sign_no_browser_in(store, access, sign_ins, token, clock):
    clock.now = time.time()
    code, message = refused(sign_ins.begin_with_token, "a.b.c", HOME)
    assert (code, "trainshed tokens create" in message) == (Code.INVALID_ARGUMENT, True)
    maker = access.caller(f"Bearer {token.token}", loopback=True)
    of_bucket = bucket_tokens.create(store, maker, "demo", {"bucket": "data"})
    code, message = refused(sign_ins.begin_with_token, of_bucket.token, HOME)
    assert (code, "buckets" in message) == (Code.PERMISSION_DENIED, True)


def test_a_sign_in_ends_with_its_token(store, sign_ins, token, clock):
    clock.now = time.time()
    begun = sign_ins.begin_with_token(token.token, HOME)
    tokens.revoke(store, token.id)
    assert not is_live(sign_ins, begun)
    short = tokens.create(store, {"expires": "1h"})
    begun = sign_ins.begin_with_token(short.token, HOME)
    assert begun.until.timestamp() == pytest.approx(
        store.token(digest_of(short.token)).expire_time.timestamp()
    )
    clock.now = begun.until.timestamp()
    assert not is_live(sign_ins, begun)


def test_a_revoked_or_expired_token_begins_no_sign_in(store, sign_ins, token, clock):
    code, _ = sign_ins.make_code(sign_ins.begin_with_token(token.token, HOME).caller)
    tokens.revoke(store, token.id)
    clock.now += 1
    for call, text in ((sign_ins.begin_with_token, token.token), (sign_ins.begin_with_code, code)):
        assert refused(call, text, HOME)[0] is Code.UNAUTHENTICATED


def test_a_sign_in_lasts_twelve_hours_if_it_is_used(sign_ins, token, clock):
    begun = sign_ins.begin_with_token(token.token, HOME)
    for _ in range(12 * 60 - 1):
        clock.now += MINUTE_S
        assert is_live(sign_ins, begun)
    clock.now += MINUTE_S
    assert not is_live(sign_ins, begun)


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_sign_in_ends_after_two_hours_without_use(sign_ins, token, clock, is_stored):
    begun = sign_ins.begin_with_token(token.token, HOME)
    clock.now += IDLE.total_seconds() - 1
    assert is_live(sign_ins, begun)
    if is_stored:
        sign_ins.tidy()
    clock.now += IDLE.total_seconds() - 1
    assert is_live(sign_ins, begun)
    clock.now += IDLE.total_seconds()
    assert not is_live(sign_ins, begun)


def test_another_server_of_the_database_sees_the_use(store, sign_ins, token, clock):
    other = SignIns(store, Access(store, anonymous=False, clock=clock), clock)
    begun = sign_ins.begin_with_token(token.token, HOME)
    clock.now += IDLE.total_seconds() - MINUTE_S
    assert is_live(sign_ins, begun)
    sign_ins.tidy()
    clock.now += IDLE.total_seconds() - MINUTE_S
    assert is_live(other, begun)


def test_a_use_is_stored_once_the_database_is_back(store, sign_ins, token, clock, monkeypatch):
    other = SignIns(store, Access(store, anonymous=False, clock=clock), clock)
    begun = sign_ins.begin_with_token(token.token, HOME)
    clock.now += IDLE.total_seconds() - MINUTE_S
    assert is_live(sign_ins, begun)

    def fail(times):
        del times
        raise StoreFault("away")

    with monkeypatch.context() as away:
        away.setattr(store, "note_sign_in_use", fail)
        with pytest.raises(StoreFault):
            sign_ins.tidy()
    sign_ins.tidy()
    clock.now += IDLE.total_seconds() - MINUTE_S
    assert is_live(other, begun)


def test_signing_out_ends_this_sign_in_or_all_of_the_token(sign_ins, token):
    one, two, three = (sign_ins.begin_with_token(token.token, HOME) for _ in range(3))
    sign_ins.end(one.cookie)
    assert [is_live(sign_ins, begun) for begun in (one, two, three)] == [False, True, True]
    sign_ins.end_everywhere(two.caller)
    assert not any(is_live(sign_ins, begun) for begun in (two, three))


def test_ended_sign_ins_and_codes_leave_the_database(store, sign_ins, token, clock):
    begun = sign_ins.begin_with_token(token.token, HOME)
    code, _ = sign_ins.make_code(begun.caller)
    clock.now += IDLE.total_seconds() + 1
    sign_ins.tidy()
    assert store.sign_in(digest_of(begun.cookie)) is None
    assert store.take_sign_in_code(digest_of(code)) is None


def test_a_code_works_once(sign_ins, token):
    first = sign_ins.begin_with_token(token.token, HOME)
    code, _ = sign_ins.make_code(first.caller)
    begun = sign_ins.begin_with_code(code, HOME)
    assert begun.cookie != first.cookie
    assert begun.caller.credential == token.id
    status, message = refused(sign_ins.begin_with_code, code, HOME)
    assert (status, "trainshed console" in message) == (Code.UNAUTHENTICATED, True)
    assert is_live(sign_ins, begun)


def test_a_code_works_for_a_minute(sign_ins, token, clock):
    caller = sign_ins.begin_with_token(token.token, HOME).caller
    code, until = sign_ins.make_code(caller)
    assert until.timestamp() == clock() + CODE_LIFE.total_seconds()
    clock.now += CODE_LIFE.total_seconds()
    assert refused(sign_ins.begin_with_code, code, HOME)[0] is Code.UNAUTHENTICATED
    clock.now -= 1
    assert refused(sign_ins.begin_with_code, code, HOME)[0] is Code.UNAUTHENTICATED


def test_only_a_token_of_the_server_makes_a_code(sign_ins):
    assert refused(sign_ins.make_code, ANONYMOUS)[0] is Code.FAILED_PRECONDITION


def test_too_many_failures_are_throttled_and_a_valid_token_is_not(store, clock, token):
    sign_ins = SignIns(
        store, Access(store, anonymous=False, clock=clock, failures_a_minute=3), clock
    )
    for attempt in (sign_ins.begin_with_code, sign_ins.begin_with_token, sign_ins.begin_with_code):
        assert refused(attempt, "wrong", HOME)[0] is Code.UNAUTHENTICATED
    for attempt in (sign_ins.begin_with_code, sign_ins.begin_with_token):
        with pytest.raises(Throttled):
            attempt("wrong", HOME)
    assert sign_ins.begin_with_token(token.token, HOME).caller.name == "laptop"


def test_a_call_needs_the_cookie_and_the_header_that_belongs_to_it(sign_ins, token):
    begun, other = (sign_ins.begin_with_token(token.token, HOME) for _ in range(2))
    assert sign_ins.recognise(proof_of(begun)) == begun.caller
    for csrf in (None, ""):
        code, message = refused(sign_ins.recognise, proof_of(begun, csrf=csrf))
        assert (code, "X-Trainshed-Csrf" in message) == (Code.PERMISSION_DENIED, True)
    for csrf in ("x", other.csrf, begun.cookie, "é", "\udcff"):
        code, message = refused(sign_ins.recognise, proof_of(begun, csrf=csrf))
        assert (code, "/console/signin" in message) == (Code.UNAUTHENTICATED, True)
    unknown = proof_of(begun, cookie="unknown")
    assert refused(sign_ins.recognise, unknown)[0] is Code.UNAUTHENTICATED


def ticket_proof(begun, address):
    target, _, ticket = address.rpartition(TICKET)
    return proof_of(begun, csrf=None, target=target[:-1], ticket=ticket)


@pytest.mark.parametrize("target", [TARGET, "/trainshed/v1/nodes"])
def test_a_ticket_opens_its_address_for_a_minute(sign_ins, token, clock, target):
    begun = sign_ins.begin_with_token(token.token, HOME)
    proof = ticket_proof(begun, sign_ins.make_ticket(proof_of(begun), target))
    for _ in range(2):
        assert sign_ins.recognise(proof) == begun.caller
    clock.now += 59
    assert sign_ins.recognise(proof) == begun.caller
    clock.now += 1
    code, message = refused(sign_ins.recognise, proof)
    assert (code, "download again" in message) == (Code.PERMISSION_DENIED, True)
    assert sign_ins.recognise(replace(proof, is_proved=True)) == begun.caller


def test_a_ticket_opens_nothing_else(sign_ins, token):
    begun, other = (sign_ins.begin_with_token(token.token, HOME) for _ in range(2))
    proof = ticket_proof(begun, sign_ins.make_ticket(proof_of(begun), TARGET))
    wrong = [
        replace(proof, target=TARGET.replace("/7/", "/8/")),
        replace(proof, target=f"{TARGET}&task=x"),
        replace(proof, cookie=other.cookie),
        replace(proof, ticket="9" + proof.ticket),
        replace(proof, ticket=proof.ticket[:-1]),
        *(replace(proof, ticket=text) for text in ("", ".", "1", "x.y", "-1.x", "²." + "A" * 43)),
    ]
    for broken in wrong:
        assert refused(sign_ins.recognise, broken)[0] is Code.PERMISSION_DENIED


def check_address(address, page_digest, now_s, **changes):
    """Check an address with a ticket, as it was made or changed."""
    target, _, ticket = address.rpartition(TICKET)
    fields = {"cookie": "c", "target": target[:-1], "ticket": ticket, **changes}
    check_proof(BrowserProof(**fields), page_digest, now_s)


def test_a_ticket_holds_for_an_address_that_the_browser_encodes_in_another_way():
    written = make_ticket("page", "/trainshed/v1/nodes?q=it(s)%20%27x%27", 0.0)
    check_address(written, "page", 1.0, target="/trainshed/v1/nodes?q=it%28s%29%20'x'")


@pytest.mark.parametrize(
    "target",
    [
        "", "/", "/console/", "//evil.example/trainshed/v1/x", "https://evil.example/",
        "/v1/projects", "/trainshed/v1/", "/trainshed/v1/../v1/x", "/trainshed/v1/a/%2e%2E/b",
        "/trainshed/v1/a b", "/trainshed/v1/a#b", "/trainshed/v1/a\n", "/trainshed/v1/a\\b",
        "/trainshed/v1/" + "a" * 5000, "/trainshed/v1/é",
    ],
)  # fmt: skip
def test_there_are_tickets_for_native_routes_alone(target):
    code, message = refused(make_ticket, "c", target, 0.0)
    assert (code, "/trainshed/v1/" in message) == (Code.INVALID_ARGUMENT, True)


@given(
    segments=st.lists(st.from_regex(r"[A-Za-z0-9:_-]{1,8}", fullmatch=True), min_size=1),
    query=st.from_regex(r"([a-z]{1,3}=[A-Za-z0-9%2F]{0,5}(&[a-z]{1,3}=)?)?", fullmatch=True),
    digests=st.tuples(*[st.from_regex(r"[0-9a-f]{1,64}", fullmatch=True)] * 2),
    later_s=st.integers(-1000, 1000),
)
def test_a_ticket_is_valid_for_its_sign_in_and_its_minute_only(segments, query, digests, later_s):
    target = "/trainshed/v1/" + "/".join(segments) + (f"?{query}" if query else "")
    address = make_ticket(digests[0], target, 10_000.0)
    if 0 <= later_s < 60:
        check_address(address, digests[0], 10_000.0 + later_s)
    else:
        code, _ = refused(check_address, address, digests[0], 10_000.0 + later_s)
        assert code is Code.PERMISSION_DENIED
    if digests[0] != digests[1]:
        assert refused(check_address, address, digests[1], 10_000.0)


STEPS = st.lists(
    st.sampled_from(["use", "tidy", "minute", "hour", "two hours", "sign out"]), max_size=25
)


@given(steps=STEPS)
def test_a_sign_in_lives_exactly_as_its_limits_say(steps):
    """Compares with a model, for any order of uses, pauses and chores."""
    store, clock = MemoryStore(), HandClock()
    sign_ins = SignIns(store, Access(store, anonymous=False, clock=clock), clock)
    begun = sign_ins.begin_with_token(MemoryStore.TEXT, HOME)
    begun_s = used_s = clock()
    is_out = False
    spans = {"minute": 60, "hour": 3600, "two hours": 7200}
    for step in [*steps, "use"]:
        clock.now += spans.get(step, 0)
        if step == "tidy":
            sign_ins.tidy()
        elif step == "sign out":
            sign_ins.end(begun.cookie)
            is_out = True
        elif step == "use":
            is_in_time = clock() - begun_s < LIFE.total_seconds() and clock() - used_s < 7200
            assert is_live(sign_ins, begun) is (is_in_time and not is_out)
            used_s = clock() if is_in_time and not is_out else used_s


class HandClock:
    now = 1_800_000_000.0

    def __call__(self):
        return self.now


class MemoryStore:
    """The parts of a store that sign-ins use, in memory: a database takes too long for examples."""

    TEXT = "tsd_text"

    def __init__(self):
        _, token = tokens.new_token("one", "*", AccessRole.ADMIN)
        self._token = replace(token, digest=digest_of(self.TEXT))
        self._rows = {}

    def token(self, digest):
        return self._token if digest == self._token.digest else None

    def token_by_id(self, token_id):
        return self._token if token_id == self._token.token_id else None

    def add_sign_in(self, sign_in, *, most):
        del most
        self._rows[sign_in.digest] = sign_in

    def sign_in(self, digest):
        row = self._rows.get(digest)
        return (row, self._token) if row else None

    def note_sign_in_use(self, times):
        for digest, used in times.items():
            if digest in self._rows:
                self._rows[digest] = replace(self._rows[digest], last_use_time=used)

    def remove_sign_in(self, digest):
        self._rows.pop(digest, None)

    def forget_sign_ins(self, *, begun_before, used_before):
        self._rows = {
            digest: row
            for digest, row in self._rows.items()
            if row.create_time >= begun_before and row.last_use_time >= used_before
        }

    def forget_sign_in_codes(self, before):
        del before
