"""`import torch` knows the backend where this package is installed, and never suffers from it."""

import subprocess
import sys
import textwrap

import pytest

from reduction.torch_world import environment


def run(code, *options, **variables):
    done = subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(code)],
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_a_fresh_interpreter_knows_the_backend_and_has_loaded_nothing_for_it():
    done = run("""
        import torch, sys
        from torch.distributed import Backend, distributed_c10d, init_process_group
        assert "reduction" in Backend.backend_list, Backend.backend_list
        assert Backend.backend_capability["reduction"] == ["cpu", "cuda"]
        assert Backend.default_device_backend_map["cpu"] == "gloo"
        ours = [m for m in sys.modules if m.startswith("trainshed_trainer.reduction.")]
        assert ours == ["trainshed_trainer.reduction.torch_setup"], ours
        assert not hasattr(init_process_group, "__trainshed__")

        import trainshed_trainer.reduction.torch_setup as setup
        before = dict(Backend._plugins)
        setup.register()
        assert Backend._plugins == before
        assert not hasattr(distributed_c10d.init_process_group, "__trainshed__")
    """)
    assert not done.stderr


def test_the_environment_can_ask_for_it_on_behalf_of_an_unchanged_trainer():
    run(
        """
        import inspect, torch
        from torch import distributed as dist
        from torch.distributed import init_process_group
        import trainshed_trainer.reduction.torch_setup as setup
        assert dist.init_process_group is dist.distributed_c10d.init_process_group
        assert init_process_group is dist.init_process_group
        assert "world_size" in inspect.signature(init_process_group).parameters
        setup.register()
        assert init_process_group is dist.init_process_group  # wrapped once
        wanted = [None, "gloo", "NCCL", "cpu:gloo,cuda:nccl"]
        assert all(map(setup._replaceable, wanted))
        assert not any(map(setup._replaceable, ["mpi", "ucc", "reduction", "cpu:gloo,cuda:ucc"]))
        try:
            init_process_group("mpi")
        except Exception as error:
            assert "reduction" not in str(error)
    """,
        TRAINSHED_TORCH_BACKEND="reduction",
    )


@pytest.mark.full  # the worlds of test_torch_worlds.py register it so
def test_without_the_entry_point_it_is_registered_by_hand():
    run(
        """
        import torch
        from torch.distributed import Backend
        assert "reduction" not in Backend.backend_list
        import trainshed_trainer.reduction.torch_setup as setup
        setup.register()
        assert "reduction" in Backend.backend_list
    """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )


def test_whatever_fails_in_it_does_not_fail_torch():
    done = run("""
        import sys, types
        torch = types.ModuleType("torch")
        torch.distributed = types.SimpleNamespace(is_available=lambda: True)
        sys.modules["torch"] = torch
        import trainshed_trainer.reduction.torch_setup as setup
        setup.register()
        torch.distributed = types.SimpleNamespace(is_available=lambda: False)
        setup.register()
        del sys.modules["torch"]
        sys.modules["torch"] = None
        setup.register()
    """)
    assert done.stderr.count("cannot register the backend reduction") == 2
