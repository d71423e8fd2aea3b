"""Makes the local engine from a server's settings."""

import os

from trainshed.engines.base import EngineContext
from trainshed.engines.isolation.choose import IsolationOptions, choose_isolation, this_machine
from trainshed.engines.local.containers import detect
from trainshed.engines.local.engine import LocalEngine
from trainshed.engines.local.options import LocalOptions
from trainshed.engines.network.choose import choose_network, try_network, warn_of_loopback
from trainshed.engines.processes import variables
from trainshed.files.caches import default_cache_dir


def make(context: EngineContext) -> LocalEngine:
    """Make the engine of this machine; find a container runtime and an isolation that work."""
    options = dict(context.options)
    detected = detect.find(options.pop("container_runtime"), user=options.pop("container_user"))
    isolation_options = options.pop("isolation", None)
    containers = detected
    if isolation_options is not None:
        containers = detected.with_isolation(
            is_read_only=isolation_options.pop("container_read_only"),
            is_root=os.geteuid() == 0 and not isolation_options["allow_root_jobs"],
        )
        hides = (str(context.jobs_dir.parent), str(context.cache_dir or default_cache_dir()))
        network = isolation_options.pop("network")
        settings = IsolationOptions(**isolation_options)
        no_containers = "" if containers.runtime else containers.reason
        machine = this_machine(no_containers, settings.refused_calls)
        isolation = options["isolation"] = choose_isolation(settings, machine, hides)
        options["network"] = choose_network(network, isolation.mode, try_network)
        if options["network"].is_own:
            warn_of_loopback(
                variables.select_for_builders(os.environ, options.get("pass_env") or ())
            )
        if isolation.has_users:
            containers = containers.for_projects()
    return LocalEngine(
        context.jobs_dir,
        LocalOptions(
            buckets=context.buckets,
            cache_dir=context.cache_dir,
            containers=containers,
            usage_s=context.usage_s,
            **options,
        ),
    )
