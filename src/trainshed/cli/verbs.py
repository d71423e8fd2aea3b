"""The table of verbs: their words, their modules, and their aliases."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainshed.cli import flags


class Verb:
    """One verb.  It is no dataclass: that import would take a tenth of the time of ``--help``.

    Its module has the functions ``parser`` and ``run``.  At the top the module imports only what
    ``--help`` needs; everything else is imported where it is used.
    """

    def __init__(self, text: str, module: str, summary: str, *, hidden: bool = False) -> None:
        """Store the verb's words and the name of its module in this package."""
        self.text = text
        self.words = tuple(text.split())
        self.module = f"trainshed.cli.{module}"
        self.summary = summary
        self.hidden = hidden

    def parser(self) -> "flags.Parser":
        """Import the module, and make the parser."""
        parser: flags.Parser = import_module(self.module).parser(f"trainshed {self.text}")
        return parser

    def run(self, argv: list[str]) -> int:
        """Parse the words after the verb, and run it; return the exit code."""
        run: Callable[[flags.Request], int] = import_module(self.module).run
        return run(self.parser().request(argv))


def _ai_platform(*names: str) -> tuple[Verb, ...]:
    """Return the named verbs for AI Platform jobs, under both names of gcloud's group."""
    rows = {
        "submit training": ("jobs.create", "submit an AI Platform training job to a server"),
        "list": ("jobs.resources", "list the AI Platform jobs of a project"),
        "describe": ("jobs.resources", "show a job, and why it waits"),
        "stream-logs": ("jobs.stream_logs", "print a job's log until it ends"),
        "watch": ("jobs.watch", "show a job while it runs; a tuning job with its trials"),
        "report": ("jobs.tuning_report", "write a tuning job's trials as one HTML page and CSV"),
        "update": ("jobs.jobs_update", "change the labels of a job"),
        "cancel": ("jobs.resources", "cancel a job"),
    }
    return tuple(
        Verb(f"{group} {name}", *rows[name], hidden=group.startswith("ml-engine"))
        for group in ("ai-platform jobs", "ml-engine jobs")
        for name in names
    )


def _resources(group: str, noun: str, *names: str) -> tuple[Verb, ...]:
    rows = {
        "list": f"list the {noun}s of a project",
        "describe": f"show a {noun}, and why it waits",
        "cancel": f"cancel a {noun}",
        "delete": f"delete a {noun} that has ended",
    }
    return tuple(Verb(f"{group} {name}", "jobs.resources", rows[name]) for name in names)


