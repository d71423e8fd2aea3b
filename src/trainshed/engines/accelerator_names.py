"""The accelerator types of the GPUs of clusters, by the names that clusters use."""

import re
from typing import Final

#: Patterns for names of GPUs, each with the accelerator type; the first match counts.
_ACCELERATORS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), name)
    for pattern, name in (
        (r"k80", "NVIDIA_TESLA_K80"),
        (r"\bp4\b|tesla_p4(?![0-9])", "NVIDIA_TESLA_P4"),
        (r"p100", "NVIDIA_TESLA_P100"),
        (r"\bt4\b|tesla_t4", "NVIDIA_TESLA_T4"),
        (r"v100", "NVIDIA_TESLA_V100"),
        (r"a100.*80g", "NVIDIA_A100_80GB"),
        (r"a100", "NVIDIA_TESLA_A100"),
        (r"\bl4\b|nvidia_l4(?![0-9])", "NVIDIA_L4"),
        (r"h100.*mega", "NVIDIA_H100_MEGA_80GB"),
        (r"h100", "NVIDIA_H100_80GB"),
        (r"(?<!g)h200", "NVIDIA_H200_141GB"),
        (r"gb200", "NVIDIA_GB200"),
        (r"b200", "NVIDIA_B200"),
        (r"rtx_?pro_?6000", "NVIDIA_RTX_PRO_6000"),
    )
)


#: The profile of a slice of a divided GPU, such as ``1g.5gb`` in ``a100_1g.5gb`` (NVIDIA MIG).
_SLICE: Final = re.compile(r"(?<![0-9])[0-9]g[._][0-9]+gb", re.IGNORECASE)


def find_accelerator(word: str) -> str | None:
    """Return the accelerator type for a cluster's name of GPUs; None: no type has the name.

    A slice of a divided GPU is a type of its own, which has the cluster's name.
    """
    plain = word.replace("-", "_")
    if _SLICE.search(plain):
        return None
    return next((name for pattern, name in _ACCELERATORS if pattern.search(plain)), None)
