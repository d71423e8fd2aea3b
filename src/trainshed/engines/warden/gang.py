"""Controls the replicas of an attempt for its launcher, each through the warden of the replica.

The commands of the plan start the wardens, or the cluster does.  When all wardens have connected
and have installed the packages of their replicas, the launcher replaces the marks by the wardens'
addresses and orders all wardens to start: all replicas start, or none does.  ``launcher_steps``
decides the next step.
"""

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from trainshed.engines.processes.secret import new_secret
from trainshed.engines.supervise.attempt import RemoteContext
from trainshed.engines.supervise.kernel.limits import Usage
from trainshed.engines.supervise.loop import Timer
from trainshed.engines.supervise.record.folder import AttemptFolder, Order, read_json
from trainshed.engines.supervise.record.output import OutputSource
from trainshed.engines.supervise.record.spec import RemoteRule, ReplicaSpec, StepRule
from trainshed.engines.supervise.replicas import Gang
from trainshed.engines.warden import proof, protocol, roster
from trainshed.engines.warden.arrivals import LOOPBACK, fill_marks, resolve_marks
from trainshed.engines.warden.beats import parse_beat
from trainshed.engines.warden.connection import WardenConnection
from trainshed.engines.warden.launcher_steps import (
    Consequence,
    Event,
    GangFacts,
    LauncherStep,
    WardenState,
    choose_ping_s,
    decide_step,
    judge_event,
)
from trainshed.engines.warden.launcher_variables import LAUNCHER, SECRET
from trainshed.engines.warden.listening import WardenListener, own_addresses
from trainshed.engines.warden.program_files import touch, write_texts
from trainshed.engines.warden.protocol import Channel
from trainshed.engines.warden.steps import SrunSteps
from trainshed.engines.warden.task import compose_task
from trainshed.model import success
from trainshed.model.attempt import ReplicaExit
from trainshed.model.codec import decode, encode

if TYPE_CHECKING:
    from trainshed.engines.supervise.record.gpu_file import GpuFigures

#: Seconds without a message after which a warden counts as gone, though its machine answers.  This
#: is long, because a warden may wait for a file system that is unavailable.
_SILENT_S: Final = 600.0
#: Seconds without an acknowledgement of sent bytes after which a machine counts as gone.
_UNACKNOWLEDGED_S: Final = 60.0
#: Seconds in which wardens must close their connections after their command has ended.
_LEAVE_S: Final = 10.0
_MAINTENANCE: Final = "maintenance"
_Wardens = Sequence[WardenConnection]


