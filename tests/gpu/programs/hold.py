"""Takes MIB of memory of each GPU that it sees, says so in a line of JSON, and holds it.

    python hold.py MIB [hold|leave] [--blind]

It speaks to the driver itself, so that it needs no framework.  ``--blind`` forgets first what the
environment says of devices.
"""

import ctypes
import json
import os
import sys
import time
import uuid


def main():
    mib, then = int(sys.argv[1]), sys.argv[2]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if "--blind" in sys.argv:
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    devices = take_memory(mib)
    print(json.dumps({"told": visible, "devices": devices, "pid": os.getpid()}), flush=True)
    while then == "hold":
        time.sleep(1)


def take_memory(mib):
    """The UUIDs of all that it could open."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return []
    if code := cuda.cuInit(0):
        print(f"cuInit: {code}", flush=True)
        return []
    count = ctypes.c_int()
    cuda.cuDeviceGetCount(ctypes.byref(count))
    return [take(cuda, index, mib) for index in range(count.value)]


def take(cuda, index, mib):
    device, context = ctypes.c_int(), ctypes.c_void_p()
    name, address = (ctypes.c_ubyte * 16)(), ctypes.c_uint64()
    ask(cuda.cuDeviceGet(ctypes.byref(device), index))
    ask(cuda.cuDeviceGetUuid_v2(name, device))
    ask(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    ask(cuda.cuCtxSetCurrent(context))
    ask(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(mib << 20)))
    return str(uuid.UUID(bytes=bytes(name)))


def ask(code):
    if code:
        name = {2: "CUDA_ERROR_OUT_OF_MEMORY"}.get(code, "an error")
        raise RuntimeError(f"CUDA driver error {code}: {name}")


main()
