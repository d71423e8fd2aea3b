"""CuPy on the GPUs that it sees: gradient descent.

python cupy_fit.py
"""

import json
import os

import cupy


def main():
    visible = {"told": os.environ.get("CUDA_VISIBLE_DEVICES")}
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        print(json.dumps({**visible, "lacks": f"CuPy has no GPU: {error}"}), flush=True)
        return
    inputs = cupy.random.RandomState(1).standard_normal((64, 16), dtype=cupy.float32)
    answers, weights = inputs.sum(axis=1), cupy.zeros(16, dtype=cupy.float32)
    losses = []
    for _ in range(30):
        error = inputs @ weights - answers
        losses.append(float((error**2).mean()))
        weights -= 0.1 * 2 * inputs.T @ error / len(inputs)
    report = {"count": count, "device": "cuda", "losses": {"float32": losses[:: len(losses) - 1]}}
    print(json.dumps({**visible, **report}), flush=True)


main()
