"""The messages of frameworks for a full GPU memory or a failed GPU.

XLA and TensorFlow have nearly the same message for a full memory of the host, so a message counts
only if it names the GPU or is a sentence for GPUs alone.  A fault of the device is named only if
CUDA itself reports it: a launch that failed (``unspecified launch failure``) is mostly the
program's own.
"""

from typing import Final

from trainshed.model.known_errors import KnownError

_FULL: Final = "the GPU's memory was full"
_HELP: Final = (
    "a smaller batch, mixed precision, gradient accumulation or checkpointing, or a type of GPU "
    "with more memory helps"
)
_NOT_THE_PROGRAM: Final = "the GPU failed, not the program; trainshed nodes shows its state"

#: The first that matches counts: those that say how much was asked for come first.
GPU_ERRORS: Final[tuple[KnownError, ...]] = (
    KnownError(
        r"CUDA out of memory\. Tried to allocate ([\d.]+ [KMGT]?i?B)|"
        r"Out of memory while trying to allocate ([\d.,]+ ?[KMGT]?i?[Bb](?:ytes)?)|"
        r"cupy\.cuda\.memory\.OutOfMemoryError: Out of memory allocating ([\d,]+ bytes)",
        f"{_FULL} when {{0}} more were asked for: {_HELP}",
    ),
    KnownError(
        r"OOM when allocating tensor with shape(\[[\d,]*\]).*device:GPU:",
        f"{_FULL} when a tensor of shape {{0}} was asked for: {_HELP}",
    ),
    KnownError(
        r"CUDA out of memory|CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY|"
        r"cudaErrorMemoryAllocation|torch(?:\.cuda)?\.OutOfMemoryError",
        f"{_FULL}: {_HELP}",
    ),
    KnownError(
        r"uncorrectable ECC error|cudaErrorECCUncorrectable|CUDA_ERROR_ECC_UNCORRECTABLE",
        f"its memory has an uncorrectable ECC error: {_NOT_THE_PROGRAM}",
    ),
    KnownError(
        r"uncorrectable NVLink error|cudaErrorNvlinkUncorrectable|"
        r"CUDA_ERROR_NVLINK_UNCORRECTABLE",
        f"its NVLink has an uncorrectable error: {_NOT_THE_PROGRAM}",
    ),
    KnownError(r"\bGPU is lost\b", f"it is lost: {_NOT_THE_PROGRAM}"),
)
