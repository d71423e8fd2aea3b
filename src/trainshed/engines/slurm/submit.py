"""Submits an attempt to Slurm exactly once, even if the server is killed in between.

``slurm.json`` in the attempt's folder is written before sbatch runs, and again with the job's
number afterwards.  A server that reads it without a number searches for a job with the attempt's
comment.  sbatch inherits the lock of the submission: while the sbatch of a killed server may still
submit, no other server does.
"""

import fcntl
import json
import os
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, repeat
from typing import Final

from trainshed.engines import spool
from trainshed.engines.base import JobNeeds
from trainshed.engines.container_runtime import Runtime
from trainshed.engines.slurm import attempt_files, comments, holding, judge, script
from trainshed.engines.slurm.attempt import SlurmAttempt
from trainshed.engines.slurm.attempt_files import Placing, SpoolRecord
from trainshed.engines.slurm.commands import SlurmAway
from trainshed.engines.slurm.holding import KeptAllocations
from trainshed.engines.slurm.judge import choose_partitions, shape_for
from trainshed.engines.slurm.options import SlurmOptions, list_sbatch_options, wishes_of
from trainshed.engines.slurm.poll import Poller
from trainshed.engines.slurm.pool import NodePool
from trainshed.engines.slurm.queue import Queue
from trainshed.engines.slurm.script import Submission
from trainshed.engines.slurm.shape import JobShape, ShapePart
from trainshed.engines.spool import Spool
from trainshed.engines.supervise.record import sent
from trainshed.engines.supervise.record.job_file import write_job_file
from trainshed.engines.supervise.record.spec import AttemptSpec, HangRule, LogRule
from trainshed.engines.warden import archive, compose
from trainshed.model.attempt import AttemptKey
from trainshed.model.codec import encode
from trainshed.model.faults import EngineFault, UsageFault
from trainshed.model.launch_plan import LaunchPlan
from trainshed.model.resources import Claim

#: Seconds that a launch waits for another launch of the same attempt, or for the first poll of
#: Slurm, and seconds between checks.
_SUBMIT_S_MAX: Final = 15.0
_LOCK_POLL_S: Final = 0.02


