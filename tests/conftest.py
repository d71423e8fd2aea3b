"""For all tests."""

import os

# gRPC would take part in every fork of this process, and end the local engine's supervisor, which
# is one.  No process of ours forks beside a gRPC server but this one: a runner has none.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
