"""The engine of a Kubernetes cluster: each attempt is one JobSet and one folder on a shared claim.

The server's memory has no essential state.  The submission, the claim, the records and the end are
files in the attempt's folder, and the API has the objects.  So a restarted server, or a second
server on the same claim, reads the same state.
"""

import math
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
from trainshed.engines.container_runtime import Runtime, RuntimeChoice
from trainshed.engines.kubernetes import attempt_files, mounts, nodes
from trainshed.engines.kubernetes.attempt import KubernetesAttempt
from trainshed.engines.kubernetes.judge import explain_refusal
from trainshed.engines.kubernetes.options import KubernetesOptions
from trainshed.engines.kubernetes.orders import ClusterOrders
from trainshed.engines.kubernetes.submit import ClusterSubmitter
from trainshed.engines.kubernetes.watched_cluster import WatchedCluster
from trainshed.engines.spool import Spool
from trainshed.engines.supervise.record.folder import Order
from trainshed.engines.supervise.record.observe import measured, steps_of
from trainshed.engines.supervise.record.usage_file import (
    read_newest_steps,
    read_newest_usage,
    read_usage,
)
from trainshed.engines.warden import marks
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
_LAUNCHES: Final = 4
_DRAIN: Final = "kubectl drain NODE --ignore-daemonsets --delete-emptydir-data"
#: The interpreter in images: jobs' packages are installed into it.
_PYTHON: Final = ""


