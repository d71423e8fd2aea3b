"""Says what NVML says, a line of JSON for each line that it reads: ``python witness.py``.

A process of its own: who looks at a driver has it loaded until it ends.
"""

import json
import sys

import pynvml


def main():
    pynvml.nvmlInit()
    for _ in sys.stdin:
        print(json.dumps(list(gpus())), flush=True)


def gpus():
    for index in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        yield {
            "index": index,
            "uuid": pynvml.nvmlDeviceGetUUID(handle),
            "name": pynvml.nvmlDeviceGetName(handle),
            "total_bytes": memory.total,
            "used_bytes": memory.used,
            "pids": sorted({process.pid for process in processes}),
        }


if __name__ == "__main__":
    main()
