"""Ranks find out who shares a host, where to listen, and which words of the environment count."""

import json
import socket

import pytest

from trainshed_trainer.reduction.errors import ReductionError
from trainshed_trainer.reduction.shares import Rates
from trainshed_trainer.reduction.torch_addresses import (
    choose_reachable,
    is_loopback,
    listen_on,
    own_address,
)
from trainshed_trainer.reduction.torch_hosts import hostname_of, layout_of, local_setting
from trainshed_trainer.reduction.torch_plan import describe_rank, make_plan
from trainshed_trainer.reduction.torch_report import Meter, ReportWriter, document

HOST = "TRAINSHED_REDUCTION_HOST"


def words(environ, count=3):
    """The words of all ranks, as they arrive: through JSON."""
    return json.loads(json.dumps([describe_rank(rank, environ) for rank in range(count)]))


@pytest.mark.parametrize(
    ("names", "setting", "cuda", "hosts"),
    [
        ("aab", "auto", False, [[0], [1], [2]]),
        ("aab", "auto", True, [[0, 1], [2]]),
        ("abab", "1", False, [[0, 2], [1, 3]]),
        ("aab", "0", True, [[0], [1], [2]]),
        ("aaa", "1", False, [[0, 1, 2]]),
    ],
)
def test_ranks_of_a_host_sum_first_where_it_is_wanted(names, setting, cuda, hosts):
    layout = layout_of(names, setting, cuda=cuda)
    assert layout.hosts == hosts
    assert layout.shared == any(len(host) > 1 for host in hosts)
    assert [layout.host_of(host[-1]) for host in hosts] == list(range(len(hosts)))


def test_the_environment_may_name_the_host_and_turn_local_sums_on_and_off():
    assert hostname_of({"TRAINSHED_REDUCTION_HOSTNAME": "a"}) == "a"
    assert hostname_of({}) == socket.gethostname()
    assert local_setting({}) == "auto"
    assert local_setting({"TRAINSHED_REDUCTION_LOCAL": "1"}) == "1"
    with pytest.raises(ReductionError, match="TRAINSHED_REDUCTION_LOCAL must be 1, 0 or auto"):
        local_setting({"TRAINSHED_REDUCTION_LOCAL": "yes"})


@pytest.mark.parametrize(("reducers", "hybrid"), [(0, True), (2, True), (3, False), (4, False)])
def test_workers_reduce_too_where_reducers_are_fewer_than_they(reducers, hybrid):
    addresses = ",".join(f"10.0.0.{index}:2222" for index in range(reducers))
    plan = make_plan(words({"TRAINSHED_REDUCERS": addresses, HOST: "10.1.0.1"}))
    assert plan.hybrid is hybrid
    assert plan.reducers == [(f"10.0.0.{index}", 2222) for index in range(reducers)]
    assert plan.addresses == ["10.1.0.1"] * 3
    assert ("reduce a share" in str(plan)) is hybrid


def test_a_token_is_made_only_where_no_reducer_needs_the_jobs_own():
    token = {"TRAINSHED_REDUCTION_TOKEN": "x" * 32}
    one = {"TRAINSHED_REDUCERS": "10.0.0.1:2222"}
    own_token = make_plan(words({})).token
    assert own_token is not None
    assert len(own_token) >= 64
    assert own_token != make_plan(words({})).token
    for environ in (token, one, {**token, **one}, {"TRAINSHED_REDUCTION_TOKEN_FILE": "/t"}):
        assert make_plan(words(environ)).token is None


def test_a_later_group_has_a_later_epoch():
    assert make_plan(words({})).epoch < make_plan(words({})).epoch


def test_a_worker_listens_where_it_is_told_or_where_its_routes_begin():
    assert own_address({HOST: "10.9.9.9"}, [("127.0.0.1", 1)]) == "10.9.9.9"
    assert own_address({}, [("127.0.0.1", 1)]) == "127.0.0.1"
    assert own_address({"MASTER_ADDR": "127.0.0.1"}, []) == "127.0.0.1"
    assert own_address({"MASTER_ADDR": "127.0.0.1"}, [("no.such.host.invalid", 1)]) == "127.0.0.1"
    assert own_address({}, [])


def test_a_loopback_address_is_given_to_nobody_who_is_elsewhere():
    """The master's own name often stands for 127.0.1.1 on its own host."""
    mine = "127.0.1.1"
    assert choose_reachable(mine, [mine, "127.0.0.1"], {}) == mine
    assert choose_reachable("10.0.0.1", ["10.0.0.1", mine], {}) == "10.0.0.1"
    assert choose_reachable(mine, [mine, "10.0.0.2"], {HOST: mine}) == mine
    assert choose_reachable(mine, [mine, "no.such.host.invalid"], {}) == mine
    assert not is_loopback("10.0.0.1")
    assert all(is_loopback(host) for host in ("127.0.0.1", "127.0.1.1", "::1", "localhost"))


def test_a_worker_listens_on_its_own_address_alone():
    with listen_on("127.0.0.1") as sock:
        assert sock.getsockname()[0] == "127.0.0.1"
        assert sock.getsockname()[1] > 0
    with pytest.raises(ReductionError, match=rf"cannot listen on 192\.0\.2\.1 .*{HOST}"):
        listen_on("192.0.2.1")
    with pytest.raises(ReductionError, match=r"cannot listen on no\.such\.host\.invalid"):
        listen_on("no.such.host.invalid")


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def ignore(error):
    """Nobody waits for the end."""


def test_time_counts_while_anything_is_under_way_and_once():
    clock = Clock()
    meter = Meter(clock)
    first = meter.count_round(1000, ignore)
    clock.now += 2
    second = meter.count_round(500, ignore)
    clock.now += 1
    assert meter.totals() == (0, 0, 3.0)
    first(None)
    clock.now += 4
    second(None)
    clock.now += 50
    assert meter.totals() == (2, 1500, 7.0)
    third = meter.count_round(10**9, ignore)
    clock.now += 1
    third(ReductionError("worker 1 is lost"))
    assert meter.totals() == (2, 1500, 8.0)


def test_whoever_waits_is_told_of_the_end():
    outcomes, error = [], ReductionError("worker 1 is lost")
    meter = Meter()
    meter.count_round(1, outcomes.append)(None)
    meter.count_round(1, outcomes.append)(error)
    assert outcomes == [None, error]


def test_the_report_compares_what_was_achieved_with_a_ring(tmp_path):
    clock = Clock()
    meter = Meter(clock)
    done = meter.count_round(100_000_000, ignore)
    clock.now += 5
    done(None)
    rates = Rates(25e6, (50e6, 40e6))
    report = ReportWriter(tmp_path / "report", lambda: document(meter, rates, world=4, reducers=2))
    report.close()
    assert json.loads((tmp_path / "report").read_text()) == {
        "version": 1,
        "world": 4,
        "reducers": 2,
        "rounds": 1,
        "bytes": 100_000_000,
        "seconds": 5.0,
        "goodput_mbps": 160.0,
        "worker_link_mbps": 200.0,
        "reducer_link_mbps": [400.0, 320.0],
        "ring_mbps": 133.333,
    }


def test_a_report_that_cannot_be_written_ends_nothing(tmp_path, capsys):
    (tmp_path / "file").touch()
    meter, rates = Meter(), Rates(1.0, ())
    content = document(meter, rates, world=2, reducers=0)
    ReportWriter(tmp_path / "file" / "report", lambda: content).close()
    assert "cannot write" in capsys.readouterr().err
    assert content["goodput_mbps"] == 0.0