class KubernetesEngine:
    """Runs attempts on a cluster; implements ``engines.base.Engine``."""

    def __init__(  # noqa: PLR0913 - keyword arguments of one caller
        self,
        options: KubernetesOptions,
        spool_: Spool,
        cluster: WatchedCluster,
        submitter: ClusterSubmitter,
        *,
        name: str,
        needs_command: str,
        library: str,
        run_probe: Callable[[], Iterator[EngineFinding]],
        make_orders: Callable[[AttemptTable[KubernetesAttempt]], ClusterOrders],
    ) -> None:
        """``needs_command``: why a container must have a command; empty: the registry is asked.

        ``library`` is the trainer library's path in pods.
        """
        self.name = name
        self._options = options
        self._spool = spool_
        self._cluster = cluster
        self._submitter = submitter
        self._run_probe = run_probe
        self._attempts = AttemptTable(
            self._remember, self._look_at, is_over=lambda attempt: attempt.final is not None
        )
        self._orders = make_orders(self._attempts)
        cluster.on_change = self._orders.add
        runtime = Runtime(
            name="Kubernetes",
            program="",
            version="of the nodes",
            user=None,
            needs_command=needs_command,
            runs_all_jobs=True,
        )
        self.traits = Traits(
            reach=NodeLocation.ANY,
            python=_PYTHON,
            containers=RuntimeChoice(runtime),
            isolation="by the cluster: each replica runs in a pod of its own",
            leftovers="the kubelet ends all processes of a pod",
            places=PlacedBy.ENGINE,
            orders_nodes=_DRAIN,
            launches_at_once=_LAUNCHES,
            enqueued_max=options.enqueued_max,
            library=library,
            path="/usr/local/bin:/usr/bin:/bin",
            has_own_work_folders=True,
            jobs=Path(spool_.jobs),
        )

    def fleet(self) -> Sequence[Node]:
        """List the cluster's nodes as the API last showed them; none if they cannot be read."""
        self._start()
        return nodes.convert_nodes(
            nodes.read_nodes(self._cluster.list_node_objects(), self._options), self._options
        )

    def sight(
        self, key: AttemptKey, shape: Sequence[ReplicaShape], layout: NetworkLayout | None = None
    ) -> FilesystemView:
        """Return marks in place of addresses, and paths as pods see them.  Raises EngineFault."""
        del layout  # pods have networks of their own
        try:
            addresses = marks.addresses(key, shape)
        except ValueError as error:
            raise EngineFault(str(error)) from error
        return FilesystemView(
            addresses=addresses,
            work=mounts.WORK,
            exchange=mounts.WORK,
            metrics=mounts.METRICS,
            earlier=(),
            buckets=mounts.BUCKETS,
        )

    def health(self) -> Explanation | None:
        """Explain since when the API has not answered, or what it lacks; None: it answers."""
        self._start()
        return self._cluster.health()

    def judge(self, needs: JobNeeds) -> Explanation | None:
        """Explain why the cluster can never run a job; None: the cluster may run it."""
        self._start()
        return explain_refusal(
            needs,
            self._cluster.list_gpu_rows(),
            self._options,
            namespace=self._cluster.namespace,
            missing_queues=self._cluster.missing_queues,
        )

    def manifest(self, key: AttemptKey, plan: LaunchPlan, place: SeatsOrClaim) -> Mapping[str, str]:
        """Compose the plan and the JobSet that ``launch`` would send."""
        return self._submitter.manifest(key, plan, _claim(self.name, place))

    def launch(self, key: AttemptKey, plan: LaunchPlan, place: SeatsOrClaim) -> None:
        """Submit an attempt, unless it was submitted before or has an order to stop.

        Raises EngineFault for a job that the cluster will never accept, LaunchRefused for a job
        that it does not accept now, and OSError if the API does not answer.
        """
        self._start()
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
        self._orders.add([key])

    def stop(self, key: AttemptKey, order: StopOrder) -> None:
        """Order the end of an attempt, even if it was never submitted; return at once."""
        self._start()
        try:
            self._spool.check(key)
            attempt = self._attempts.get(key)
            if attempt.final is None:
                grace_s = min(order.grace_s, self._options.grace_s_max)
                attempt.folder.give_order(Order(grace_s, order.reason.value, order.message))
        except OSError as error:
            raise EngineFault(f"cannot stop attempt {key}: {error}") from error
        self._orders.add([key])

    def observe(self, keys: Collection[AttemptKey]) -> Sequence[Observation]:
        """Observe these attempts from their folders and the API's last answers."""
        self._start()
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

    def read_steps(self, key: AttemptKey, task_name: str) -> StepTimes | None:
        """Read the step times that a replica has reported so far; None if there are none."""
        return steps_of(self._spool.folder(key), task_name)

    def list_attempts(self) -> Sequence[ListedAttempt]:
        """List all attempts with a folder in the spool, or with objects of this installation."""
        self._cluster.sync()
        keys = {*self._spool.list_keys(), *self._cluster.list_keys()}
        return [self._describe_attempt(key) for key in sorted(keys)]

    def forget(self, uid: int) -> bool:
        """Remove the folder of a job; return False if a process of the job may run.

        Raises OSError.
        """
        self._start()
        self._cluster.sync()
        keys = self._spool.attempts_of(uid)
        objects = [key for key in self._cluster.list_keys() if key.uid == uid]
        if objects:
            self._orders.add(objects)
            return False
        if any(self._attempts.may_live(key, _may_begin) for key in keys):
            return False
        strays = [key for key in keys if self._attempts.get(key).has_stray_secret]
        if strays:
            self._orders.add(strays)
            return False
        self._attempts.drop(keys)
        self._spool.remove(uid)
        return True

    def listen(self, callback: Callable[[Collection[AttemptKey]], None]) -> None:
        """Call back when records have grown or the cluster's objects have changed."""
        self._orders.callback = callback
        self._start()

    def close(self) -> None:
        """End the threads and connections; attempts continue."""
        self._orders.close()
        self._cluster.close()

    def fence(self, key: AttemptKey) -> None:
        """Record that an administrator has confirmed the end of an unreachable attempt.

        Raises EngineFault if the API knows the state of the attempt.
        """
        self._spool.check(key)
        attempt = self._attempts.get(key)
        phase = self._observation(key).phase
        if phase in _FINAL:
            return
        if phase is not Phase.UNKNOWN:
            raise EngineFault(
                f"cannot fence the attempt {key}, which is {phase.value} on the cluster: stop it "
                "instead"
            )
        with self._attempts.lock:
            node_names = tuple(dict.fromkeys(seat.node for seat in attempt.seats))
            attempt.folder.make()
            spool.take_claim(attempt.folder)
            why = "an administrator confirmed that no process of the attempt runs"
            attempt_files.keep_end(attempt.folder, EndByCluster(why, Loss.INFRA, node_names))

    def read_sent(self, key: AttemptKey) -> Mapping[str, str]:
        return self._submitter.read_sent(key)

    def probe(self) -> Iterator[EngineFinding]:
        """Check the API, then start two pods; yield the findings.  Raises OSError."""
        return self._run_probe()

    @property
    def is_synced(self) -> bool:
        """Whether the API has answered every list that the engine needs."""
        return self._cluster.is_synced

    def _start(self) -> None:
        self._cluster.start()
        self._orders.start()

    def _observation(self, key: AttemptKey) -> Observation:
        observation = self._attempts.observe(key)
        is_away = observation.phase is Phase.UNKNOWN and observation.waits is None
        return observation._replace(waits=self._cluster.health()) if is_away else observation

    def _look_at(self, attempt: KubernetesAttempt) -> Observation:
        with self._attempts.lock:
            if (last := attempt.unchanged(self._cluster)) is not None:
                return last
        self._spool.check(attempt.key)
        with self._attempts.lock:
            attempt.is_read_only = not self._orders.is_started
            return attempt.observation(self._cluster)

    def _remember(self, key: AttemptKey) -> KubernetesAttempt:
        return KubernetesAttempt(key, self._spool.folder(key), self.name, self._options)

    def _describe_attempt(self, key: AttemptKey) -> ListedAttempt:
        """Describe an attempt from its folder and its pods; a pod that may run is alive.

        Pods whose launcher has just recorded the end, and that so exit, do not count.
        """
        phase = self._observation(key).phase
        attempt = self._attempts.peek(key)
        if phase in _FINAL and attempt is not None and attempt.is_leaving():
            return ListedAttempt(key, phase)
        living = tuple(
            LivingProcess(key, 0, f"pod {pod.name}, {pod.phase} on {pod.node}")
            for pod in self._cluster.list_pods(key)
            if pod.node and not pod.is_over
        )
        return ListedAttempt(key, phase, living)


def _claim(name: str, place: SeatsOrClaim) -> Claim:
    if not isinstance(place, Claim):
        raise EngineFault(f"the engine {name} needs a claim, not seats: Kubernetes places its pods")
    return place


def _may_begin(attempt: KubernetesAttempt) -> bool:
    """Return whether a pod may still begin an attempt for which the API lists no JobSet."""
    if attempt.submitted is None:
        return False
    # the API refused the JobSet, or the server was killed before: the claim prevents a start
    has_no_jobset = not attempt.uid and attempt.is_settled()
    return not (has_no_jobset and spool.take_claim(attempt.folder))
