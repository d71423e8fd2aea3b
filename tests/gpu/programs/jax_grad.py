"""JAX on the GPUs that it sees: a compiled gradient that learns.

python jax_grad.py
"""

import json
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else it takes three quarters

import jax
import jax.numpy as jnp


def main():
    visible = {"told": os.environ.get("CUDA_VISIBLE_DEVICES")}
    try:
        devices = jax.devices("gpu")
    except RuntimeError as error:
        print(json.dumps({**visible, "lacks": f"JAX has no GPU: {error}"[:300]}), flush=True)
        return
    inputs = jax.device_put(jax.random.normal(jax.random.PRNGKey(0), (64, 16)), devices[0])
    weights = jnp.zeros(16)
    step = jax.jit(jax.value_and_grad(lambda w: jnp.mean((inputs @ w - inputs.sum(axis=1)) ** 2)))
    losses = []
    for _ in range(30):
        loss, gradient = step(weights)
        weights -= 0.1 * gradient
        losses.append(float(loss))
    where = [device.platform for device in step(weights)[0].devices()]
    report = {
        "count": len(devices),
        "device": where[0],
        "losses": {"float32": losses[:: len(losses) - 1]},
    }
    print(json.dumps({**visible, **report}), flush=True)


main()