class RemoteGang(Gang):
    """All wardens of one attempt."""

    def __init__(self, context: RemoteContext, rule: RemoteRule) -> None:
        """Create the gang; ``gather`` starts the wardens."""
        super().__init__()
        self._context = context
        self._rule = rule
        self._loop = context.loop
        self._replicas: Sequence[ReplicaSpec] = context.spec.replicas
        self._names = tuple(replica.task_name for replica in self._replicas)
        self._secret = os.environ.pop(SECRET, "") if rule.port else new_secret()
        self.has_commands = bool(rule.steps)
        """Whether commands of the plan start the wardens, not the cluster."""
        self.wardens = [WardenConnection(index) for index in range(len(self._replicas))]
        self.steps = SrunSteps(
            self._loop, context.children, context.descriptors, self._handle_step_end
        )
        self._listener: WardenListener | None = None
        self._outside_address = ""
        self._order: Order | None = None
        self._end_words: dict[str, str] = {}
        self._is_late = False
        self._is_start_sent = False
        self._is_held = False
        self._ping_s = choose_ping_s(context.spec.hang.after_s)
        self.changed: Callable[[], object] = lambda: None
        """The function to call whenever a warden has no process left, or is gone."""
        self._handlers: Mapping[str, Callable[[WardenConnection, Mapping[str, Any]], object]] = {
            "note": self._take_note,
            "prepared": self._take_prepared,
            "started": self._take_started,
            "fault": self._take_fault,
            "beat": self._take_beat,
            "stacks": self._take_stacks,
            "exit": self._take_exit,
            "ending": self._take_ending,
            "empty": self._take_empty,
        }
        context.output.on_hold(self._hold)

    def gather(self) -> bool:
        """Start the wardens once; return whether all are ready to start their replicas."""
        if self._decide_step() is LauncherStep.RUN_COMMANDS:
            self._listen()
        return self._decide_step() is LauncherStep.START_REPLICAS

    @property
    def are_gone(self) -> bool:
        """Whether every warden has closed its connection, or never connected."""
        return all(warden.is_gone for warden in self.wardens)

    def start(self, replicas: Sequence[ReplicaSpec], folder: AttemptFolder) -> None:
        """Order every warden to start its replica, with the addresses of all replicas."""
        del folder
        if self._decide_step() is not LauncherStep.START_REPLICAS:
            return
        self._is_start_sent = True
        replacements = self._resolve_marks()
        for warden, replica in zip(self.wardens, replicas):
            warden.say("start", replica=encode(fill_marks(replica, replacements)))

    def end_words(self, task_name: str) -> str:
        """Describe how a replica ended, with its use of memory; empty while the replica runs."""
        return self._end_words.get(task_name, "")

    def usage(self, index: int) -> Usage:
        """Return the CPU time and the memory of a replica from the last report of its warden."""
        return self.wardens[index].usage

    def usage_at_start(self, index: int) -> Usage:
        """Return the first report of a warden: a short program has ended when this is read."""
        return self.wardens[index].usage_at_start

    def read_report(self, index: int) -> bytes:
        """Return the last report of a program that its warden has sent; empty: none."""
        return self.wardens[index].report

    def read_gpus(self, now_s: float) -> "Mapping[str, GpuFigures]":
        """Return the newest readings of the GPUs of all wardens, by UUID."""
        del now_s
        return roster.list_gpus(zip(self._names, self.wardens), self._loop.now())

    def read_stacks(self, index: int, callback: Callable[[str], object]) -> bool:
        """Order a warden to send the stacks of its replica; ``callback`` gets the text.

        Returns False if the replica does not run.
        """
        if index not in self.living:
            return False
        self.wardens[index].on_stacks = callback
        self.wardens[index].say("look")
        return True

    def stop_reading_stacks(self) -> None:
        """Ignore stacks that wardens send from now on."""
        for warden in self.wardens:
            warden.on_stacks = None

    def stop(self, order: Order) -> None:
        """Send a stop order to all wardens, also to wardens that connect later."""
        self._order = order
        for warden in self.wardens:
            warden.say("stop", order=order._asdict())

    def kill(self) -> None:
        """Order all wardens to kill their replicas."""
        for warden in self.wardens:
            warden.say("kill")

    def leave(self) -> bool:
        """Order all wardens to exit; return False if a warden may still have a process."""
        if self._decide_step() is not LauncherStep.DISMISS:
            return False
        job_end = success.job_end(self._names[0], tuple(self.exits.values()))
        is_success = job_end is not None and job_end.exit_code == 0
        for warden in self.wardens:
            warden.say("leave", is_success=is_success)
        return True

    def refuse_missing(self) -> None:
        """Count the wardens that have not connected as gone, unless commands still start them."""
        for warden in self.wardens:
            if warden.channel is None and not self.has_commands:
                warden.is_gone = True

    def hang_up(self) -> None:
        """Close the connections that are still open, so that their wardens kill what is left.

        While the log cannot be written, the output of replicas waits in open connections.
        """
        for warden in self.wardens:
            may_close = warden.is_over or not self._is_held
            if warden.channel is not None and not warden.is_gone and may_close:
                warden.channel.close()
                self._handle_end(warden, "did not exit in time")

    def close(self) -> None:
        """Close the connections to all wardens."""
        if self._listener is not None:
            self._listener.close()
        for warden in self.wardens:
            if warden.channel is not None:
                warden.channel.close()

    def _decide_step(self) -> LauncherStep:
        facts = GangFacts(
            is_listening=self._listener is not None,
            are_connected=all(warden.channel is not None for warden in self.wardens),
            is_late=self._is_late,
            are_prepared=all(warden.prepared is not None for warden in self.wardens),
            is_start_sent=self._is_start_sent,
            have_started=self.have_started,
            has_fault=self.fault is not None,
            is_ending=self._order is not None,
            are_over=all(warden.is_over for warden in self.wardens),
        )
        return decide_step(facts)

    def _judge(self, event: Event, warden: WardenConnection) -> Consequence:
        state = WardenState(
            has_connected=warden.channel is not None,
            is_over=warden.is_over,
            has_exit=warden.index in self.exits,
            is_ending=self._order is not None,
        )
        return judge_event(event, state)

    def _listen(self) -> None:
        """Listen for wardens, and run the commands that start them, if any."""
        port = self._rule.port
        if not proof.is_secret(self._secret):
            self._fail(f"cannot listen for wardens: {SECRET} must have 1 to 64 bytes")
            return
        try:
            self._listener = WardenListener(self._loop, self._secret, self._await_index, port)
        except OSError as error:
            where = f"on port {port}" if port else "on the first node"
            self._fail(f"cannot listen for wardens {where}: {error.strerror}")
            return
        if self.has_commands:
            addresses = self._listener.list_addresses(self._rule.listen_variable)
            env = {LAUNCHER: addresses, SECRET: self._secret}
            self.steps.start(self._rule.steps, env, self._context.folder.path)
        self._loop.after(self._rule.start_timeout_s, self._end_start_time)
        self._loop.after(self._ping_s, self._ping)

    def _end_start_time(self) -> None:
        """Report a fault if a warden has not connected in time."""
        self._is_late = True
        if self._decide_step() is LauncherStep.GIVE_UP:
            wardens = (warden for warden in self.wardens if warden.channel is None)
            names = roster.join_names([self._names[warden.index] for warden in wardens])
            self._fail(f"{names} did not come up within {self._rule.start_timeout_s:g} s")

    def _await_index(self, connection: socket.socket) -> None:
        """Wait for the first message on a connection, which has the index of the warden."""

        def admit(kind: int, data: bytes) -> None:
            timer.cancel()
            self._admit(channel, connection, protocol.parse_message(kind, data))

        def cancel(_why: str) -> None:
            timer.cancel()

        channel = Channel(self._loop, connection, protocol.WARDEN_FRAME_MAX, admit, cancel)
        protocol.give_up_after(connection, _UNACKNOWLEDGED_S)
        timer: Timer = self._loop.after(protocol.PROVE_S, channel.close)

    def _admit(
        self, channel: Channel, connection: socket.socket, message: Mapping[str, Any]
    ) -> None:
        """Accept a warden; a second warden for the same replica is ordered to exit."""
        index, folder = int(message["index"]), self._context.folder
        if not 0 <= index < len(self.wardens) or self.wardens[index].is_taken:
            channel.say({"do": "leave"})
            self._loop.after(protocol.PROVE_S, channel.close)
            return
        warden = self.wardens[index]
        warden.channel = channel
        warden.host, warden.node = str(message["host"]), str(message.get("node", ""))
        warden.address = connection.getpeername()[0]
        if not warden.address.startswith(LOOPBACK):
            self._outside_address = self._outside_address or connection.getsockname()[0]
        channel.replace_callbacks(
            partial(self._handle_frame, warden), partial(self._handle_end, warden)
        )
        channel.pause(self._is_held)
        warden.say("take", **compose_task(self._context.spec, self._rule, index, folder.path))
        if self._order is not None:
            warden.say("stop", order=self._order._asdict())

    def _handle_frame(self, warden: WardenConnection, kind: int, data: bytes) -> None:
        warden.unanswered = 0
        if kind != protocol.JSON:
            self._feed_output(warden, kind, data)
            return
        message = protocol.parse_message(kind, data)
        self._handlers[message["is"]](warden, message)

    def _take_note(self, _warden: WardenConnection, message: Mapping[str, Any]) -> None:
        self._context.output.note(str(message["text"]), str(message["severity"]))

    def _take_prepared(self, warden: WardenConnection, message: Mapping[str, Any]) -> None:
        warden.prepared = message

    def _take_started(self, warden: WardenConnection, message: Mapping[str, Any]) -> None:
        self.living[warden.index] = int(message["pid"])
        warden.has_started = True
        self.have_started = all(peer.has_started for peer in self.wardens)

    def _take_fault(self, warden: WardenConnection, message: Mapping[str, Any]) -> None:
        self._fail(str(message["why"]), [warden], passes=bool(message["passes"]))

    def _take_beat(self, warden: WardenConnection, message: Mapping[str, Any]) -> None:
        beat, name, folder = parse_beat(message), self._names[warden.index], self._context.folder
        write_texts(folder, name, beat.files)
        if warden.take_beat(beat, self._loop.now()):
            touch(folder.progress(name), warden.beat_ns)

    def _take_stacks(self, warden: WardenConnection, message: Mapping[str, Any]) -> None:
        on_stacks, warden.on_stacks = warden.on_stacks, None
        if on_stacks is not None:
            on_stacks(str(message["text"]))

    def _take_ending(self, warden: WardenConnection, message: Mapping[str, Any]) -> None:
        """Stop all replicas: the server has given an order, or the cluster ends a warden's node."""
        order = self._context.folder.find_order(is_expected=True)
        if order is not None:  # the server writes the order before it lets the cluster end the pods
            self._context.obey(order, "")
            return
        text = f"{message['signal']} on {warden.node_name}: stopping all replicas"
        why = f"{warden.node_name} {protocol.ENDS_PROCESSES}"
        self._context.obey(Order(self._context.spec.grace_s, _MAINTENANCE, why), text)

    def _take_empty(self, warden: WardenConnection, _message: Mapping[str, Any]) -> None:
        warden.is_empty = True
        for inlet in warden.inlets.values():
            inlet.close()
        self.changed()

    def _feed_output(self, warden: WardenConnection, kind: int, data: bytes) -> None:
        if kind not in warden.inlets:
            replica = self._replicas[warden.index]
            source = OutputSource(warden.index, replica.task_name, replica.trial)
            warden.inlets[kind] = self._context.output.inlet(source, protocol.STREAMS[kind])
        warden.inlets[kind].feed(data)

    def _take_exit(self, warden: WardenConnection, message: Mapping[str, Any]) -> None:
        replica = self._replicas[warden.index]
        replica_exit = decode(ReplicaExit, message["exit"])
        self.exits[warden.index] = replica_exit._replace(
            role=replica.role, index=replica.index, task_name=replica.task_name
        )
        self._end_words[replica.task_name] = str(message["how"])
        self.living.pop(warden.index, None)
        write_texts(self._context.folder, replica.task_name, message.get("files", {}))

    def _handle_end(self, warden: WardenConnection, why: str) -> None:
        """Handle a closed connection; read the exit of the replica from the attempt's folder."""
        if not warden.is_over:
            for inlet in warden.inlets.values():
                inlet.close()
            self._read_exit(warden)
        consequence = self._judge(Event.CLOSED, warden)
        warden.is_gone = True
        if consequence is Consequence.LOST:
            self.living.pop(warden.index, None)
            text = f"{self._names[warden.index]} is lost: its warden on {warden.node_name} {why}"
            self._lose(text, [warden])
        self.changed()

    def _read_exit(self, warden: WardenConnection) -> None:
        path = protocol.exit_path(self._context.folder.path, self._names[warden.index])
        if warden.index not in self.exits:
            with suppress(OSError, ValueError, KeyError, TypeError):
                self._take_exit(warden, read_json(path))

    def _handle_step_end(self, step: StepRule) -> None:
        """Handle the end of a command: wardens of it that have not connected count as gone."""
        self.out_of_memory = self.steps.out_of_memory
        lost: list[str] = []
        for warden in self._list_wardens(step):
            consequence = self._judge(Event.COMMAND_ENDED, warden)
            if consequence is not Consequence.NONE:
                warden.is_gone = True
            if consequence is Consequence.NEVER_CONNECTED:
                lost.append(self._names[warden.index])
        if lost:
            self._lose(f"{roster.join_names(lost)} did not come up: {self.steps.end_words(step)}")
        self._loop.after(_LEAVE_S, partial(self._drop_wardens, step))
        self.changed()

    def _drop_wardens(self, step: StepRule) -> None:
        """Close the connections that wardens of an ended command have left open."""
        for warden in self._list_wardens(step):
            why = f"is gone: {self.steps.end_words(step)}"
            self._hang_up_on(Event.COMMAND_LONG_ENDED, warden, why)

    def _list_wardens(self, step: StepRule) -> _Wardens:
        return self.wardens[step.first : step.first + step.tasks]

    def _hang_up_on(self, event: Event, warden: WardenConnection, why: str) -> None:
        if warden.channel and self._judge(event, warden) is Consequence.HANG_UP:
            warden.channel.close()
            self._handle_end(warden, why)

    def _lose(self, why: str, wardens: _Wardens = ()) -> None:
        if not self.have_started:
            self._fail(why, wardens)
        elif self.lost is None:
            self.lost = why
            self._blame(wardens)

    def _fail(self, why: str, wardens: _Wardens = (), *, passes: bool = True) -> None:
        if self.fault is None:
            self.fault = why
            self.is_worth_another_try = passes
            self._blame(wardens)

    def _blame(self, wardens: _Wardens) -> None:
        """Note the nodes of these wardens as lost; without wardens, note those that are not."""
        self.lost_nodes = roster.list_nodes(wardens)
        self.reached_nodes = () if wardens else roster.list_nodes(self.wardens)

    def _resolve_marks(self) -> dict[str, str]:
        arrivals = list(roster.list_arrivals(self.wardens))
        return resolve_marks(arrivals, self._rule.marks, self._find_outside_address)

    def _find_outside_address(self) -> str:
        """Return an address of the first node for other nodes; empty: unknown."""
        return self._outside_address or next(iter(own_addresses()), "")

    def _ping(self) -> None:
        """Ping all wardens; count pings, not time, because the launcher may have been suspended."""
        unanswered_max = max(2, round(_SILENT_S / self._ping_s))
        for warden in self.wardens:
            if warden.channel is None or warden.is_gone or self._is_held:
                continue
            warden.unanswered += 1
            if warden.unanswered > unanswered_max:
                self._hang_up_on(Event.SILENT, warden, f"has sent no message for {_SILENT_S:g} s")
        for warden in self.wardens:
            warden.say("ping")
        self._loop.after(self._ping_s, self._ping)

    def _hold(self, on: bool) -> None:  # noqa: FBT001 - as Output.on_hold has it
        self._is_held = on
        for warden in self.wardens:
            warden.unanswered = 0
            if warden.channel is not None:
                warden.channel.pause(on)
