"""Reads the hosts of an exchange from a job file, machine types or rates.

Flags have priority over the file, and rates over machine types, because the owner of the machines
knows their links better than the catalog.
"""

from collections import Counter
from dataclasses import dataclass

from trainshed.admission.context import RuleContext
from trainshed.admission.rules.reduction import WorkerLinks, worker_links
from trainshed.catalog.catalog import Catalog
from trainshed.catalog.machines import Price, price_of, recommended_reducer
from trainshed.catalog.open import catalog_for
from trainshed.model.faults import Fault, UsageFault
from trainshed.model.job import ReplicaGroup
from trainshed.model.roles import Dialect, Role
from trainshed.planning.sizing import Hosts
from trainshed.service.jobs import submit_flags
from trainshed.service.jobs.judging import JudgedDocument, Rulebook, judge
from trainshed.service.jobs.merging import merge_any
from trainshed.workbench.documents import read_one


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The arguments of the command; counts and rates are positive."""

    config: str | None = None
    region: str | None = None
    worker_machine_type: str | None = None
    worker_count: int | None = None
    worker_accelerator: str | None = None
    """``count=8,type=nvidia-tesla-v100``"""
    worker_gbps: float | None = None
    reducer_machine_type: str | None = None
    reducer_count: int | None = None
    reducer_gbps: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeHosts:
    """The hosts, and the names of both sides in the output."""

    hosts: Hosts
    workers: str
    reducer_type: str
    """The machine type of the reducers; empty if only their links are known."""
    reducer_count: int
    """The number of reducers; 0 if not given."""
    price: Price | None


def hosts_of(options: Given, rulebook: Rulebook) -> ExchangeHosts:
    """Return the hosts of an exchange.

    Raises UsageFault for a value that is missing or not in the catalog, and Fault for a file that
    is not a job.
    """
    judged = _judge_config(options, rulebook)
    question = judged.question if judged else None
    catalog = question.catalog if question else _catalog(rulebook)
    workers, words = _workers(options, judged, catalog)
    pool = question.spec.group(Role.REDUCER) if question else None
    machine = options.reducer_machine_type or (pool and pool.machine_type) or recommended_reducer()
    region = options.region or (question.spec.region if question else None)
    price = None if options.reducer_gbps else price_of(machine, region)
    return ExchangeHosts(
        hosts=Hosts(
            workers=workers.hosts,
            worker_gbps=workers.slowest_gbps,
            total_gbps=workers.total_gbps,
            reducer_gbps=options.reducer_gbps
            or _gbps(catalog, "--reducer-machine-type", machine, None),
            reducer_usd_hour=price.usd_hour if price else None,
        ),
        workers=words,
        reducer_type="" if options.reducer_gbps else machine,
        reducer_count=options.reducer_count or (pool.count if pool else 0),
        price=price,
    )


def _judge_config(options: Given, rulebook: Rulebook) -> JudgedDocument | None:
    if options.config is None:
        return None
    flags = {"region": options.region} if options.region else {}
    merged = merge_any(read_one(options.config).content, flags, source=options.config)
    judged = judge(merged, rulebook)
    if judged.question is None or judged.misread:
        raise Fault(judged.violations)
    return judged


def _catalog(rulebook: Rulebook) -> Catalog:
    return catalog_for(
        Dialect.AIPLATFORM_V1, rulebook.edition, rulebook.overlays, rulebook.zone_snapshot
    )


def _workers(
    options: Given, judged: JudgedDocument | None, catalog: Catalog
) -> tuple[WorkerLinks, str]:
    if options.worker_gbps is not None:
        count = _count(options)
        hosts = "1 host" if count == 1 else f"{count} hosts"
        return _equal_links(count, options.worker_gbps), hosts
    if options.worker_machine_type is None:
        return _workers_of(options, judged)
    count, accelerator = _count(options), options.worker_accelerator
    gbps = _gbps(catalog, "--worker-machine-type", options.worker_machine_type, accelerator)
    words = f"{count} x {_words(options.worker_machine_type, accelerator)}"
    return _equal_links(count, gbps), words


def _count(options: Given) -> int:
    if options.worker_count is None:
        raise UsageFault("--worker-count is missing: all worker hosts, the chief included")
    return options.worker_count


def _workers_of(options: Given, judged: JudgedDocument | None) -> tuple[WorkerLinks, str]:
    """Read the workers of a file.  Raises UsageFault without one, Fault without machines."""
    question = judged.question if judged else None
    if not (judged and question):
        raise UsageFault(
            "no workers: give --config, or --worker-count with --worker-machine-type or "
            "--worker-gbps"
        )
    if options.worker_count or options.worker_accelerator:
        raise UsageFault(
            "--worker-count and --worker-accelerator need --worker-machine-type or "
            "--worker-gbps: together they replace the file's workers"
        )
    groups = [question.spec.group(role) for role in (Role.PRIMARY, Role.WORKER)]
    counts: Counter[str] = Counter()
    for group in filter(None, groups):
        if not group.machine_type:
            raise Fault(judged.violations)
        counts[_describe_machine(question, group)] += group.count
    links = worker_links(question)
    if not counts:
        raise Fault(judged.violations)
    if links is None:
        raise UsageFault(
            f"the catalog does not know the bandwidth of {' and '.join(counts)}; give "
            "--worker-count and --worker-gbps"
        )
    return links, ", ".join(f"{count} x {words}" for words, count in counts.items() if count)


def _describe_machine(question: RuleContext, group: ReplicaGroup) -> str:
    device = question.device(group)
    carried = f" with {device.count} {device.enum_name}" if device else ""
    return f"{group.machine_type}{carried}"


def _equal_links(count: int, gbps: float) -> WorkerLinks:
    return WorkerLinks(hosts=count, slowest_gbps=gbps, total_gbps=count * gbps)


def _words(machine: str, accelerator: str | None) -> str:
    if accelerator is None:
        return machine
    device = submit_flags.accelerator("--worker-accelerator", accelerator)
    return f"{machine} with {device['count']} {device['type']}"


def _gbps(catalog: Catalog, flag: str, machine: str, accelerator: str | None) -> float:
    """Return the bandwidth of a machine type.  Raises UsageFault."""
    machine_type = catalog.known_machines.get(machine)
    if machine_type is None:
        raise UsageFault(f"{flag}: edition {catalog.edition.id} knows no machine type {machine}")
    name, count = None, 0
    if accelerator is not None:
        device = submit_flags.accelerator("--worker-accelerator", accelerator)
        name, count = device["type"], device["count"]
        if count < 1:
            raise UsageFault(
                f"--worker-accelerator: count must be 1 or more, got {count}; or leave it out"
            )
        if catalog.accelerator(name) is None:
            accepted = ", ".join(catalog.enum_names())
            raise UsageFault(f"--worker-accelerator must be one of {accepted}, got {name}")
    elif machine_type.bundled:
        name, count = machine_type.bundled.type, machine_type.bundled.count
    if gbps := catalog.egress_gbps(machine_type, name, count):
        return gbps
    rate = flag.replace("machine-type", "gbps")
    raise UsageFault(f"{flag}: the catalog does not know the bandwidth of {machine}; give {rate}")
