"""Makes the engine of a Kubernetes cluster from its table in the configuration."""

import os
from functools import partial
from pathlib import Path
from typing import Final

from trainshed.engines.base import EngineContext
from trainshed.engines.kubernetes import bucket_folders, mounts, names, options, runtime
from trainshed.engines.kubernetes.api.client import Client, connect
from trainshed.engines.kubernetes.engine import KubernetesEngine
from trainshed.engines.kubernetes.images import ContainerStarts
from trainshed.engines.kubernetes.options import KubernetesOptions
from trainshed.engines.kubernetes.orders import ClusterOrders
from trainshed.engines.kubernetes.probing.pods import ProbeTarget
from trainshed.engines.kubernetes.probing.run import probe
from trainshed.engines.kubernetes.registry import Registry
from trainshed.engines.kubernetes.request import PodRuntime
from trainshed.engines.kubernetes.submit import ClusterSubmitter
from trainshed.engines.kubernetes.watched_cluster import WatchedCluster
from trainshed.engines.processes.heap import release_freed_memory
from trainshed.engines.spool import PASSABLE, Spool
from trainshed.engines.warden import archive
from trainshed.model.faults import UsageFault

_NAME: Final = "kubernetes"


def make(context: EngineContext) -> KubernetesEngine:
    """Make the engine of a table.  Raises UsageFault for a setting, not for an absent cluster."""
    settings = options.read({"usage_s": context.usage_s, **context.options})
    names.check_installation(context.installation)
    if context.environments:
        raise UsageFault(
            "a Kubernetes engine has no setting environments, because pods run images and no "
            "interpreters of nodes; remove it, and let [[image]] tables name images with `run`"
        )
    name = context.name or _NAME
    folder = context.jobs_dir.parent / "engines" / name
    for path in (folder.parent, folder):  # `parents` would give the parent another mode
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    client = connect(settings.kubeconfig, settings.context, keys_folder=str(folder))
    return make_with_client(context, settings, client, name)


def make_with_client(
    context: EngineContext, settings: KubernetesOptions, client: Client, name: str
) -> KubernetesEngine:
    """Make the engine of a cluster to which ``client`` sends the requests.

    Raises OSError or UsageFault for the spool, EngineFault for an interpreter that pods cannot run.
    """
    spool = Spool(settings.spool, mounts.ROOT, context.installation, mode=PASSABLE)
    spool.open()
    claim_buckets = Path(settings.spool) / mounts.buckets_path(context.installation, settings)
    bucket_folders.link_buckets(context.buckets, claim_buckets)
    namespace = settings.namespace or client.namespace
    cluster = WatchedCluster(client, settings, namespace, context.installation)
    starts = _make_starts(settings)
    pod_runtime = _store_runtime(spool)
    release_freed_memory()  # the files of the runtime were 23 MB
    submitter = ClusterSubmitter(
        settings,
        spool,
        client=client,
        namespace=namespace,
        installation=context.installation,
        name=name,
        starts=starts,
        runtime=pod_runtime,
        list_gpus=cluster.list_gpu_rows,
        server_buckets=context.buckets,
    )
    library = archive.library()
    spool.keep(library.name, library.data, 0o644)
    return KubernetesEngine(
        settings,
        spool,
        cluster,
        submitter,
        name=name,
        needs_command=starts.needs_command,
        library=f"{mounts.LIBRARY}/{library.name}",
        run_probe=partial(
            probe,
            client,
            ProbeTarget(settings, context.installation, namespace, pod_runtime),
            spool,
        ),
        make_orders=lambda attempts: ClusterOrders(
            attempts,
            spool,
            cluster,
            client,
            namespace=namespace,
            installation=context.installation,
        ),
    )


def _store_runtime(spool: Spool) -> PodRuntime:
    """Store the server's interpreter and the archive for pods.  Raises OSError or EngineFault."""
    bundle = runtime.bundle(archive.build())
    spool.keep_folder(bundle.name, bundle.files)
    folder = f"{mounts.LIBRARY}/{bundle.name}"
    return PodRuntime(
        start=runtime.compose_start(folder),
        archive=f"{folder}/{runtime.WARDEN}",
        architecture=runtime.architecture(),
        user=os.geteuid(),
        group=os.getegid(),
    )


def _make_starts(settings: KubernetesOptions) -> ContainerStarts:
    if not settings.registry:
        return ContainerStarts(None)
    return ContainerStarts(
        Registry(
            runtime.architecture(),
            docker_config=settings.docker_config,
            ca_file=settings.ca_file,
        )
    )
