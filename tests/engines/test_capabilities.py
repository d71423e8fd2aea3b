"""Each engine has the capabilities that callers look for: a renamed method would hide one."""

from trainshed.engines.capabilities import (
    SupportsCommandCounts,
    SupportsFencing,
    SupportsGateway,
    SupportsGpuStatus,
    SupportsProbe,
    SupportsSentTexts,
    SupportsServerPaths,
    SupportsUsage,
    SupportsVersions,
)
from trainshed.engines.local.engine import LocalEngine
from trainshed.engines.slurm.engine import SlurmEngine

LOCAL = (SupportsGateway, SupportsGpuStatus, SupportsSentTexts, SupportsUsage)
SLURM = (
    SupportsCommandCounts,
    SupportsFencing,
    SupportsProbe,
    SupportsSentTexts,
    SupportsServerPaths,
    SupportsUsage,
    SupportsVersions,
)


def list_capabilities(engine: type) -> set[type]:
    return {protocol for protocol in {*LOCAL, *SLURM} if issubclass(engine, protocol)}


def test_every_engine_has_its_capabilities():
    assert list_capabilities(LocalEngine) == set(LOCAL)
    assert list_capabilities(SlurmEngine) == set(SLURM)