class Submitter:
    """Submits the attempts of one engine."""

    def __init__(  # noqa: PLR0913 - keyword arguments of one caller
        self,
        options: SlurmOptions,
        spool_: Spool,
        *,
        queue: Queue,
        poller: Poller,
        kept_allocations: KeptAllocations,
        runtime: Runtime | None,
        installation: str,
        name: str,
        locks: str,
    ) -> None:
        """Store the script and the archive in the spool.  Raises OSError."""
        self._options = options
        self._spool = spool_
        self._queue = queue
        self._poller = poller
        self._holding = kept_allocations
        self._runtime = runtime
        self._installation = installation
        self._name = name
        self._locks = locks
        os.makedirs(locks, mode=0o700, exist_ok=True)
        self._script = script.store_script(
            spool_, script.BATCH_NAME, script.BATCH, is_remote=bool(options.ssh)
        )
        warden = archive.build()
        self.archive: Final = spool_.keep(warden.name, warden.data)
        """Path on the nodes of the archive that launchers and wardens run from."""

    def manifest(self, key: AttemptKey, plan: LaunchPlan, claim: Claim) -> Mapping[str, str]:
        """Compose the plan, the script and the command of a submission.  Raises EngineFault."""
        submission = self._compose_submission(key, plan, claim)
        return {
            sent.PLAN: json.dumps(encode(self._compose_spec(submission, plan)), indent=2),
            **self._compose_sent_files(script.sbatch_words(submission)),
        }

    def launch(self, attempt: SlurmAttempt, plan: LaunchPlan, claim: Claim) -> None:
        """Submit an attempt, unless it was submitted before or has an order to stop.

        Raises the errors of ``Queue.submit``.
        """
        self._spool.check(attempt.key)
        attempt.submitted = earlier = attempt_files.read_submission(attempt.folder)
        if earlier is not None and earlier.job:
            return
        if attempt.folder.stop_order() is not None or attempt.final is not None:
            return
        with self._submitting(attempt.key) as lock:
            self._submit_first(attempt, plan, claim, lock)

    def read_sent(self, key: AttemptKey) -> Mapping[str, str]:
        """Read the files that were sent for an attempt.  Raises OSError."""
        try:
            self._spool.check(key)
        except EngineFault as fault:
            raise OSError(str(fault)) from fault
        return sent.sent(self._spool.folder(key))

    def _submit_first(
        self, attempt: SlurmAttempt, plan: LaunchPlan, claim: Claim, lock: int
    ) -> None:
        """Submit under the lock, unless another server has submitted the attempt."""
        key = attempt.key
        attempt.submitted = earlier = attempt_files.read_submission(attempt.folder)
        if earlier is not None and earlier.job:
            return
        self._check_answer()
        if not self._spool.has(script.BATCH_NAME):
            raise SlurmAway(
                f"the spool {self._spool.server_path} is missing or empty: mount the shared folder"
            )
        submission = self._compose_submission(key, plan, claim)
        if earlier is None:
            self._check_unclaimed(attempt)
            self._spool.make(key)
        self._submit(attempt, submission, plan, lock)

    def _check_answer(self) -> None:
        """Raise SlurmAway if Slurm does not answer, or has not listed its partitions yet.

        Partitions and nodes decide what a job requests; and sbatch would retry for a long time.
        """
        has_polled = self._poller.await_first(_SUBMIT_S_MAX)
        if self._poller.last_answer.is_away and (why := self._poller.health()) is not None:
            raise SlurmAway(why.message)
        if not has_polled:
            raise SlurmAway(f"Slurm has not listed its nodes within {_SUBMIT_S_MAX:g} s")

    def _check_unclaimed(self, attempt: SlurmAttempt) -> None:
        """Raise EngineFault if a claim exists before the first submission."""
        if spool.is_claimed(attempt.folder):
            path = f"{attempt.folder.path}/claim"
            raise EngineFault(f"cannot start the attempt: {path} exists already; remove this file")

    def _submit(
        self,
        attempt: SlurmAttempt,
        submission: Submission,
        plan: LaunchPlan,
        lock: int,
    ) -> None:
        """Submit the attempt, unless an earlier submission without a number has a job in Slurm."""
        cluster = self._poller.cluster
        job_id = self._find_job(attempt.key) if attempt.submitted is not None else ""
        is_new = not job_id and not spool.is_claimed(attempt.folder)
        if is_new:  # also after a refusal: the plan must match what is requested now
            compose.write(attempt.folder, self._compose_spec(submission, plan))
            write_job_file(attempt.folder, attempt.key, plan)
        shape = holding.hash_request(submission)
        parts, gpu_words = _list_placings(submission.shape, plan), submission.gres_of
        record = SpoolRecord(time.time(), job_id, parts, shape, gpu_words=gpu_words)
        attempt_files.keep_submitted(attempt.folder, record)
        attempt.submitted = record
        if not job_id and (taken := self._holding.take(submission, submission.ends_s, cluster)):
            record = record._replace(job=taken.job, kept=taken.attempt)
        elif is_new:
            words = script.sbatch_words(submission)
            sent.save(attempt.folder, self._compose_sent_files(words))
            record = record._replace(job=self._queue.submit(words, lock))
        if record != attempt.submitted:
            attempt.submitted = record
            attempt_files.keep_submitted(attempt.folder, record)

    def _compose_sent_files(self, words: Sequence[str]) -> dict[str, str]:
        command = shlex.join(self._queue.compose_submission(words))
        return {script.BATCH_NAME: script.BATCH, "command": command}

    def _find_job(self, key: AttemptKey) -> str:
        """Find the job that a killed server has submitted without storing its number; "": none."""
        rows = self._queue.jobs(script.job_name(self._installation, key.uid))
        return next((row.id for row in rows if comments.key_of(row.comment) == key), "")

    @contextmanager
    def _submitting(self, key: AttemptKey) -> Iterator[int]:
        """Hold the lock of a submission; sbatch inherits it and may outlive the server."""
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
        """Compose the values for the arguments of sbatch.  Raises EngineFault."""
        options, cluster = self._options, self._poller.cluster
        needs = JobNeeds(
            demand=claim.demand,
            running_s_max=claim.running_s_max,
            wants=claim.wants,
            project=claim.project,
            sets_time=False,
        )
        try:
            wishes = wishes_of(claim.wants, options)
            choice = choose_partitions(needs, cluster, options)
        except UsageFault as fault:
            raise EngineFault(str(fault)) from fault
        roles = [replica.role for replica in plan.replicas]
        shape = shape_for(claim.demand, roles, choice.pool, options, claim.wants)
        kept_words = chain(self._list_kept_words(key), repeat(""))
        nice = wishes.get("nice") or ("" if options.nice is None else str(options.nice))
        return Submission(
            key=key,
            owner=comments.describe_owner(claim.project, plan.title, plan.creator),
            installation=self._installation,
            shape=shape,
            folder=self._spool.folder_on_nodes(key).path,
            script=self._script,
            python=options.python,
            archive=self.archive,
            minutes=choice.grant.minutes,
            ends_s=choice.grant.ends_s,
            ends_why=choice.grant.why,
            gres_of=tuple(
                self._choose_gres(part, choice.pool, word)
                for part, word in zip(shape.parts, kept_words, strict=False)
            ),
            exclude=self._choose_excluded(key, claim),
            partition=choice.partition,
            account=wishes.get("account") or options.account_of(claim.project),
            qos=wishes.get("qos") or options.qos,
            reservation=wishes.get("reservation") or options.reservation,
            nice=nice,
            constraint=wishes.get("constraint") or options.constraint,
            more=list_sbatch_options(wishes, options),
            hidden=options.hidden_variables,
            spares_steps=cluster.kills_steps,
        )

    def _list_kept_words(self, key: AttemptKey) -> tuple[str, ...]:
        """List the words for GPUs of the last attempt, whose allocation may be kept."""
        if self._options.hold_s and key.earlier:
            with suppress(OSError, ValueError):
                record = attempt_files.read_submission(self._spool.folder(key.earlier[-1]))
                return record.gpu_words if record else ()
        return ()

    def _choose_gres(self, part: ShapePart, pool: NodePool, kept_word: str) -> str:
        if not part.need.gpus:
            return ""
        cluster, gpu_type = self._poller.cluster, part.need.gpu_type
        if not cluster.nodes:
            raise SlurmAway("cannot choose GPUs: Slurm has not listed the nodes yet")
        if not cluster.words_for(gpu_type):
            types = ", ".join(cluster.types) or "none"
            raise EngineFault(f"{self._name} has no {gpu_type}; its GPUs are: {types}")
        return pool.choose_word(part.need, part.count, kept_word) or ""

    def _choose_excluded(self, key: AttemptKey, claim: Claim) -> tuple[str, ...]:
        """Choose the nodes to avoid, because earlier attempts were lost on them."""
        lost_nodes: dict[str, None] = {}
        for earlier in reversed(key.earlier):
            with suppress(OSError, ValueError):
                nodes = attempt_files.list_lost_nodes(self._spool.folder(earlier))
                lost_nodes.update(dict.fromkeys(nodes))
        needs = JobNeeds(demand=claim.demand, wants=claim.wants)
        return judge.choose_excluded(tuple(lost_nodes), needs, self._poller.cluster, self._options)

    def _runs_in_launcher(self, submission: Submission, plan: LaunchPlan) -> bool:
        """Return whether the launcher itself runs the only replica, without a step.

        Slurm gives notice of a preemption to steps alone, not to the batch step.
        """
        gives_notice = self._poller.cluster.gives_notice(submission.partition)
        return len(plan.replicas) == 1 and not gives_notice

    def _compose_spec(self, submission: Submission, plan: LaunchPlan) -> AttemptSpec:
        options = self._options
        return compose.spec_of(
            plan,
            submission.key,
            self._spool.folder_on_nodes(submission.key),
            steps=() if self._runs_in_launcher(submission, plan) else script.steps(submission),
            prepare=script.prepare_words(submission),
            notes=_list_notes(submission),
            grace_s=options.grace_s,
            usage_s=options.usage_s,
            hang=HangRule(after_s=options.hang_s, stacks=options.hang_stacks),
            log=LogRule(options.log_bytes_per_s_max, options.log_bytes_max),
            listen_variable=options.listen_variable,
            cache=options.cache,
            ends_s=submission.ends_s,
            ends_why=submission.ends_why,
            start_timeout_s=options.start_timeout_s,
            package_bytes_max=options.package_bytes_max,
            relax_pins=options.relax_pins,
            runtime=self._runtime,
            # the time that is left in such an allocation is never enough for another attempt
            hold_s=0.0 if submission.ends_why else options.hold_s,
        )


def _try_lock(path: str) -> int | None:
    """Lock a file; return its descriptor, or None if another process holds the lock."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with suppress(BlockingIOError, FileNotFoundError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # the last holder may have removed this file; another file may have its name now
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    os.close(descriptor)
    return None


def _list_notes(submission: Submission) -> tuple[str, ...]:
    """List what the log says when the attempt begins."""
    if not submission.ends_why or submission.ends_s is None:
        return ()
    return (f"This attempt may run for {submission.ends_s:.12g} s{submission.ends_why}.",)


def _list_placings(shape: JobShape, plan: LaunchPlan) -> tuple[Placing, ...]:
    """List the replicas of each part; the parts of a packed allocation share their nodes."""
    replicas = [(replica.role, replica.index) for replica in plan.replicas]
    return tuple(
        Placing(
            tuple(replicas[part.first : part.first + part.count]),
            shape.share(part) if shape.packed else None,
        )
        for part in shape.parts
    )
