"""How a warden finds its launcher: the order of addresses, names that do not resolve yet."""

import socket

import pytest

from trainshed.engines.warden import dialing
from trainshed.engines.warden.launcher_variables import LAUNCHER, SECRET

NAME = "ts-a-7-1-primary-0-0.ts-a-7-1"
NOT_YET = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
REFUSED = ConnectionRefusedError(111, "Connection refused")


class Launcher:
    """Stands in for the network: answers at one address, after some tries."""

    def __init__(self, address, errors):
        self.address = address
        self.errors = list(errors)
        self.calls = []

    def connect(self, endpoint, secret):
        self.calls.append((*endpoint, secret))
        if endpoint[0] != self.address:
            raise REFUSED
        if self.errors:
            raise self.errors.pop(0)
        return "a connection"


def env(launcher, **more):
    return {LAUNCHER: launcher, SECRET: "s", **more}


def dial(monkeypatch, launcher, variables, **options):
    monkeypatch.setattr(dialing, "_connect", launcher.connect)
    monkeypatch.setattr(dialing, "gethostname", lambda: "own-name")
    return dialing.dial(variables, **options)


@pytest.mark.parametrize(
    ("text", "more", "hosts"),
    [
        (f"primary-pod;61100;{NAME};", {}, [NAME]),
        (f"own-name;61100;{NAME};", {}, ["127.0.0.1", NAME]),
        ("n1;61100;10.0.0.1,n1;NODE", {"NODE": "10.9.9.9"}, ["10.9.9.9", "10.0.0.1", "n1"]),
        ("n1;61100;10.0.0.1,n1;NODE", {}, ["10.0.0.1", "n1"]),
    ],
)
def test_addresses_are_tried_in_this_order(monkeypatch, text, more, hosts):
    launcher = Launcher(hosts[-1], [])
    assert dial(monkeypatch, launcher, env(text, **more)) == "a connection"
    assert launcher.calls == [(host, 61100, "s") for host in hosts]


def test_a_name_that_does_not_resolve_yet_is_tried_again(monkeypatch, capfd):
    launcher = Launcher(NAME, [NOT_YET] * 16 + [REFUSED] * 4)
    pauses = []
    variables = env(f"primary-pod;61100;{NAME};")
    assert dial(monkeypatch, launcher, variables, pause=pauses.append) == "a connection"
    assert [round(pause_s, 2) for pause_s in pauses[:7]] == [0.1, 0.1, 0.1, 0.1, 0.1, 0.12, 0.16]
    assert pauses == sorted(pauses)
    assert pauses[-1] == 1.0
    lines = capfd.readouterr().err.splitlines()
    assert [line.split(": ")[-1].split(";")[0] for line in lines] == [
        "Name or service not known", "Connection refused",
    ]  # fmt: skip


def test_a_launcher_that_starts_a_moment_later_is_no_trouble(monkeypatch, capfd):
    launcher = Launcher(NAME, [NOT_YET] * 2 + [REFUSED] * 2)
    variables = env(f"primary-pod;61100;{NAME};")
    dial(monkeypatch, launcher, variables, pause=lambda _: None)
    assert capfd.readouterr().err == ""


def test_a_warden_gives_up_after_its_time(monkeypatch):
    launcher = Launcher(NAME, [NOT_YET] * 100)
    variables = env(f"primary-pod;61100;{NAME};")
    with pytest.raises(OSError, match=r"within 0 s: .*Name or service not known"):
        dial(monkeypatch, launcher, variables, within_s=0.0)
