"""The engine of a Slurm cluster: each attempt is one job of Slurm's and one folder in the spool.

Nothing that the server must not lose is in its memory.  What was submitted, what claims it, what it
has recorded and how Slurm ended it lie in the attempt's folder; so a restarted server, or a second
one on the same spool, sees the same.
"""

import fcntl
import json
import logging
import os
import shlex
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from trainshed.engines.attempt_table import AttemptTable
from trainshed.engines.base import (
    FilesystemView,
    JobNeeds,
    Known,
    Living,
    NodeLocation,
    PlacedBy,
    ReplicaShape,
    Traits,
)
from trainshed.engines.slurm import holding, judge, nodes, script, spool, states
from trainshed.engines.slurm.attempt import SlurmAttempt
from trainshed.engines.slurm.commands import SlurmAway
from trainshed.engines.slurm.holding import KeptAllocations
from trainshed.engines.slurm.images import containers_of
from trainshed.engines.slurm.interpreters import Interpreters
from trainshed.engines.slurm.judge import fitting, judged, partition_of
from trainshed.engines.slurm.options import SlurmOptions, wishes_of
from trainshed.engines.slurm.parse import SlurmJob
from trainshed.engines.slurm.poll import Poller
from trainshed.engines.slurm.probe import probe
from trainshed.engines.slurm.queue import Queue
from trainshed.engines.slurm.script import Submission
from trainshed.engines.slurm.shape import JobShape, ShapePart, shape_of
from trainshed.engines.slurm.spool import EndInSlurm, Placing, Spool, SpoolRecord
from trainshed.engines.slurm.states import MOVING, OVER, SlurmState
from trainshed.engines.supervise.record import sent
from trainshed.engines.supervise.record.folder import Order
from trainshed.engines.supervise.record.observe import measured
from trainshed.engines.supervise.record.spec import AttemptSpec, HangRule, LogRule
from trainshed.engines.warden import archive, compose, marks
from trainshed.model.attempt import AttemptKey, Loss, Measured, Observation, Phase
from trainshed.model.codec import encode
from trainshed.model.explanation import Explanation
from trainshed.model.faults import EngineFault, UsageFault, is_transient
from trainshed.model.launch_plan import LaunchPlan
from trainshed.model.network import NetworkLayout
from trainshed.model.resources import Claim, Node, SeatsOrClaim
from trainshed.model.stopping import StopOrder, StopReason

_LOG = logging.getLogger(__name__)

_FINAL: Final = frozenset({Phase.ENDED, Phase.LOST})
_LAUNCHES: Final = 4
#: Orders after which a job may have another attempt, in the allocation of this one.
_GOES_ON: Final = frozenset({StopReason.AGAIN, StopReason.HANG})
#: Attempts that wait may be thousands: they are looked at every so many times.
_TICKS_OF_ALL: Final = 5
#: How often a job that goes on is asked again to end.
_CANCEL_S: Final = 10.0
#: How long a launch waits for another of the same attempt, and how often it looks.
_SUBMIT_S_MAX: Final = 15.0
_LOCK_POLL_S: Final = 0.02
#: What a job's own limit gets on top before its launcher ends it by itself.
_SPARE_S: Final = 240.0
_DRAIN: Final = "scontrol update nodename=NODE state=drain reason=REASON"


