"""Clusters for training: hosts of one kind, their links, and their helper hosts."""

from dataclasses import dataclass, replace

_BITS = 8
_GIGA = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKind:
    """One kind of host by its data sheet: rates are nominal, software gets less.

    Raises ValueError for a host without accelerators.
    """

    machine_type: str = ""
    accelerator: str = ""
    """The catalog's name, such as ``NVIDIA_TESLA_V100``; ``CPU`` if the processors train."""
    per_host: int = 1
    """Accelerators of a full host."""
    cpus: int = 0
    inside: str = ""
    """Link inside the host: ``pcie3``, ``nvlink2``, ...; empty with one accelerator."""
    inside_bytes: float = 0.0
    """The nominal rate of this link, in bytes/s one way for one accelerator."""
    network: str = "tcp"
    """``tcp``, ``rdma``, ``dcn`` or ``none``."""
    network_gbps: float = 0.0
    """Nominal, one way, all adapters of a host; 0 if unknown."""
    network_assumed: bool = False
    """Whether this rate is only that of Google's machine type, and the job's machines may be
    others."""
    memory_bytes: float = 0.0
    """Memory of one accelerator, or of the host if its processors train; 0 if unknown."""

    def __post_init__(self) -> None:
        if self.per_host < 1:
            raise ValueError(f"per_host must be 1 or more, got {self.per_host}")

    @property
    def name(self) -> str:
        """Such as ``NVIDIA_TESLA_V100 of n1-standard-32``."""
        return " of ".join(filter(None, (self.accelerator or "CPU", self.machine_type)))

    @property
    def trains_on_cpus(self) -> bool:
        """Whether its processors train, which count as one accelerator for each replica."""
        return self.accelerator in {"", "CPU"}

    @property
    def unit(self) -> str:
        """The word for what is counted: ``GPU``, ``TPU`` or ``CPU replica``."""
        if self.trains_on_cpus:
            return "CPU replica"
        return "TPU" if self.accelerator.startswith("TPU") else "GPU"

    @property
    def machine(self) -> str:
        """Such as ``n1-standard-32 with 8 NVIDIA_TESLA_V100``."""
        devices = "" if self.trains_on_cpus else f" with {self.per_host} {self.accelerator}"
        return f"{self.machine_type or 'a host'}{devices}"

    @property
    def network_bytes(self) -> float:
        """The nominal rate of the host's network in bytes/s; 0 if unknown."""
        return self.network_gbps * _GIGA / _BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster.  Raises ValueError for impossible counts."""

    host: HostKind
    accelerators: int
    """The accelerators of the whole job (n)."""
    hosts: int
    """Worker hosts (h)."""
    reducers: int = 0
    reducer_gbps: float = 0.0
    """The rate of one reducer's link, in Gbit/s."""
    servers: int = 0
    """Parameter servers on separate hosts; 0: any parameter servers are on the worker hosts."""
    server_gbps: float = 0.0

    def __post_init__(self) -> None:
        if self.hosts < 1 or self.accelerators < self.hosts:
            raise ValueError(
                f"a cluster needs accelerators and hosts, got {self.accelerators} and {self.hosts}"
            )

    @property
    def per_host(self) -> float:
        """The accelerators of the job on one host (g)."""
        return self.accelerators / self.hosts

    @property
    def without_reducers(self) -> "Cluster":
        """The same cluster without reducers."""
        return replace(self, reducers=0, reducer_gbps=0.0)
