"""The store's contract: sign-ins and codes are read as they were written, and bounded."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from trainshed.model.access import AccessRole
from trainshed.store.opening import Store
from trainshed.store.records.access import SignIn, SignInCode, Token

BEGIN = datetime(2026, 11, 29, 12, tzinfo=UTC)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def sign_in(digest: str, begun: float = 0, used: float = 0, credential: str = "one") -> SignIn:
    return SignIn(
        digest=digest,
        page_digest=f"page of {digest}",
        credential=credential,
        address="192.0.2.1",
        create_time=BEGIN + minutes(begun),
        last_use_time=BEGIN + minutes(used),
    )


def code(digest: str, made: float = 0, credential: str = "one") -> SignInCode:
    return SignInCode(digest=digest, credential=credential, create_time=BEGIN + minutes(made))


@pytest.fixture(autouse=True)
def tokens(store: Store) -> dict[str, Token]:
    """The tokens that browsers sign in with, by id."""
    made = {name: Token(token_id=name, digest=name, name=name, project="*", role=AccessRole.VIEWER,
                        create_time=BEGIN) for name in ("one", "two")}  # fmt: skip
    for token in made.values():
        store.add_token(token)
    return made


class TestSignIns:
    """What is stored of browsers."""

    def test_a_sign_in_is_read_as_it_was_written_with_its_token(
        self, store: Store, tokens: dict[str, Token]
    ) -> None:
        written = sign_in("a", used=3, credential="two")
        store.add_sign_in(written, most=9)
        assert store.sign_in("a") == (written, tokens["two"])
        assert store.sign_in("b") is None
        store.revoke_token("two")
        assert store.sign_in("a") == (written, replace(tokens["two"], revoked=True))

    def test_the_oldest_sign_ins_of_a_token_end_first(self, store: Store) -> None:
        store.add_sign_in(sign_in("other", credential="two"), most=3)
        for number in range(5):
            store.add_sign_in(sign_in(str(number), begun=number), most=3)
        present = [digest for digest in "01234" if store.sign_in(digest)]
        assert present == ["2", "3", "4"]
        assert store.sign_in("other")

    def test_only_a_later_use_is_noted(self, store: Store) -> None:
        for digest in "abc":
            store.add_sign_in(sign_in(digest, used=5), most=9)
        store.note_sign_in_use({"a": BEGIN + minutes(9), "b": BEGIN + minutes(1), "gone": BEGIN})
        used = {digest: row[0].last_use_time for digest in "abc"
                if (row := store.sign_in(digest))}  # fmt: skip
        five, nine = BEGIN + minutes(5), BEGIN + minutes(9)
        assert used == {"a": nine, "b": five, "c": five}

    def test_one_sign_in_or_all_of_a_token_end(self, store: Store) -> None:
        for digest, credential in (("a", "one"), ("b", "one"), ("c", "one"), ("d", "two")):
            store.add_sign_in(sign_in(digest, credential=credential), most=9)
        store.remove_sign_in("a")
        store.remove_sign_in("a")
        assert [digest for digest in "abcd" if store.sign_in(digest)] == ["b", "c", "d"]
        assert store.remove_sign_ins("one") == 2
        assert [digest for digest in "abcd" if store.sign_in(digest)] == ["d"]

    def test_old_and_unused_sign_ins_are_forgotten(self, store: Store) -> None:
        store.add_sign_in(sign_in("old", begun=0, used=50), most=9)
        store.add_sign_in(sign_in("idle", begun=20, used=20), most=9)
        store.add_sign_in(sign_in("live", begun=20, used=50), most=9)
        times = {"begun_before": BEGIN + minutes(10), "used_before": BEGIN + minutes(30)}
        assert store.forget_sign_ins(**times) == 2
        assert [name for name in ("old", "idle", "live") if store.sign_in(name)] == ["live"]


class TestSignInCodes:
    """What is stored of codes."""

    def test_a_code_is_taken_once(self, store: Store) -> None:
        store.add_sign_in_code(code("a", made=1), most=9)
        assert store.take_sign_in_code("b") is None
        assert store.take_sign_in_code("a") == code("a", made=1)
        assert store.take_sign_in_code("a") is None

    def test_the_oldest_codes_of_a_token_and_late_ones_go(self, store: Store) -> None:
        for number in range(4):
            store.add_sign_in_code(code(str(number), made=number), most=3)
        assert store.take_sign_in_code("0") is None
        assert store.forget_sign_in_codes(BEGIN + minutes(2)) == 1
        assert [d for d in "123" if store.take_sign_in_code(d)] == ["2", "3"]


def test_a_token_is_read_by_its_id(store: Store, tokens: dict[str, Token]) -> None:
    assert store.token_by_id("one") == tokens["one"]
    assert store.token_by_id("none") is None