class SlurmEngine:
    """Runs attempts on a cluster; implements ``engines.base.Engine``."""

    def __init__(  # noqa: PLR0913 - what a cluster is made of, by name
        self,
        options: SlurmOptions,
        queue: Queue,
        *,
        name: str,
        installation: str,
        buckets: str,
        locks: str,
    ) -> None:
        """``buckets`` is the folder that nodes see; ``locks`` is a folder of this machine's own.

        Raises UsageFault for a spool that is not there or not ours, or OSError.
        """
        self.name = name
        self._options = options
        self._queue = queue
        self._installation = installation
        self._buckets = buckets
        self._locks = locks
        os.makedirs(locks, mode=0o700, exist_ok=True)
        self._spool = Spool(options.spool, options.spool_of_nodes, installation)
        self._spool.open()
        self._holding = KeptAllocations(queue, self._spool, is_on=options.hold_s > 0)
        self._script = self._spool.keep_script(
            script.BATCH_NAME, script.BATCH, is_remote=bool(options.ssh)
        )
        warden, library = archive.build(), archive.library()
        self._archive = self._spool.keep(warden.name, warden.data)
        self._containers = containers_of(options.containers)
        self._interpreters = Interpreters(self._spool)
        self._interpreters.look()
        self.traits = Traits(
            reach=NodeLocation.ANY,
            python=options.python,
            containers=self._containers,
            isolation="by the cluster: jobs run as the server's user",
            leftovers="Slurm ends whatever a job has started, by its cgroup",
            places=PlacedBy.ENGINE,
            orders_nodes=_DRAIN,
            launches_at_once=_LAUNCHES,
            enqueued_max=options.enqueued_max,
            library=self._spool.keep(library.name, library.data),
            path=options.path,
            jobs=Path(self._spool.jobs),
            here=lambda path: Path(self._spool.here_of(path)),
            commands=self._queue.counts,
            asked_s=lambda: self._poller.answered_s,
            fence=self._fence,
            sent=self._sent,
            versions=self._interpreters.versions,
            probe=lambda: probe(self._queue, self._spool, self._options),
        )
        self._attempts = AttemptTable(
            self._remember, self._look_at, is_over=lambda attempt: attempt.final is not None
        )
        self._orders: set[AttemptKey] = set()
        self._swept_at = 0
        self._ticks = 0
        self._callback: Callable[[Collection[AttemptKey]], None] | None = None
        self._poller = Poller(
            queue,
            gres=options.gres,
            rest_s=options.poll_s,
            work=self._work,
            news=self._tell_all,
        )
        # it starts with who needs it: what only looks, as doctor does, carries out no orders

    @property
    def jobs(self) -> str:
        """The folder of all jobs in the spool, as the server sees it."""
        return self._spool.jobs

    @property
    def polled_s(self) -> float | None:
        """When Slurm answered last; None: never."""
        return self._poller.answered_s

    def fleet(self) -> Sequence[Node]:
        """The cluster's nodes as last seen."""
        self._poller.start()
        return nodes.fleet(self._poller.cluster, self._options.policy)

    def sight(
        self, key: AttemptKey, shape: Sequence[ReplicaShape], layout: NetworkLayout | None = None
    ) -> FilesystemView:
        """Marks in the place of addresses, and folders as nodes see them.  Raises EngineFault."""
        del layout  # replicas have the network of their nodes
        folder = self._spool.folder_there(key)
        try:
            addresses = marks.addresses(key, shape)
        except ValueError as error:
            raise EngineFault(str(error)) from error
        return FilesystemView(
            addresses=addresses,
            work=folder.work,
            exchange=folder.shared,
            metrics=folder.metrics,
            earlier=tuple(self._spool.folder_there(older).work for older in key.earlier),
            buckets=self._buckets,
        )

    def health(self) -> Explanation | None:
        """Whether Slurm answers, and since when it does not."""
        self._poller.start()
        return self._poller.health()

    def judge(self, needs: JobNeeds) -> Explanation | None:
        """Whether nodes and limits as last seen can ever hold it."""
        self._poller.start()
        return judged(needs, self._poller.cluster, self._options)

    def manifest(self, key: AttemptKey, plan: LaunchPlan, place: SeatsOrClaim) -> Mapping[str, str]:
        """The plan, the script and the command as they are sent."""
        submission = self._compose_submission(key, plan, _claim(self.name, place))
        return {
            sent.PLAN: json.dumps(encode(self._spec(submission, plan, place)), indent=2),
            **self._compose_sent_files(script.sbatch_words(submission)),
        }

    def launch(self, key: AttemptKey, plan: LaunchPlan, place: SeatsOrClaim) -> None:
        """Submit an attempt unless it was before, or was to stop.

        Raises EngineFault for what Slurm will never take, Refused for what it does not take now,
        and OSError where it gives no answer.
        """
        self._poller.start()
        claim = _claim(self.name, place)
        with self._attempts.get(key).launching:
            try:
                self._launch(key, plan, claim)
            except OSError as error:
                if is_transient(error) or isinstance(error, FileNotFoundError):
                    raise
                raise EngineFault(f"the attempt {key} cannot be started: {error}") from error
            except ValueError as error:
                raise EngineFault(f"the attempt {key} cannot be started: {error}") from error
        self._poller.follow()

    def stop(self, key: AttemptKey, order: StopOrder) -> None:
        """Order the end of an attempt, also of one that was never submitted; return at once."""
        self._poller.start()
        try:
            self._spool.check(key)
            attempt = self._attempts.get(key)
            if attempt.final is None:
                attempt.folder.give_order(Order(order.grace_s, order.reason.value, order.message))
                attempt.asked_to_look = False
            if self._options.hold_s and order.reason not in _GOES_ON:
                self._holding.end(key.uid)
        except OSError as error:
            raise EngineFault(f"the attempt {key} cannot be stopped: {error}") from error
        with self._attempts.lock:
            self._orders.add(key)
        self._poller.follow()

    def observe(self, keys: Collection[AttemptKey]) -> Sequence[Observation]:
        """What the folders of these attempts say, and Slurm as last heard."""
        self._poller.start()
        self._attempts.drop_old(keys)
        return [self._observation(key) for key in keys]

    def measured(self, key: AttemptKey, after: int) -> Measured:
        """What an attempt's launcher has written of its reports.  Raises OSError."""
        return measured(self._spool.folder(key), after)

    def list_attempts(self) -> Sequence[Known]:
        """Every folder of an attempt, and every job of Slurm's that bears our name."""
        rows: defaultdict[AttemptKey, list[SlurmJob]] = defaultdict(list)
        for row in self._queue.jobs():
            key = holding.key_of(row.comment)
            if key is not None and self._is_alive(row):  # Slurm shows for minutes what has ended
                rows[key].append(row)
        return [
            self._describe_attempt(key, rows[key]) for key in sorted({*self._spool.keys(), *rows})
        ]

    def forget(self, uid: int) -> bool:
        """Remove the folder of a job unless something of it lives.  Raises OSError."""
        rows = self._queue.jobs()
        name = script.job_name(self._installation, uid)
        ours = [row for row in rows if row.name == name or row.name.startswith(f"{name}.")]
        if any(self._is_alive(row) for row in ours):
            self._holding.end(uid)
            return False
        keys = self._spool.attempts_of(uid)
        if any(self._attempts.may_live(key, _may_begin) for key in keys):
            return False
        self._attempts.drop(keys)
        self._spool.remove(uid)
        return True

    def listen(self, callback: Callable[[Collection[AttemptKey]], None]) -> None:
        """Call back when records have grown, or Slurm has said something new."""
        self._callback = callback
        self._poller.start()

    def close(self) -> None:
        """End the thread; jobs run on."""
        self._poller.close()

    def _launch(self, key: AttemptKey, plan: LaunchPlan, claim: Claim) -> None:
        self._spool.check(key)
        attempt = self._attempts.get(key)
        attempt.submitted = before = spool.submitted(attempt.folder)
        if before is not None and before.job:
            return
        if attempt.folder.stop_order() is not None or attempt.final is not None:
            return
        with self._submitting(key) as lock:
            self._submit_first(attempt, plan, claim, lock)

    def _submit_first(
        self, attempt: SlurmAttempt, plan: LaunchPlan, claim: Claim, lock: int
    ) -> None:
        """The same under the lock: another server may have been quicker."""
        key = attempt.key
        attempt.submitted = before = spool.submitted(attempt.folder)
        if before is not None and before.job:
            return
        if self._poller.last_answer.is_away and (why := self.health()) is not None:
            raise SlurmAway(why.message)  # sbatch would try for long
        if not self._spool.has(script.BATCH_NAME):
            raise SlurmAway(f"the spool {self._spool.here} is not there now, or empty")
        submission = self._compose_submission(key, plan, claim)
        if before is None:
            self._refuse_planted(attempt)
            self._spool.make(key)
            compose.write(attempt.folder, self._spec(submission, plan, claim))
        self._submit(attempt, submission, plan, self._ends_s(claim), lock)

    def _refuse_planted(self, attempt: SlurmAttempt) -> None:
        if spool.is_claimed(attempt.folder):
            path = f"{attempt.folder.path}/claim"
            raise EngineFault(f"{path} was there before the attempt was: it is not taken for ours")

    def _submit(
        self,
        attempt: SlurmAttempt,
        submission: Submission,
        plan: LaunchPlan,
        ends_s: float | None,
        lock: int,
    ) -> None:
        """Have Slurm take it, once: as long as a submission may be under way there is no second."""
        job_id = self._find_job(attempt.key) if attempt.submitted is not None else ""
        shape = holding.shape_of(submission)
        record = SpoolRecord(time.time(), job_id, _placings(submission.shape, plan), shape)
        spool.keep_submitted(attempt.folder, record)
        attempt.submitted = record
        if not job_id and (taker := self._holding.take(submission, ends_s, self._poller.cluster)):
            record = record._replace(job=taker.job, kept=taker.attempt)
        elif not job_id and not spool.is_claimed(attempt.folder):
            words = script.sbatch_words(submission)
            sent.keep(attempt.folder, self._compose_sent_files(words))
            record = record._replace(job=self._queue.submit(words, lock))
        if record != attempt.submitted:
            attempt.submitted = record
            spool.keep_submitted(attempt.folder, record)

    def _compose_sent_files(self, words: Sequence[str]) -> dict[str, str]:
        command = shlex.join(self._queue.shown(words))
        return {script.BATCH_NAME: script.BATCH, "command": command}

    def _sent(self, key: AttemptKey) -> Mapping[str, str]:
        """What was sent for an attempt.  Raises OSError."""
        try:
            self._spool.check(key)
        except EngineFault as fault:
            raise OSError(str(fault)) from fault
        return sent.sent(self._spool.folder(key))

    def _find_job(self, key: AttemptKey) -> str:
        """The number of a job that was submitted before, by whom did not live to write it down."""
        rows = self._queue.jobs(script.job_name(self._installation, key.uid))
        return next((row.id for row in rows if row.comment == str(key)), "")

    @contextmanager
    def _submitting(self, key: AttemptKey) -> Iterator[int]:
        """Hold the lock of a submission, which sbatch inherits: a killed server's may live on."""
        path = f"{self._locks}/{key.uid}-{key.attempt}"
        deadline = time.monotonic() + _SUBMIT_S_MAX
        while (descriptor := _try_lock(path)) is None:
            if time.monotonic() > deadline:
                raise SlurmAway("an earlier sbatch of the same attempt still runs")
            time.sleep(_LOCK_POLL_S)
        try:
            yield descriptor
            with suppress(OSError):
                os.unlink(path)
        finally:
            os.close(descriptor)

    def _compose_submission(self, key: AttemptKey, plan: LaunchPlan, claim: Claim) -> Submission:
        """All that the words of sbatch are made of.  Raises EngineFault."""
        options, cluster = self._options, self._poller.cluster
        try:
            wishes = wishes_of(claim.wants, options)
        except UsageFault as fault:
            raise EngineFault(str(fault)) from fault
        partition = partition_of(claim.demand.gpus, wishes, options)
        shape = shape_of(
            [replica.role for replica in plan.replicas],
            claim.demand,
            options.policy,
            packing=options.packing,
            fitting=fitting(cluster, cluster.partition(partition)),
        )
        nice = wishes.get("nice") or ("" if options.nice is None else str(options.nice))
        limit = claim.running_s_max
        return Submission(
            key=key,
            installation=self._installation,
            shape=shape,
            folder=self._spool.folder_there(key).path,
            script=self._script,
            python=options.python,
            archive=self._archive,
            minutes=None if limit is None else judge.minutes_of(limit, options.beyond_s),
            gres_of=tuple(self._gres(part) for part in shape.parts),
            exclude=self._list_lost_nodes(key),
            partition=partition,
            account=wishes.get("account") or options.account_of(claim.project),
            qos=wishes.get("qos") or options.qos,
            reservation=wishes.get("reservation") or options.reservation,
            nice=nice,
        )

    def _gres(self, part: ShapePart) -> str:
        if not part.need.gpus:
            return ""
        cluster, gpu_type = self._poller.cluster, part.need.gpu_type
        if not cluster.nodes:
            raise SlurmAway("the cluster's nodes were not seen yet: its GPUs are not known")
        if not (words := cluster.words_for(gpu_type)):
            types = ", ".join(cluster.types) or "none"
            raise EngineFault(f"{self.name} has no {gpu_type}; its GPUs are: {types}")
        # GPUs without a word of their own are any; those that have one come first
        return max(words)

    def _list_lost_nodes(self, key: AttemptKey) -> tuple[str, ...]:
        """Nodes that an earlier attempt of the job was lost with."""
        lost_nodes: set[str] = set()
        for attempt_key in key.earlier:
            with suppress(OSError, ValueError):
                end = spool.end_in_slurm(self._spool.folder(attempt_key))
                lost_nodes.update(end.nodes if end else ())
        return tuple(sorted(lost_nodes))

    def _spec(self, submission: Submission, plan: LaunchPlan, place: SeatsOrClaim) -> AttemptSpec:
        options = self._options
        return compose.spec_of(
            plan,
            submission.key,
            self._spool.folder_there(submission.key),
            steps=script.steps(submission),
            grace_s=options.grace_s,
            hang=HangRule(after_s=options.hang_s, stacks=options.hang_stacks),
            log=LogRule(options.log_bytes_per_s_max, options.log_bytes_max),
            listen_variable=options.listen_variable,
            cache=options.cache,
            ends_s=self._ends_s(place),
            start_timeout_s=options.start_timeout_s,
            package_bytes_max=options.package_bytes_max,
            relax_pins=options.relax_pins,
            runtime=self._containers.runtime,
            hold_s=options.hold_s,
        )

    def _ends_s(self, place: SeatsOrClaim) -> float | None:
        """After how many seconds a launcher ends its attempt by itself; None: never."""
        limit = place.running_s_max if isinstance(place, Claim) else None
        return None if limit is None else limit + self._options.grace_s + _SPARE_S

    def _observation(self, key: AttemptKey) -> Observation:
        observation = self._attempts.observe(key)
        is_away = observation.phase is Phase.UNKNOWN and observation.waits is None
        return observation._replace(waits=self.health()) if is_away else observation

    def _look_at(self, attempt: SlurmAttempt) -> Observation:
        with self._attempts.lock:
            if (last := attempt.unchanged(self._poller.last_answer)) is not None:
                return last
        self._spool.check(attempt.key)
        with self._attempts.lock:
            attempt.only_looks = not self._poller.is_started
            return attempt.observation(self._poller.last_answer, self._bad_nodes)

    def _remember(self, key: AttemptKey) -> SlurmAttempt:
        late_s = self._options.lost_after_s
        return SlurmAttempt(key, self._spool.folder(key), self.name, late_s)

    def _bad_nodes(self) -> frozenset[str]:
        """Nodes that Slurm cannot reach: what runs on them nobody knows."""
        rows = self._poller.cluster.nodes
        silent = {"*", "NOT_RESPONDING", "NO_RESPOND"}
        return frozenset(row.name for row in rows if silent.intersection(row.state))

    def _describe_attempt(self, key: AttemptKey, rows: Sequence[SlurmJob]) -> Known:
        """What folder and Slurm say; a job of Slurm's that may run is what lives."""
        phase = self._observation(key).phase
        if phase in _FINAL and self._holding.goes_on(self._spool.folder(key)):
            return Known(key, phase)  # nothing of it runs, and its nodes are given back in time
        living = tuple(
            Living(key, int(row.id), f"job {row.id} of Slurm, {row.state} on {','.join(row.nodes)}")
            for row in rows
            if states.state_of([row]) is not SlurmState.PENDING
        )
        return Known(key, phase, living)

    def _is_alive(self, row: SlurmJob) -> bool:
        """Whether something of a job may run; of one that has just said its end nothing does."""
        if states.state_of([row]) in OVER:
            return False
        key = holding.key_of(row.comment)
        attempt = self._attempts.peek(key) if key else None
        if attempt is None or attempt.final is None or not _is_ending(attempt):
            return True
        return self._holding.goes_on(attempt.folder)

    def _fence(self, key: AttemptKey) -> None:
        """Take an administrator's word that nothing of an attempt lives.  Raises EngineFault."""
        self._spool.check(key)
        attempt = self._attempts.get(key)
        phase = self._observation(key).phase
        if phase in _FINAL:
            return
        if phase is not Phase.UNKNOWN:
            raise EngineFault(f"the attempt {key} is {phase.value} by Slurm's own word: stop it")
        with self._attempts.lock:
            rows = attempt.rows(self._poller.last_answer)
            bad = tuple(dict.fromkeys(node for row in rows for node in row.nodes))
            attempt.folder.make()
            spool.take_claim(attempt.folder)
            why = "an administrator said that nothing of it lives"
            spool.keep_end(attempt.folder, EndInSlurm(why, Loss.INFRA, bad))

    # what the poller's thread does between its questions

    def _work(self) -> bool:
        """Tell of records that grew, and carry out orders; whether something moves."""
        self._ticks += 1
        looks_at_all = self._ticks % _TICKS_OF_ALL == 0
        with self._attempts.lock:
            open_ = [attempt for attempt in self._attempts.list_all() if attempt.final is None]
            orders = list(self._orders)
        running = open_ if looks_at_all else [attempt for attempt in open_ if attempt.records.began]
        answer = self._poller.last_answer
        if looks_at_all:
            self._interpreters.look()
            self._poller.miss(frozenset(attempt.job for attempt in open_ if attempt.job))
        self._tell([attempt.key for attempt in running if _has_grown(attempt)])
        for key in orders:
            self._carry_out(key)
        if answer.number != self._swept_at:
            self._swept_at = answer.number
            self._sweep(answer.rows)
        return bool(orders) or any(_moves(attempt, attempt.rows(answer)) for attempt in running)

    def _sweep(self, rows: Mapping[str, Sequence[SlurmJob]]) -> None:
        """Take up orders that were given before this server began, and ends that left a job."""
        for job, parts in rows.items():
            key = holding.key_of(parts[0].comment)
            if key is None or states.state_of(parts) in OVER:
                continue
            attempt = self._attempts.get(key)
            with suppress(OSError, ValueError, EngineFault):
                self._spool.check(key)
                if attempt.final is not None and self._holding.name(key, parts[0]):
                    continue
                if attempt.submitted is None:
                    attempt.submitted = spool.submitted(attempt.folder)
                is_over = spool.end_in_slurm(attempt.folder) is not None
                has_order = attempt.folder.stop_order() is not None
                requeued = attempt.is_requeued
                # one whose number was lost with a server is found by its comment
                is_its = attempt.job in {job, ""} and attempt.submitted is not None
                if is_its and (is_over or has_order or requeued):
                    with self._attempts.lock:
                        self._orders.add(key)

    def _carry_out(self, key: AttemptKey) -> None:
        """Bring an order to Slurm: at once where nothing runs, through its launcher else."""
        attempt = self._attempts.get(key)
        try:
            is_done = self._try_order(attempt)
        except (OSError, ValueError, EngineFault):
            return  # it is tried again
        if is_done:
            with self._attempts.lock:
                self._orders.discard(key)

    def _try_order(self, attempt: SlurmAttempt) -> bool:
        """Whether nothing is left to be done."""
        answer = self._poller.last_answer
        if answer.is_away:
            return False
        self._observation(attempt.key)
        rows = attempt.rows(answer)
        if attempt.final is not None and self._holding.goes_on(attempt.folder):
            return not rows or self._holding.name(attempt.key, rows[0])
        if not attempt.job:
            return attempt.submitted is None or (attempt.final is not None and _is_old(attempt))
        state = states.state_of(rows) if rows else None
        if state in OVER or (state is None and attempt.final is not None and answer.number):
            return state is not None or _is_old(attempt)
        is_dead = attempt.final is not None or spool.end_in_slurm(attempt.folder) is not None
        if is_dead or attempt.records.began is None or attempt.overdue() or attempt.is_requeued:
            self._cancel(attempt)
        elif not attempt.asked_to_look:
            self._queue.look_now(attempt.job)
            attempt.asked_to_look = True
        return False

    def _cancel(self, attempt: SlurmAttempt) -> None:
        if attempt.final is not None and attempt.records.ended is not None and _is_ending(attempt):
            return  # it is about to go by itself
        if time.monotonic() - attempt.cancelled_s >= _CANCEL_S:
            attempt.cancelled_s = time.monotonic()
            self._queue.cancel(attempt.job)

    def _tell(self, keys: Collection[AttemptKey]) -> None:
        if keys and self._callback is not None:
            self._callback(keys)

    def _tell_all(self) -> None:
        with self._attempts.lock:
            keys = [attempt.key for attempt in self._attempts.list_all() if attempt.final is None]
        self._tell(keys)


