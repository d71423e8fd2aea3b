"""For all tests."""

import os

from hypothesis import settings

# gRPC would take part in every fork of this process, and end the local engine's supervisor, which
# is one.  No process of ours forks beside a gRPC server but this one: a runner has none.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

# no test is about time, and the machine may be busy
settings.register_profile("trainshed", deadline=None)
settings.load_profile("trainshed")
