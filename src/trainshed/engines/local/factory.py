"""Makes the local engine from a server's settings."""

from trainshed.engines.base import EngineContext
from trainshed.engines.local.containers import detect
from trainshed.engines.local.engine import LocalEngine


def make(context: EngineContext) -> LocalEngine:
    """The engine of this machine; asks container runtimes whether they work."""
    options = dict(context.options)
    containers = detect.find(options.pop("container_runtime"), user=options.pop("container_user"))
    return LocalEngine(
        context.jobs_dir,
        buckets=context.buckets,
        cache_dir=context.cache_dir,
        containers=containers,
        **options,
    )