def _try_lock(path: str) -> int | None:
    """A descriptor that holds the lock of this name; None: somebody else has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with suppress(BlockingIOError, FileNotFoundError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # who had it before may have removed it meanwhile: then the name is another file's
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    os.close(descriptor)
    return None


def _claim(name: str, place: SeatsOrClaim) -> Claim:
    if not isinstance(place, Claim):
        raise EngineFault(f"{name} places by itself, and got seats")
    return place


def _placings(shape: JobShape, plan: LaunchPlan) -> tuple[Placing, ...]:
    """Which replicas are in which part; the parts of a packed one share their nodes."""
    replicas = [(replica.role, replica.index) for replica in plan.replicas]
    return tuple(
        Placing(
            tuple(replicas[part.first : part.first + part.count]),
            shape.share(part) if shape.packed else part.per_node,
        )
        for part in shape.parts
    )


def _may_begin(attempt: SlurmAttempt) -> bool:
    """Tell whether a job may begin an attempt of which Slurm says nothing."""
    if attempt.submitted is None:
        return False
    # Slurm has refused it, or nobody lived to submit it: with the claim taken it never begins
    is_none = not attempt.job and _is_old(attempt)
    return not (is_none and spool.take_claim(attempt.folder))


def _has_grown(attempt: SlurmAttempt) -> bool:
    try:
        size = os.lstat(attempt.folder.records).st_size
    except OSError:
        return False
    before, attempt.records_size = attempt.records_size, size
    return size != before


def _moves(attempt: SlurmAttempt, rows: Sequence[SlurmJob]) -> bool:
    """Whether Slurm is expected to say something new of it soon."""
    if not rows:
        return bool(attempt.job)
    state = states.state_of(rows)
    if state is SlurmState.RUNNING:
        return attempt.records.ready is None or attempt.records.ended is not None
    began = attempt.records.began is not None
    return state in MOVING or (state is SlurmState.PENDING and began) or state in OVER


def _is_ending(attempt: SlurmAttempt) -> bool:
    """Whether its launcher has recorded its end just now."""
    try:
        return attempt.recorded_for_s() < _CANCEL_S
    except OSError:
        return False


def _is_old(attempt: SlurmAttempt) -> bool:
    """Whether Slurm would have shown its job by now."""
    return attempt.submitted_for_s() > _CANCEL_S
