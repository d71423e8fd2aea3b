"""Two processes of one job share its GPU: DDP over Gloo learns what one process learns.

    python torch_shared.py

NCCL refuses two ranks on one device; Gloo copies through the memory of the CPU.
"""

import json
import os
import sys
import tempfile

import torch
import torch.distributed as dist

STEPS, SIZE = 5, 2


def main():
    with tempfile.TemporaryDirectory() as folder:
        meeting = f"file://{folder}/meeting"
        pids = [forked(rank, meeting) for rank in range(SIZE)]  # before CUDA is used
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    if any(codes):
        sys.exit(f"the ranks ended with {codes}")


def forked(rank, meeting):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            ranked(rank, meeting)
            code = 0
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return pid


def ranked(rank, meeting):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=SIZE)
    alone = trained(built(device), device, slice(None))
    shared = torch.nn.parallel.DistributedDataParallel(built(device))
    together = trained(shared, device, slice(rank, None, SIZE))
    gathered = [None] * SIZE
    dist.all_gather_object(gathered, [weights.tolist() for weights in together])
    far = max(float((a - b).abs().max()) for a, b in zip(alone, together, strict=True))
    if rank == 0:
        visible = {"told": os.environ.get("CUDA_VISIBLE_DEVICES"), "device": device}
        same = gathered[0] == gathered[1]
        print(json.dumps({**visible, "same": same, "difference": far}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def built(device):
    torch.manual_seed(1)
    layers = [torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)]
    return torch.nn.Sequential(*layers).double().to(device)


def trained(model, device, part):
    """The weights after some steps on a part of the examples, on the CPU."""
    source = torch.Generator().manual_seed(2)
    inputs = torch.randn(32, 16, generator=source, dtype=torch.float64).to(device)[part]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        (model(inputs) - inputs.mean(dim=1, keepdim=True)).square().mean().backward()
        optimizer.step()
    return [weights.detach().cpu() for weights in model.parameters()]


main()