_SUBMIT_AND_WATCH = (
    Verb("validate", "check.validate", "check job files against the catalog"),
    Verb(
        "ai custom-jobs local-run",
        "local.custom_local_run",
        "run a Vertex AI custom job on this machine",
    ),
    Verb(
        "ai-platform local train",
        "local.local_train",
        "run an AI Platform training job on this machine",
    ),
    Verb(
        "ml-engine local train",
        "local.local_train",
        "run an AI Platform training job on this machine",
        hidden=True,
    ),
    Verb("ai custom-jobs create", "jobs.create", "submit a Vertex AI custom job to a server"),
    *_ai_platform("submit training"),
    Verb("jobs list", "jobs.jobs_list", "list the jobs of all kinds: state, start, user, node"),
    Verb("jobs logs", "jobs.jobs_logs", "print the log of a job; with --follow until it ends"),
    Verb("jobs describe", "jobs.jobs_describe", "show a job: state, times, replicas, why it waits"),
    Verb("jobs cancel", "jobs.jobs_cancel", "cancel jobs"),
    Verb("jobs resume", "jobs.jobs_resume", "resume held jobs"),
    Verb("jobs check", "jobs.job_texts", "ask the server whether a job file would start now"),
    Verb("jobs submit", "jobs.job_texts", "submit a job file of any kind to a server"),
    Verb("jobs document", "jobs.job_texts", "print a job as YAML, to submit it again"),
    Verb("jobs label", "jobs.job_orders", "set and remove labels of a job"),
    Verb("jobs delete", "jobs.job_orders", "delete jobs that have ended"),
    Verb("run", "local.run", "run a program written for Google against a server, unchanged"),
    Verb("jobs watch", "jobs.watch", "show a job while it runs: state, replicas, last lines"),
    Verb("tensorboard", "jobs.tensorboard", "start TensorBoard on the folder of a job or a study"),
    Verb(
        "jobs explain",
        "jobs.job_story",
        "explain why a job waits or failed, and what would start it",
    ),
    Verb("jobs goodput", "jobs.jobs_goodput", "show how a job used its time with machines"),
    Verb("jobs events", "jobs.job_story", "list the events of a job"),
    Verb("jobs usage", "jobs.job_figures", "show what a job's replicas and GPUs used over time"),
    Verb("jobs scalars", "jobs.job_figures", "show the values that a job's program reports"),
    Verb("jobs manifest", "jobs.job_story", "print what the engine of an attempt received"),
    Verb("explain-env", "check.explain_env", "print the environment of one replica of a job"),
    *_resources("ai custom-jobs", "custom job", "list", "describe"),
    Verb(
        "ai custom-jobs stream-logs", "jobs.stream_logs", "print a custom job's log until it ends"
    ),
    *_resources("ai custom-jobs", "custom job", "cancel", "delete"),
    *_ai_platform("list", "describe", "stream-logs", "watch", "update", "cancel"),
    *_resources("ai pipelines", "training pipeline", "list", "describe", "cancel", "delete"),
)
_TUNE = (
    Verb("ai hp-tuning-jobs create", "jobs.create", "submit a tuning job to a server"),
    Verb("ai hp-tuning-jobs watch", "jobs.watch", "show a tuning job's trials while it runs"),
    Verb(
        "ai hp-tuning-jobs report",
        "jobs.tuning_report",
        "write a tuning job's trials as one HTML page and CSV",
    ),
    Verb(
        "ai hp-tuning-jobs stream-logs",
        "jobs.stream_logs",
        "print a tuning job's log until it ends",
    ),
    Verb("jobs study", "jobs.job_study", "show a tuning job: best trial, early stops, importances"),
    *_resources("ai hp-tuning-jobs", "tuning job", "list", "describe", "cancel"),
    *_ai_platform("report"),
)
_PLAN = (
    Verb("plan", "plan.plan", "predict how a job scales, how long it takes and what it costs"),
    Verb("plan calibrate", "plan.plan_calibrate", "measure a trainer in runs of some seconds"),
    Verb(
        "plan history",
        "plan.plan_history",
        "list calibrations of a server's jobs, and how its predictions held",
    ),
    Verb(
        "gpu-check", "check.gpu_check", "run a few steps on CPU and GPU: is a GPU worth its price?"
    ),
    Verb(
        "reduction plan",
        "plan.reduction_plan",
        "compute how many reducers a job needs, and their gain",
    ),
    Verb("catalog", "check.catalog", "show machine types, accelerators, regions, runtimes, images"),
)
_ADMINISTER = (
    Verb("serve", "admin.serve", "run the server for gcloud and the Vertex SDK"),
    Verb("env", "admin.env", "print the settings that point gcloud and the SDKs at a server"),
    Verb("console", "admin.console", "print a link that signs a browser in to the web console"),
    Verb("nodes", "admin.nodes", "list the machines of the fleet"),
    Verb("nodes drain", "admin.nodes_order", "stop new replicas on a node"),
    Verb(
        "nodes maintain",
        "admin.nodes_order",
        "give the replicas on a node notice, and free the node",
    ),
    Verb("nodes resume", "admin.nodes_order", "allow replicas on a node again"),
    Verb("projects list", "admin.projects", "list the projects of a token, and their open jobs"),
    Verb("quotas list", "admin.quotas", "list the accelerators a project may use, and uses now"),
    Verb("alerts", "admin.alerts", "list what a person should look at"),
    Verb("usage", "admin.usage", "show what machines were used for, and what that cost"),
    Verb(
        "buckets", "admin.buckets", "make, list and adopt buckets: the folders behind gs:// names"
    ),
    Verb(
        "environments build",
        "admin.environments",
        "make a Python environment like that of a runtime version",
    ),
    Verb("tokens", "admin.tokens", "make, list and revoke tokens"),
    Verb("keys", "admin.keys", "make and register keys of service accounts"),
    Verb("audit list", "admin.audit", "list changes and refused calls, with their callers"),
    Verb("doctor", "admin.doctor", "check the promises of Trainshed on a data directory"),
    Verb(
        "backup", "admin.backup", "copy a data directory while its server runs, and check the copy"
    ),
    Verb("restore", "admin.backup", "restore a data directory from a backup"),
    Verb("completion", "completion", "print the script with which a shell completes commands"),
    Verb("man", "completion", "show the manual page"),
    Verb(
        "attempts fence",
        "admin.attempts_fence",
        "confirm that an unreachable attempt has no running processes",
    ),
)

