"""The table of verbs: what each is called, and which module runs it."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainshed.cli.flags import Request


class Verb:
    """One verb.  A plain class: ``dataclasses`` would cost a tenth of the time of ``--help``."""

    def __init__(self, text: str, module: str, summary: str, *, hidden: bool = False) -> None:
        """Keep the verb's words and the name of its modules in this package."""
        self.text = text
        self.words = tuple(text.split())
        self.module = module
        self.summary = summary
        self.hidden = hidden

    def run(self, argv: list[str]) -> int:
        """Read the words that follow the verb, and only then import what carries it out.

        ``MODULE_options`` reads a command line and imports no more than that needs, so that
        ``--help`` and a mistyped flag are answered at once.
        """
        options = import_module(f"trainshed.cli.{self.module}_options")
        request: Request = options.request(f"trainshed {self.text}", argv)
        carry_out: Callable[[Request], int] = import_module(f"trainshed.cli.{self.module}").run
        return carry_out(request)


VERBS = (
    Verb("serve", "serve", "run the service that gcloud and the Vertex SDK talk to"),
    Verb(
        "ai-platform local train",
        "local_train",
        "run an AI Platform training job on this machine",
    ),
    Verb("ml-engine local train", "local_train", "the same under its older name", hidden=True),
    Verb(
        "ai custom-jobs local-run",
        "custom_local_run",
        "run a Vertex AI custom job on this machine",
    ),
    Verb("validate", "validate", "check job files against the catalog"),
    Verb("catalog", "catalog", "show machine types, accelerators, regions, runtimes, images"),
    Verb("explain-env", "explain_env", "print what one replica of a job would see"),
    Verb("gpu-check", "gpu_check", "run a few steps on CPU and GPU: does a GPU pay?"),
    Verb("env", "env", "print the settings that point gcloud and the SDKs at a server"),
    Verb("tokens", "tokens", "make, list and revoke tokens"),
    Verb("keys", "keys", "register public keys of service accounts"),
)
