"""Runs one attempt of a job on this machine, from its plan to its outcome.

The order of things: the environment of the packages, the GPUs, all replicas at once or none, their
output, the verdict, the end of every process.  Nothing of the job runs when ``run`` returns or
raises.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from trainshed.engines.base import OutputSink
from trainshed.engines.local.attendant import Attendant
from trainshed.engines.local.delivery import Delivery
from trainshed.engines.local.devices import gpus, nvml
from trainshed.engines.local.environments.prepared import prepared
from trainshed.engines.local.gang import Event, Gang, Output, Signalled, SupervisorLost
from trainshed.engines.local.interrupts import Interrupted, Interrupts, listening
from trainshed.engines.local.messages import Exited, Finished, Started, StartFailed
from trainshed.engines.local.processes import replica_env
from trainshed.engines.local.supervisor import Command
from trainshed.model import success as verdict
from trainshed.model.attempt import Outcome, ReplicaExit
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import LaunchPlan
from trainshed.model.success import JobEnd as Verdict


def run(  # noqa: PLR0913 - what differs between machines and tests, each with its default
    plan: LaunchPlan,
    *,
    sink: OutputSink,
    grace_s: float = 10.0,
    settle_s: float = 1.0,
    cache_dir: Path | None = None,
    find_gpus: Callable[[], Sequence[gpus.Device]] = nvml.devices,
    lone_takes_all: bool = True,
    attendant: Attendant | None = None,
) -> Outcome:
    """Run a job to its end and say how it ended (R11); its exit code is the deciding replica's.

    ``grace_s`` is the time from SIGTERM to SIGKILL.  ``settle_s`` is how long workers of an
    all-reduce job may take to end by themselves after the primary has.  SIGINT, SIGTERM and SIGHUP
    stop the job (exit code 128 + N), a second one kills it, unless the attendant says otherwise.
    ``lone_takes_all`` lets a single replica that asks for no GPU have every free one.  To be called
    in the main thread, or signals are left alone.

    Raises EngineFault when a replica cannot be started, or its packages cannot be installed.
    """
    attendant = attendant or Attendant()
    delivery = Delivery(plan.replicas, sink, attendant.caught_up)
    for text in plan.notes:
        delivery.note(text)
    try:
        with listening() as interrupts:
            home = prepared(plan.environment, cache_dir, delivery.note)
            interrupts.raising = False
            with gpus.assigned(
                plan.replicas, find_gpus(), delivery.note, lone_takes_all=lone_takes_all
            ) as shares:
                commands = replica_env.commands(plan, home, shares)
                return _Conductor(
                    plan, delivery, interrupts, attendant, grace_s=grace_s, settle_s=settle_s
                ).conduct(commands)
    except Interrupted as signalled:
        ended = verdict.interrupted(signalled.signum)
        return Outcome(exit_code=ended.exit_code, replicas=(), message=verdict.message(ended, {}))


class _Conductor:
    """Holds what is known of the running job and decides what to ask of the gang next."""

    def __init__(  # noqa: PLR0913 - called once, just above
        self,
        plan: LaunchPlan,
        delivery: Delivery,
        interrupts: Interrupts,
        attendant: Attendant,
        *,
        grace_s: float,
        settle_s: float,
    ) -> None:
        self._plan = plan
        self._delivery = delivery
        self._interrupts = interrupts
        self._attendant = attendant
        self._grace_s = grace_s
        self._settle_s = (
            settle_s if verdict.may_end_together(r.role for r in plan.replicas) else 0.0
        )
        self._exits: dict[int, ReplicaExit] = {}
        self._verdict: Verdict | None = None
        self._stop_at = 0.0
        self._stopping = False
        self._finished = False
        self._fault: str | None = None

    def conduct(self, commands: Sequence[Command]) -> Outcome:
        title = f"supervisor of job {self._plan.job_id}".rstrip()
        with Gang(title, commands, self._interrupts) as gang:
            while not self._finished:
                for event in gang.poll(self._timeout()):
                    self._on(event, gang)
                self._delivery.flush()
                self._press(gang)
        self._delivery.finish()
        self._delivery.flush()
        if self._fault is not None:
            raise EngineFault(self._fault)
        return self._outcome()

    def _on(self, event: Event, gang: Gang) -> None:
        match event:
            case Output():
                self._delivery.take(event)
            case Started():
                self._attendant.ready()
            case Exited():
                self._exits[event.index] = self._replica_exit(event)
            case Signalled():
                self._on_signals(gang)
            case StartFailed():
                task_name = self._plan.replicas[event.index].task_name
                self._fault = f"{task_name} cannot be started: {event.reason}"
            case SupervisorLost():
                self._fault = "the supervisor was killed; every replica was ended with it"
                self._finished = True
            case Finished():
                self._finished = True
                self._note_left(event)

    def _on_signals(self, gang: Gang) -> None:
        for signum in self._interrupts.take():
            if self._stopping:
                if self._attendant.kills_when_asked_again():
                    gang.kill()
                continue
            self._grace_s, text = self._attendant.stop_asked(signum, self._grace_s)
            self._delivery.note(text)
            self._verdict = self._verdict or verdict.interrupted(signum)
            self._stop(gang)

    def _press(self, gang: Gang) -> None:
        """Come to a verdict when there is one, and stop the others when it is time."""
        if self._verdict is None:
            self._verdict = verdict.job_end(
                self._plan.primary.task_name, tuple(self._exits.values())
            )
            if self._verdict is None and self._delivery.broken is not None:
                self._verdict = verdict.output_gone(self._delivery.broken)
            settle_s = 0.0 if self._verdict is None or self._verdict.exit_code else self._settle_s
            self._stop_at = time.monotonic() + settle_s
        all_ended = all(
            index in self._exits or not verdict.ends_by_itself(replica.role)
            for index, replica in enumerate(self._plan.replicas)
        )
        if self._verdict is not None and (all_ended or time.monotonic() >= self._stop_at):
            self._stop(gang)

    def _stop(self, gang: Gang) -> None:
        if not self._stopping:
            self._stopping = True
            self._tell_verdict()
            gang.stop(self._grace_s)

    def _tell_verdict(self) -> None:
        """Before anything is torn down, so that it is known whatever happens then (DESIGN 5.6)."""
        if self._verdict is not None and self._fault is None:
            said = verdict.message(self._verdict, self._delivery.last_words)
            self._attendant.decided(self._verdict.exit_code, said)

    def _timeout(self) -> float | None:
        if self._verdict is None or self._stopping:
            return None
        return max(0.0, self._stop_at - time.monotonic())

    def _replica_exit(self, event: Exited) -> ReplicaExit:
        replica = self._plan.replicas[event.index]
        code = os.waitstatus_to_exitcode(event.status)
        return ReplicaExit(
            role=replica.role,
            index=replica.index,
            task_name=replica.task_name,
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            seconds=event.seconds,
            stopped_by_us=event.stopped,
        )

    def _note_left(self, event: Finished) -> None:
        if event.left:
            pids = ", ".join(map(str, event.left))
            self._delivery.note(f"could not be killed and may still run: process {pids}")

    def _outcome(self) -> Outcome:
        final = self._verdict or Verdict(exit_code=0, reason="the job has ended")
        return Outcome(
            exit_code=final.exit_code,
            replicas=tuple(self._exits[i] for i in sorted(self._exits)),
            message=verdict.message(final, self._delivery.last_words),
            last_words=verdict.words_of(final, self._delivery.last_words),
        )
