"""A gRPC server that answers every call with an empty message, in a process of its own.

    python grpc_recorder.py KEY CERTIFICATE

gRPC waits for ever in a process that could once start no thread.  Prints its port, then what it is
asked: a method and an authorization a line, as JSON.  It ends with its standard input.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc


class Jobs(grpc.GenericRpcHandler):
    def service(self, details):
        say([details.method, dict(details.invocation_metadata)["authorization"]])
        return grpc.unary_unary_rpc_method_handler(lambda *_: b"")


def say(what):
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main(key, certificate):
    pair = (Path(key).read_bytes(), Path(certificate).read_bytes())
    server = grpc.server(ThreadPoolExecutor(2), handlers=[Jobs()])
    say(server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair])))
    server.start()
    sys.stdin.read()
    server.stop(None).wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
