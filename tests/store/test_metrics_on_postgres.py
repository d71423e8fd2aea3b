"""The pages of metrics of servers that share a PostgreSQL, which may be locked."""

import time
from contextlib import ExitStack

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from store.builders import LEASE_S, add
from trainshed.controller.leases import Leases
from trainshed.service.telemetry import server_page
from trainshed.service.telemetry.counters import Counters
from trainshed.service.telemetry.server_page import MetricsPage, PageSources
from trainshed.store.opening import open_store

JOBS = 3


@pytest.fixture
def database(postgres, monkeypatch):
    monkeypatch.setattr(server_page, "FRESH_S", 0.0)
    return postgres.emptied_database()


def sums(*pages):
    """The sums over servers of the metrics without their labels."""
    totals = {}
    for page in pages:
        for family in text_string_to_metric_families(page.text()):
            for sample in family.samples:
                totals[sample.name] = totals.get(sample.name, 0.0) + sample.value
    return totals


def test_sums_of_two_servers_are_right_and_do_not_jump_when_the_leader_is_killed(database, clock):
    def now_s():
        return clock() / 1e9

    with ExitStack() as stack:
        servers, pages = [], []
        for name in ("first", "second"):
            store = open_store(database, clock)
            stack.callback(store.close)
            leases = Leases(store, name, ttl_s=LEASE_S, monotonic=now_s)
            sources = PageSources(
                store=store, counters=Counters(), is_leading=lambda own=leases: own.leading
            )
            servers.append(leases)
            pages.append(MetricsPage(sources))
        for _ in range(JOBS):
            add(store)
        for leases in servers:
            leases.once()
        totals = []
        for _ in range(12):  # the first server does not renew its lease any more
            totals.append(sums(*pages))
            clock.forward(LEASE_S / 6)
            servers[1].once()
        servers[0].once()
        totals.append(sums(*pages))
    leaders = [total["trainshed_server_leader"] for total in totals]
    assert (leaders[0], leaders[-1], max(leaders)) == (1, 1, 1)
    assert leaders.count(0) <= 1, "the second server leads when the lease has expired"
    assert [total.get("trainshed_jobs", 0.0) for total in totals] == [JOBS * n for n in leaders]
    assert totals[0]["trainshed_servers"] == totals[-1]["trainshed_servers"] == 2


def test_a_page_is_answered_while_a_table_is_locked_and_is_whole_again_later(
    database, clock, monkeypatch
):
    monkeypatch.setattr(server_page, "STORE_S_MAX", 0.2)
    store = open_store(database, clock)
    page = MetricsPage(PageSources(store=store, counters=Counters()))
    with psycopg.connect(database.replace("+psycopg", "")) as other:
        other.execute("LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE")
        locked = sums(page)
        other.rollback()
    assert locked["trainshed_store_up"] == 0
    assert "trainshed_jobs" not in locked
    monkeypatch.setattr(server_page, "STORE_S_MAX", 60.0)
    deadline_s = time.monotonic() + 60
    while sums(page)["trainshed_store_up"] == 0:
        assert time.monotonic() < deadline_s, "the page is not back"
    store.close()
