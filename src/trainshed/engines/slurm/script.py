"""Composes and stores the static batch script, the arguments of sbatch and wardens' steps."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from trainshed.engines.slurm.comments import compose_comment
from trainshed.engines.slurm.shape import JobShape, ShapePart
from trainshed.engines.spool import Spool
from trainshed.engines.supervise.record.spec import StepRule
from trainshed.engines.warden.archive_words import CODE, archive_words
from trainshed.model.attempt import AttemptKey

#: The only text of Trainshed that a shell reads; attempts differ only in its arguments.  The job
#: that creates the file ``claim`` runs the attempt: a second job, or a second start, exits at once.
BATCH: Final = (
    """\
#!/bin/sh
# folder of the attempt, interpreter, archive, names of variables that only sbatch may have
umask 077
set -Cf
cd "$1" || exit 71
nodes=${SLURM_JOB_NODELIST_HET_GROUP_0:-$SLURM_JOB_NODELIST}
nodes="$nodes $SLURM_JOB_NODELIST_HET_GROUP_1 $SLURM_JOB_NODELIST_HET_GROUP_2"
nodes="$nodes $SLURM_JOB_NODELIST_HET_GROUP_3 $SLURM_JOB_NODELIST_HET_GROUP_4"
tasks=${SLURM_TASKS_PER_NODE_HET_GROUP_0:-$SLURM_TASKS_PER_NODE}
tasks="$tasks $SLURM_TASKS_PER_NODE_HET_GROUP_1 $SLURM_TASKS_PER_NODE_HET_GROUP_2"
tasks="$tasks $SLURM_TASKS_PER_NODE_HET_GROUP_3 $SLURM_TASKS_PER_NODE_HET_GROUP_4"
folder=$1 python=$2 archive=$3
shift 3
[ $# -eq 0 ] || unset "$@"
{ echo $SLURM_JOB_ID $nodes / $tasks > claim; } 2>/dev/null || exit 0
export SLURM_EXPORT_ENV=ALL
"""
    f"""exec "$python" -I -S -c '{CODE}' "$archive" attempt "$folder"\n"""
)
BATCH_NAME: Final = f"batch-{hashlib.sha256(BATCH.encode()).hexdigest()[:16]}.sh"
#: Options of steps, set so that no default of the cluster or its users applies.
_SRUN: Final = ("srun", "--kill-on-bad-exit=0", "--wait=0", "--mpi=none", "--input=none")
#: For a cluster with OOMKillStep: the kernel kills the program alone, and its end can be recorded.
_SPARE: Final = "--oom-kill-step=0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """All values in the arguments of sbatch; paths are those of the nodes."""

    key: AttemptKey
    installation: str
    shape: JobShape
    folder: str
    script: str
    python: str
    archive: str
    owner: str = ""
    """Whose the job is, for its comment."""
    minutes: int | None = None
    ends_s: float | None = None
    """Seconds after which the launcher ends the attempt; None: never."""
    ends_why: str = ""
    """Why this is earlier than the job's own limit; empty: it is not."""
    gres_of: tuple[str, ...] = ()
    """Slurm's word for the GPUs of each part, in the order of the parts."""
    exclude: tuple[str, ...] = ()
    partition: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    nice: str = ""
    constraint: str = ""
    more: tuple[str, ...] = ()
    """Further options of sbatch, of the configuration and of labels."""
    hidden: tuple[str, ...] = ()
    """Names of variables that sbatch gets and that the launcher must not have."""
    spares_steps: bool = False
    """Whether launcher and wardens need an option to survive a program that has no memory."""


def store_script(spool: Spool, name: str, text: str, *, is_remote: bool) -> str:
    """Store a script and return its path for sbatch, which reads it.  Raises OSError.

    ``is_remote``: sbatch runs on a login node, where the spool has the same path as on nodes.
    """
    node_path = spool.keep(name, text.encode(), 0o700)
    return node_path if is_remote else f"{spool.library}/{name}"


def job_name(installation: str, uid: int) -> str:
    """Return the name in Slurm of the job with this uid."""
    return f"ts-{installation}-{uid}"


def sbatch_words(submission: Submission) -> list[str]:
    """Compose the arguments of sbatch."""
    words = ["--parsable", *_common_options(submission)]
    if submission.shape.packed:
        words += _packed_options(submission)
    else:
        for number, part in enumerate(submission.shape.parts):
            words += [":"] if number else []
            words += _part_options(submission, number, part)
    arguments = (submission.folder, submission.python, submission.archive, *submission.hidden)
    return [*words, submission.script, *arguments]


def _common_options(submission: Submission) -> Iterator[str]:
    yield "--no-requeue"
    yield "--open-mode=append"
    # with NONE, Slurm first starts a login shell on the node; sbatch has only our own variables
    yield "--export=ALL"
    output = f"{submission.folder}/runner.txt".replace("%", "%%")
    yield f"--output={output}"
    yield f"--chdir={submission.folder}"


def _component_options(submission: Submission, number: int = 0) -> Iterator[str]:
    """Yield the options that Slurm does not copy from one component to the next."""
    name = job_name(submission.installation, submission.key.uid)
    # components of one name would wait for each other as singletons
    yield f"--job-name={name}" if not number else f"--job-name={name}.{number}"
    yield f"--comment={compose_comment(submission.key, submission.owner)}"
    yield "--dependency=singleton"
    if submission.minutes is not None:
        yield f"--time={submission.minutes}"
    for option in ("partition", "account", "qos", "reservation", "nice", "constraint"):
        if text := getattr(submission, option):
            yield f"--{option}={text}"
    yield from submission.more
    yield from _spare_option(submission)
    if submission.exclude:
        yield f"--exclude={','.join(submission.exclude)}"


def _part_options(submission: Submission, number: int, part: ShapePart) -> Iterator[str]:
    yield from _component_options(submission, number)
    yield f"--ntasks={part.count}"
    yield f"--cpus-per-task={part.need.cpus}"
    if part.need.memory_mib:
        per_cpu_mib, rest_mib = divmod(part.need.memory_mib, part.need.cpus)
        # only one replica has a rest, and so the memory of its node
        yield f"--mem={part.need.memory_mib}M" if rest_mib else f"--mem-per-cpu={per_cpu_mib}M"
    if part.per_node is not None:
        yield f"--nodes={part.nodes}"
        yield f"--ntasks-per-node={part.per_node}"
    if part.per_node is not None and part.need.gpus:
        count = part.need.gpus * part.per_node
        yield f"--gres=gpu:{_gpu_option(submission.gres_of[number], count)}"
    elif part.need.gpus:
        yield f"--gpus-per-task={_gpu_option(submission.gres_of[number], part.need.gpus)}"


def _packed_options(submission: Submission) -> Iterator[str]:
    largest, need = submission.shape.largest, submission.shape.node_need
    yield from _component_options(submission)
    yield f"--nodes={largest.count}"
    yield f"--ntasks={largest.count}"
    yield "--ntasks-per-node=1"
    yield f"--cpus-per-task={need.cpus}"
    if need.memory_mib:
        yield f"--mem={need.memory_mib}M"
    if need.gpus:
        word = submission.gres_of[submission.shape.parts.index(largest)]
        yield f"--gres=gpu:{_gpu_option(word, need.gpus)}"


def _spare_option(submission: Submission) -> tuple[str, ...]:
    return (_SPARE,) if submission.spares_steps else ()


def _gpu_option(word: str, count: int) -> str:
    return f"{word}:{count}" if word else f"{count}"


def steps(submission: Submission) -> tuple[StepRule, ...]:
    """Compose the commands with which the launcher starts a warden for every replica."""
    parts = submission.shape.parts
    if submission.shape.packed:
        return tuple(_step_beside(submission, number, part) for number, part in enumerate(parts))
    words: list[str] = []
    for number, part in enumerate(parts):
        words += [":", *_SRUN[1:]] if number else _SRUN
        words += _spare_option(submission)
        words += _task_options(part, submission.gres_of[number] if submission.gres_of else "")
        words += _warden_command(submission, 0)
    return (StepRule(tuple(words), 0, sum(part.count for part in parts)),)


def _task_options(part: ShapePart, word: str) -> Iterator[str]:
    yield f"--ntasks={part.count}"
    yield f"--cpus-per-task={part.need.cpus}"  # since 22.05, srun ignores the value of sbatch
    # all memory of the allocation: where MaxMemPerCPU applies, Slurm gives it by other numbers
    yield "--mem=0"
    if part.per_node is None and part.need.gpus:
        yield f"--gpus-per-task={_gpu_option(word, part.need.gpus)}"
        yield f"--gpu-bind=per_task:{part.need.gpus}"
    elif part.per_node is not None and part.per_node > 1:
        yield from _tasks_per_node_option(part.count, part.per_node)
        if part.need.gpus:
            yield f"--gpu-bind=per_task:{part.need.gpus}"


def _tasks_per_node_option(count: int, per_node: int) -> Iterator[str]:
    """Yield the option if all nodes get the same number of tasks; otherwise srun would warn."""
    if not count % per_node:
        yield f"--ntasks-per-node={per_node}"


def _step_beside(submission: Submission, number: int, part: ShapePart) -> StepRule:
    """Compose a step that shares the nodes with other steps."""
    share = submission.shape.share(part)
    words = [
        *_SRUN,
        *_spare_option(submission),
        "--exact",
        f"--ntasks={part.count}",
        *_tasks_per_node_option(part.count, share),
    ]
    words += [f"--nodes={-(-part.count // share)}", f"--cpus-per-task={part.need.cpus}"]
    if part.need.memory_mib:
        words.append(f"--mem={part.need.memory_mib * share}M")
    word = submission.gres_of[number]
    gres = f"gpu:{_gpu_option(word, part.need.gpus)}" if part.need.gpus else "none"
    return StepRule(
        (*words, f"--gres={gres}", *_warden_command(submission, part.first)), part.first, part.count
    )


def _warden_command(submission: Submission, first: int) -> Sequence[str]:
    task = ("task", "--first", str(first), "--rank-variable", "SLURM_PROCID")
    return (*_archive_words(submission), *task)


def prepare_words(submission: Submission) -> Sequence[str]:
    """Compose the command with which a launcher installs the packages of its only replica."""
    return (*_archive_words(submission), "prepare")


def _archive_words(submission: Submission) -> Sequence[str]:
    return archive_words(submission.python, submission.archive)
