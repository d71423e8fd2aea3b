"""For all tests."""

import os

from hypothesis import settings

# gRPC would take part in every fork of this process, and end the local engine's supervisor, which
# is one.  No process of ours forks beside a gRPC server but this one: a runner has none.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

# No test is about time, and the machine may be busy.  What is drawn is the same everywhere, so that
# a change is judged by what it changes; `make chaos` draws at random, and more.
settings.register_profile("trainshed", deadline=None, derandomize=True)
settings.register_profile("chaos", deadline=None, derandomize=False, max_examples=1000)
settings.load_profile("chaos" if os.environ.get("TRAINSHED_CHAOS") == "full" else "trainshed")
