import io

import pytest

from trainshed.cli.local.sink import TerminalSink
from trainshed.cli.terminal import paint, table, wants_colour
from trainshed.model.launch_plan import ReplicaPlan
from trainshed.model.roles import Role

REPLICAS = tuple(
    ReplicaPlan(role=role, index=0, task_name=name, argv=("python",))
    for role, name in [(Role.PRIMARY, "master-replica-0"), (Role.PARAMETER_SERVER, "ps-replica-0")]
)


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_numbers_stand_right_and_words_left():
    assert table(("NAME", "N"), [("a", 1), ("long", "1,074"), ("none", None)]).splitlines() == [
        "NAME      N",
        "────  ─────",
        "a         1",
        "long  1,074",
        "none",
    ]
    assert table(("A", "B"), []).splitlines() == ["A  B", "─  ─"]


def test_colour_is_for_terminals_unless_somebody_says_otherwise(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert wants_colour("auto", Screen())
    assert not wants_colour("auto", io.StringIO())
    assert wants_colour("always", io.StringIO())
    assert not wants_colour("never", Screen())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_colour("auto", Screen())
    assert paint("x", "\x1b[1m", on=False) == "x"


def test_each_line_has_its_replicas_name_in_front_and_keeps_its_stream(capsys):
    sink = TerminalSink(REPLICAS)
    sink.line(REPLICAS[0], "one", "stdout")
    sink.line(REPLICAS[1], "two", "stderr")
    sink.note("a note")
    captured = capsys.readouterr()
    assert captured.out == "master-replica-0 │ one\n"
    assert captured.err == "ps-replica-0     │ two\ntrainshed: a note\n"


def test_with_json_on_stdout_everything_else_goes_to_stderr(capsys):
    TerminalSink(REPLICAS, to_stderr=True).line(REPLICAS[0], "one", "stdout")
    assert capsys.readouterr() == ("", "master-replica-0 │ one\n")


def test_roles_have_colours_of_their_own(capsys):
    sink = TerminalSink(REPLICAS, colour="always")
    for replica in REPLICAS:
        sink.line(replica, "x", "stdout")
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("\x1b[1;32m")
    assert second.startswith("\x1b[35m")


@pytest.mark.parametrize("role", Role)
def test_every_role_has_a_colour(role, capsys):
    replica = ReplicaPlan(role=role, index=0, task_name="r", argv=("python",))
    TerminalSink([replica], colour="always").line(replica, "x", "stdout")
    assert capsys.readouterr().out.startswith("\x1b[")
