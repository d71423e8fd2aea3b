"""A GPU whose memory is full or that fails is told so; the host's memory is another matter."""

import pytest

from trainshed.model.advice import advice

#: As the frameworks word them, with what was asked for.
FULL = {
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total "
    "capacity of 79.10 GiB of which 1.50 GiB is free.": "20.00 GiB more",
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 50.00 MiB (GPU 0; 15.78 "
    "GiB total capacity; 14.36 GiB already allocated)": "50.00 MiB more",
    "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB": "2.00 GiB more",
    "RuntimeError: CUDA error: out of memory": "full: a smaller batch",
    "torch.AcceleratorError: CUDA error: out of memory": "full: a smaller batch",
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
    "allocate 1099511627776 bytes.": "1099511627776 bytes more",
    "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
    "9.77GiB.": "9.77GiB more",
    "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor "
    "with shape[32,256,256,64] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by "
    "allocator GPU_0_bfc [Op:Conv2D]": "shape [32,256,256,64]",
    "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,000,000,000 bytes (allocated "
    "so far: 0 bytes).": "8,000,000,000 bytes more",
    "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorMemoryAllocation: out of memory": "",
    "pycuda._driver.MemoryError: cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY": "",
}
BROKEN = (
    "RuntimeError: CUDA error: uncorrectable ECC error encountered",
    "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered",
    "cudaErrorNvlinkUncorrectable: uncorrectable NVLink error detected during the execution",
    "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system",
)
OTHERS = (
    "MemoryError",
    "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 74.5 GiB for an array",
    (
        "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't "
        "allocate memory: you tried to allocate 400000000000000 bytes."
    ),
    (
        "ResourceExhaustedError: OOM when allocating tensor with shape[1,2] and type float on "
        "/job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu"
    ),
    "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 40000000000000 bytes.",
    "RuntimeError: CUDA error: unspecified launch failure",
    "RuntimeError: CUDA error: an illegal memory access was encountered",
)


@pytest.mark.parametrize(("line", "amount"), FULL.items())
def test_a_gpu_without_memory_left_is_told_with_what_helps(line, amount):
    advised = advice(["Traceback (most recent call last):", line])
    assert advised.startswith("the GPU's memory was full")
    assert amount in advised
    assert "smaller batch" in advised


@pytest.mark.parametrize("line", BROKEN)
def test_a_gpu_that_fails_is_not_the_programs_fault(line):
    assert "the GPU failed, not the program" in advice([line])


@pytest.mark.parametrize("line", OTHERS)
def test_the_hosts_memory_and_errors_of_programs_are_left_alone(line):
    assert advice([line]) == ""


def test_what_a_framework_says_after_the_error_does_not_hide_it():
    lines = [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB.",
        *["[rank0]:"] * 30,
    ]
    assert "1.00 GiB" in advice(lines)


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB."
#: What may end a program that went on after a full memory, as those do that look for a batch size.
LATER = (
    "ValueError: the labels are missing",
    "[rank0]: ValueError: the labels are missing",
    "trainer.errors.DataError",
    "FileNotFoundError: [Errno 2] No such file or directory: 'data.csv'",
    "AttributeError: module 'numpy' has no attribute 'float'",
)


@pytest.mark.parametrize("line", LATER)
def test_a_full_memory_that_a_program_went_on_from_is_not_what_it_died_of(line):
    lines = [OOM, "trying a batch of 32", "Traceback (most recent call last):", "  File", line]
    assert "memory was full" not in advice(lines)


def test_an_error_before_a_full_memory_does_not_hide_it():
    assert "memory was full" in advice([LATER[0], "Traceback (most recent call last):", OOM])


def test_what_a_program_died_of_last_is_its_age():
    assert advice([OOM, LATER[-1]]).startswith("np.float is gone")


def test_launchers_and_other_ranks_that_report_the_error_do_not_hide_it():
    lines = [
        f"[rank0]: {OOM}",
        "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "[rank2]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3370",
        "[rank3]: RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer",
        *["E1123 12:00:00.000000 12 torch/distributed/elastic/multiprocessing/api.py:869]"] * 9,
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "trainer.task FAILED",
        "subprocess.CalledProcessError: Command '['python', 'task.py']' returned non-zero exit",
    ]
    assert "2.00 GiB" in advice(lines)