#: The verbs that ``trainshed --help`` lists below each heading, most used first.
GROUPS: Mapping[str, Sequence[Verb]] = {
    "Submit and watch": _SUBMIT_AND_WATCH,
    "Tune": _TUNE,
    "Plan": _PLAN,
    "Administer": _ADMINISTER,
}
VERBS = tuple(verb for verbs in GROUPS.values() for verb in verbs)

_GROUPS_OF_JOBS = ("ai custom-jobs", "ai hp-tuning-jobs", "ai pipelines", "ai-platform jobs")
#: Words of other tools, and the words of the verb with this meaning.
ALIASES: Mapping[str, str] = {
    "ps": "jobs list",
    "ls": "jobs list",
    "list": "jobs list",
    "logs": "jobs logs",
    "describe": "jobs describe",
    "cancel": "jobs cancel",
    "stop": "jobs cancel",
    "kill": "jobs cancel",
    "watch": "jobs watch",
    "explain": "jobs explain",
    "events": "jobs events",
    "jobs ls": "jobs list",
    "jobs ps": "jobs list",
    "jobs stream-logs": "jobs logs",
    "delete": "jobs delete",
    "rm": "jobs delete",
    "jobs rm": "jobs delete",
    "jobs stop": "jobs cancel",
    "jobs kill": "jobs cancel",
    "version": "--version",
    **{
        f"{group} {word}".lstrip(): f"{group or 'jobs'} describe".lstrip()
        for group in ("", "jobs", *_GROUPS_OF_JOBS)
        for word in ("show", "get", "info")
    },
    "ai custom-jobs submit": "ai custom-jobs create",
    "ai hp-tuning-jobs submit": "ai hp-tuning-jobs create",
    "ai-platform jobs create": "ai-platform jobs submit training",
}

_SUBMITS = (
    "a job file of any kind: trainshed jobs submit FILE; a Vertex AI job: trainshed ai custom-jobs "
    "create; an AI Platform job: trainshed ai-platform jobs submit training; a tuning job: "
    "trainshed ai hp-tuning-jobs create"
)
#: The advice for words that may mean several commands.
ADVICE: Mapping[str, str] = {
    "submit": _SUBMITS,
    "jobs create": _SUBMITS,
    "start": f"the server: trainshed serve; {_SUBMITS}",
    "jobs start": _SUBMITS,
    "status": "all jobs: trainshed jobs list; one job: trainshed jobs describe JOB; the machines: "
    "trainshed nodes; the health of a server: trainshed doctor",
    **{
        f"plan {word}": "calibrations and predictions of jobs: trainshed plan history"
        for word in ("achieved", "score", "calibrations")
    },
    "plan calibrate-jobs": "trainshed plan calibrate --on-server",
    "top": "GPUs and their jobs: trainshed nodes; one job: trainshed jobs watch JOB",
}


def find_verb(words: Sequence[str]) -> Verb | None:
    """Return the longest verb that a command line begins with, or None."""
    matches = [verb for verb in VERBS if tuple(words[: len(verb.words)]) == verb.words]
    return max(matches, key=lambda verb: len(verb.words), default=None)


def replace_alias(words: Sequence[str]) -> list[str]:
    """Replace an alias at the beginning of a command line by the words of its verb."""
    for length in (3, 2, 1):
        replacement = ALIASES.get(" ".join(words[:length])) if len(words) >= length else None
        if replacement:
            return [*replacement.split(), *words[length:]]
    return list(words)
