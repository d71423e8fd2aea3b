"""The server's start, beside the imports that no server of its kind does without.

    python benchmarks/startup.py [--rounds 7] [--format json]

A start is what every restart costs: from the process to the first answer of ``/healthz``.  It is
compared with ``import fastapi, sqlalchemy, uvicorn, grpc`` on the same machine, the two in turns.
``trainshed serve --run -- true`` is a throw-away server from its start to its end.
Both read compiled modules; the first start, which may compile them, is not counted.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from service_servers import local

BARE = "import fastapi, sqlalchemy, uvicorn, grpc"
SHARE_MAX = 1.5
#: Seconds that a throw-away server may take for a command that does nothing.
THROW_AWAY_S_MAX = 2.5
TRAINSHED = Path(sys.executable).parent / "trainshed"


def main() -> int:
    """Measure, print, and say whether the promise is kept."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--format", choices=["text", "json"], default="text")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = f"{folder}/compiled"
        bare, serve = measured(Path(folder) / "data", args.rounds)
        throw_away = [throw_away_s() for _ in range(args.rounds + 1)][1:]
    share = statistics.median(serve) / statistics.median(bare)
    if args.format == "json":
        print(
            json.dumps(
                {"bare_s": bare, "start_s": serve, "share": share, "throw_away_s": throw_away}
            )
        )
    else:
        print(f"  {BARE:<42} {spread(bare)}")
        print(f"  {'trainshed serve, to its first answer':<42} {spread(serve)}")
        print(f"  {'trainshed serve --run -- true':<42} {spread(throw_away)}")
        is_near = verdict(share <= SHARE_MAX)
        print(f"\n  {is_near}  start over imports  {share:.2f} times  (at most {SHARE_MAX})")
        median = statistics.median(throw_away)
        is_fast = verdict(median <= THROW_AWAY_S_MAX)
        print(f"  {is_fast}  serve --run -- true  {median:.2f} s  (at most {THROW_AWAY_S_MAX})")
    return 0 if share <= SHARE_MAX and statistics.median(throw_away) <= THROW_AWAY_S_MAX else 1


def verdict(is_kept: bool) -> str:  # noqa: FBT001 - the one thing that it is asked
    """Whether a promise is kept, as a word."""
    return "PASS" if is_kept else "FAIL"


def throw_away_s() -> float:
    """What a throw-away server takes, with a command that does nothing."""
    began = time.monotonic()
    subprocess.run([TRAINSHED, "serve", "--run", "--", "true"], check=True)
    return time.monotonic() - began


def measured(folder: Path, rounds: int) -> tuple[list[float], list[float]]:
    """So many times of each, in turns, on a data directory that is there."""
    folder.mkdir()
    imports_s(), start_s(folder)
    pairs = [(imports_s(), start_s(folder)) for _ in range(rounds)]
    return [bare for bare, _ in pairs], [serve for _, serve in pairs]


def imports_s() -> float:
    """What the imports take, the interpreter's start included."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", BARE], check=True)
    return time.monotonic() - began


def start_s(folder: Path) -> float:
    """What a server takes to answer."""
    with local(folder) as server:
        return server.started_s


def spread(times: list[float]) -> str:
    """The median, the fastest and the slowest."""
    return f"{statistics.median(times):6.3f} s  ({min(times):.3f} to {max(times):.3f})"


if __name__ == "__main__":
    sys.exit(main())
