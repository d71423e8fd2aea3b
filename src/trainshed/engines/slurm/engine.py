"""The engine of a Slurm cluster: each attempt is one job of Slurm's and one folder in the spool.

The server's memory has no essential state.  The submission, the claim, the records and the end in
Slurm are files in the attempt's folder.  So a restarted server, or a second server on the same
spool, reads the same state.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from trainshed.engines import spool
from trainshed.engines.attempt_table import AttemptTable
from trainshed.engines.base import (
    EngineFinding,
    FilesystemView,
    JobNeeds,
    ListedAttempt,
    LivingProcess,
    NodeLocation,
    PlacedBy,
    ReplicaShape,
    Traits,
)
from trainshed.engines.cluster_end import EndByCluster
from trainshed.engines.slurm import attempt_files, comments, nodes, script, states
from trainshed.engines.slurm.attempt import SlurmAttempt
from trainshed.engines.slurm.holding import KeptAllocations
from trainshed.engines.slurm.interpreters import Interpreters
from trainshed.engines.slurm.judge import explain_refusal
from trainshed.engines.slurm.options import SlurmOptions, containers_of
from trainshed.engines.slurm.orders import Orders
from trainshed.engines.slurm.parse import SlurmJob
from trainshed.engines.slurm.poll import Poller
from trainshed.engines.slurm.probe import probe
from trainshed.engines.slurm.proof import nodes_of
from trainshed.engines.slurm.queue import Queue
from trainshed.engines.slurm.states import OVER, SlurmState
from trainshed.engines.slurm.submit import Submitter
from trainshed.engines.spool import Spool
from trainshed.engines.supervise.record.folder import Order
from trainshed.engines.supervise.record.observe import measured, steps_of
from trainshed.engines.supervise.record.usage_file import (
    read_newest_steps,
    read_newest_usage,
    read_usage,
)
from trainshed.engines.warden import archive, marks
from trainshed.files.beneath import PathBeneath
from trainshed.model.attempt import AttemptKey, Loss, Measured, Observation, Phase
from trainshed.model.explanation import Explanation
from trainshed.model.faults import EngineFault, is_transient
from trainshed.model.launch_plan import LaunchPlan
from trainshed.model.network import NetworkLayout
from trainshed.model.resources import Claim, Node, SeatsOrClaim
from trainshed.model.step_times import StepTimes
from trainshed.model.stopping import StopOrder
from trainshed.model.usage import UsageLine

_FINAL: Final = frozenset({Phase.ENDED, Phase.LOST})
#: A launch waits for the disk of the spool and for sbatch most of its time.
_LAUNCHES: Final = 8
_DRAIN: Final = "scontrol update nodename=NODE state=drain reason=REASON"


class SlurmEngine:
    """Runs attempts on a cluster; implements ``engines.base.Engine``."""

    def __init__(  # noqa: PLR0913 - keyword arguments of one caller
        self,
        options: SlurmOptions,
        queue: Queue,
        *,
        name: str,
        installation: str,
        buckets: str,
        locks: str,
    ) -> None:
        """``buckets`` is a path on the nodes; ``locks`` is a folder on the disk of this machine.

        Raises OSError, or UsageFault for a spool that is missing or belongs to another user.
        """
        self.name = name
        self._options = options
        self._queue = queue
        self._installation = installation
        self._buckets = buckets
        self._spool = Spool(options.spool, options.spool_of_nodes, installation)
        self._spool.open()
        self._holding = KeptAllocations(queue, self._spool, is_on=options.hold_s > 0)
        library = archive.library()
        containers = containers_of(options.containers)
        self._interpreters = Interpreters(self._spool)
        self._interpreters.reload()
        self._attempts = AttemptTable(
            self._remember, self._look_at, is_over=lambda attempt: attempt.final is not None
        )
        self._orders = Orders(
            self._attempts, self._spool, queue, self._holding, refresh=self._interpreters.reload
        )
        # the poller starts on first use: a program that only reads, such as doctor, ends no jobs
        self._poller = Poller(
            queue,
            gres=options.gres,
            rest_s=options.poll_s,
            work=lambda: self._orders.work(self._poller),
            news=self._orders.report_all,
            list_expected=self._orders.list_open_jobs,
        )
        self._submitter = Submitter(
            options,
            self._spool,
            queue=queue,
            poller=self._poller,
            kept_allocations=self._holding,
            runtime=containers.runtime,
            installation=installation,
            name=name,
            locks=locks,
        )
        self.traits = Traits(
            reach=NodeLocation.ANY,
            python=options.python,
            containers=containers,
            isolation="by the cluster: jobs run as the server's user",
            leftovers="Slurm ends all processes of a job, by its cgroup",
            places=PlacedBy.ENGINE,
            orders_nodes=_DRAIN,
            launches_at_once=_LAUNCHES,
            enqueued_max=options.enqueued_max,
            library=self._spool.keep(library.name, library.data),
            path=options.path,
            jobs=Path(self._spool.jobs),
        )

    def fleet(self) -> Sequence[Node]:
        """List the cluster's nodes as of the last poll."""
        self._poller.start()
        return nodes.fleet(self._poller.cluster, self._options.policy)

    def sight(
        self, key: AttemptKey, shape: Sequence[ReplicaShape], layout: NetworkLayout | None = None
    ) -> FilesystemView:
        """Return marks in place of addresses, and paths as nodes see them.  Raises EngineFault."""
        del layout  # replicas have the network of their nodes
        folder = self._spool.folder_on_nodes(key)
        try:
            addresses = marks.addresses(key, shape)
        except ValueError as error:
            raise EngineFault(str(error)) from error
        return FilesystemView(
            addresses=addresses,
            work=folder.work,
            exchange=folder.shared,
            metrics=folder.metrics,
            earlier=tuple(self._spool.folder_on_nodes(older).work for older in key.earlier),
            buckets=self._buckets,
        )

    def health(self) -> Explanation | None:
        """Explain since when Slurm has not answered; None: Slurm answers."""
        self._poller.start()
        return self._poller.health()

    def judge(self, needs: JobNeeds) -> Explanation | None:
        """Explain why the cluster can never run a job; None: the cluster may run it."""
        self._poller.start()
        return explain_refusal(needs, self._poller.cluster, self._options)

    def manifest(self, key: AttemptKey, plan: LaunchPlan, place: SeatsOrClaim) -> Mapping[str, str]:
        """Compose the plan, the script and the command that ``launch`` would send."""
        return self._submitter.manifest(key, plan, _claim(self.name, place))

    def launch(self, key: AttemptKey, plan: LaunchPlan, place: SeatsOrClaim) -> None:
        """Submit an attempt, unless it was submitted before or has an order to stop.

        Raises EngineFault for a job that Slurm will never accept, LaunchRefused for a job that
        Slurm does not accept now, and OSError if Slurm does not answer.
        """
        self._poller.start()
        claim = _claim(self.name, place)
        attempt = self._attempts.get(key)
        with attempt.launching:
            try:
                self._submitter.launch(attempt, plan, claim)
            except OSError as error:
                if is_transient(error) or isinstance(error, FileNotFoundError):
                    raise
                raise EngineFault(f"cannot start attempt {key}: {error}") from error
            except ValueError as error:
                raise EngineFault(f"cannot start attempt {key}: {error}") from error
        self._poller.follow()

    def stop(self, key: AttemptKey, order: StopOrder) -> None:
        """Order the end of an attempt, even if it was never submitted; return at once."""
        self._poller.start()
        try:
            self._spool.check(key)
            attempt = self._attempts.get(key)
            if attempt.final is None:
                attempt.folder.give_order(Order(order.grace_s, order.reason.value, order.message))
                attempt.is_reminded = False
            self._holding.stop(key, order.reason)
        except OSError as error:
            raise EngineFault(f"cannot stop attempt {key}: {error}") from error
        self._orders.add(key)
        self._poller.follow()

    def observe(self, keys: Collection[AttemptKey]) -> Sequence[Observation]:
        """Observe these attempts from their folders and Slurm's last answer."""
        self._poller.start()
        self._attempts.drop_old(keys)
        return [self._observation(key) for key in keys]

    def measured(self, key: AttemptKey, after: int) -> Measured:
        """Read the reports that an attempt's launcher has written.  Raises OSError."""
        return measured(self._spool.folder(key), after)

    def read_usage(
        self, key: AttemptKey, since_s: float = -math.inf, until_s: float = math.inf
    ) -> Sequence[UsageLine]:
        """Read what an attempt's launcher has measured.  Raises OSError."""
        return read_usage(self._spool.folder(key), since_s, until_s)

    def read_newest_usage(self, key: AttemptKey, after_s: float = -math.inf) -> Sequence[UsageLine]:
        """Read the newest lines of ``read_usage`` alone.  Raises OSError."""
        return read_newest_usage(self._spool.folder(key), after_s)

    def read_newest_steps(self, key: AttemptKey) -> Sequence[UsageLine]:
        """Read the newest lines of ``read_usage`` with steps alone.  Raises OSError."""
        return read_newest_steps(self._spool.folder(key))

    def work_folder(self, key: AttemptKey) -> PathBeneath:
        """Return the working folder of the replicas of an attempt."""
        return PathBeneath.of_file(self._spool.folder(key).work)

    def read_steps(self, key: AttemptKey, task_name: str) -> StepTimes | None:
        """Read the step times that a replica has reported so far; None if there are none."""
        return steps_of(self._spool.folder(key), task_name)

    def list_attempts(self) -> Sequence[ListedAttempt]:
        """List all attempts with a folder in the spool or a job of this installation in Slurm."""
        rows: defaultdict[AttemptKey, list[SlurmJob]] = defaultdict(list)
        for row in self._queue.jobs():
            key = comments.key_of(row.comment)
            if key is not None and self._is_alive(row):  # Slurm lists ended jobs for some minutes
                rows[key].append(row)
        return [
            self._describe_attempt(key, rows[key])
            for key in sorted({*self._spool.list_keys(), *rows})
        ]

    def forget(self, uid: int) -> bool:
        """Remove the folder of a job; return False if a process of the job may run.

        Raises OSError.
        """
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
        """Call back when records have grown or Slurm's answer has changed."""
        self._orders.callback = callback
        self._poller.start()

    def close(self) -> None:
        """End the polling thread; jobs continue."""
        self._poller.close()

    def fence(self, key: AttemptKey) -> None:
        """Record that an administrator has confirmed the end of an unreachable attempt.

        Raises EngineFault if Slurm knows the state of the attempt.
        """
        self._spool.check(key)
        attempt = self._attempts.get(key)
        phase = self._observation(key).phase
        if phase in _FINAL:
            return
        if phase is not Phase.UNKNOWN:
            raise EngineFault(
                f"cannot fence the attempt {key}, which is {phase.value} in Slurm: stop it instead"
            )
        with self._attempts.lock:
            all_nodes = frozenset(nodes_of(attempt.rows(self._poller.last_answer)))
            lost_nodes = sorted(all_nodes & self._find_silent_nodes() or all_nodes)
            attempt.folder.make()
            spool.take_claim(attempt.folder)
            why = "an administrator confirmed that no process of the attempt runs"
            attempt_files.keep_end(attempt.folder, EndByCluster(why, Loss.INFRA, tuple(lost_nodes)))

    def read_sent(self, key: AttemptKey) -> Mapping[str, str]:
        return self._submitter.read_sent(key)

    def list_versions(self, python: str) -> Mapping[str, str]:
        return self._interpreters.versions(python)

    def server_path(self, path: str) -> Path:
        return Path(self._spool.to_server_path(path))

    def answered_s(self) -> float | None:
        return self._poller.answered_s

    def count_commands(self) -> Mapping[tuple[str, bool], int]:
        return self._queue.counts()

    def probe(self) -> Iterator[EngineFinding]:
        return probe(self._queue, self._spool, self._options)

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
            attempt.is_read_only = not self._poller.is_started
            return attempt.observation(self._poller.last_answer, self._find_silent_nodes)

    def _remember(self, key: AttemptKey) -> SlurmAttempt:
        options, folder = self._options, self._spool.folder(key)
        return SlurmAttempt(
            key,
            folder,
            self.name,
            options.lost_after_s,
            spool=options.spool_of_nodes,
            holds_cancelled=options.hold_cancelled,
        )

    def _find_silent_nodes(self) -> frozenset[str]:
        """List the nodes that Slurm cannot reach; the state of jobs on these nodes is unknown."""
        return frozenset(node.name for node in self._poller.cluster.nodes if nodes.is_silent(node))

    def _describe_attempt(self, key: AttemptKey, rows: Sequence[SlurmJob]) -> ListedAttempt:
        """Describe an attempt from its folder and from Slurm; a job that may run is alive."""
        phase = self._observation(key).phase
        if phase in _FINAL and self._holding.goes_on(self._spool.folder(key)):
            return ListedAttempt(key, phase)  # a kept allocation runs no process
        living = tuple(
            LivingProcess(
                key, int(row.id), f"job {row.id} of Slurm, {row.state} on {','.join(row.nodes)}"
            )
            for row in rows
            if states.state_of([row]) is not SlurmState.PENDING
        )
        return ListedAttempt(key, phase, living)

    def _is_alive(self, row: SlurmJob) -> bool:
        """Return whether a process of a job may run.

        A launcher that has just recorded the end, and so exits, does not count.
        """
        if states.state_of([row]) in OVER:
            return False
        key = comments.key_of(row.comment)
        attempt = self._attempts.peek(key) if key else None
        if attempt is None or attempt.final is None or not attempt.is_leaving():
            return True
        return self._holding.goes_on(attempt.folder)


def _claim(name: str, place: SeatsOrClaim) -> Claim:
    if not isinstance(place, Claim):
        raise EngineFault(f"the engine {name} needs a claim, not seats: Slurm places its jobs")
    return place


def _may_begin(attempt: SlurmAttempt) -> bool:
    """Return whether a job may still begin an attempt for which Slurm lists no job."""
    if attempt.submitted is None:
        return False
    # Slurm refused the job, or the server was killed before sbatch: the claim prevents a start
    has_no_job = not attempt.job and attempt.is_settled()
    return not (has_no_job and spool.take_claim(attempt.folder))
