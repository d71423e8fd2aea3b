"""What the flags of ``trainshed-reducer`` mean, and where it listens without them."""

import pytest

from reduction.reducer_process import cluster_spec
from trainshed.reduction.settings import ReducerSettings, ReducerSetupError, settings_of


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        (["--max-memory", "512M"], {"max_memory": 512 << 20}),
        (["--max-memory", "1000"], {"max_memory": 1000}),
        (["--timeout", "2.5", "--idle-timeout", "0"], {"timeout_s": 2.5, "idle_timeout_s": 0.0}),
        (["--procs", "4", "--index", "8"], {"procs": 4, "index": 8}),
    ],
)
def test_what_flags_mean(words, fields):
    assert settings_of(words) == ReducerSettings(**fields)


@pytest.mark.parametrize(
    "words",
    [
        ["--max-memory", "0"],
        ["--max-memory", "2GB"],
        ["--timeout", "0"],
        ["--timeout", "nan"],
        ["--procs", "0"],
        ["--port", "0"],
        ["--port", "65536"],
        ["--index", "-1"],
        ["extra"],
    ],
)
def test_flags_that_make_no_sense_are_refused(words, capsys):
    with pytest.raises(SystemExit, match="2"):
        settings_of(words)
    assert words[0].lstrip("-") in capsys.readouterr().err


def test_the_processes_of_a_reducer_are_counted_through_all_reducers():
    environ = {"CLUSTER_SPEC": cluster_spec(["a:1", "b:2", "c:3"], 2)}
    place = ReducerSettings(procs=4).place(environ)
    assert (place.host, place.port, place.index) == ("c", 3, 8)
    assert ReducerSettings(procs=4, index=1).place(environ).index == 1
    with pytest.raises(ReducerSetupError):
        ReducerSettings(procs=4).place({})


def test_an_address_of_ipv6_is_read_as_it_is_written():
    environ = {"CLUSTER_SPEC": cluster_spec(["[::1]:2222"], 0)}
    assert ReducerSettings().place(environ).host == "::1"
