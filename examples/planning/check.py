"""The plan of the digits trainer beside what hosts behind links do: a table and a picture.

    python check.py                     1, 2, 4 and 8 hosts, links of 200 Mbit/s
    python check.py --hosts 1,4 --mbit 500 --out runs

A link is probed, the trainer of ../torch-reduction is calibrated on one host by ``trainshed plan
calibrate``, and ``trainshed plan`` says what more hosts do with a ring and with reducers.  Then
each of them trains.  It needs root, for hosts with links (../torch-reduction/hosts.py).
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

DIGITS = Path(__file__).resolve().parent.parent / "torch-reduction"
sys.path.insert(0, str(DIGITS))

import compare  # noqa: E402  # the trainer's neighbours
from hosts import Host, ended, places  # noqa: E402

TRAINSHED = str(Path(sys.executable).with_name("trainshed"))
#: Samples of one host in a step: more hosts see more images at once.
BATCH = 24
#: Reducers stand beside so many hosts at most: all share the processors of this machine, and more
#: programs would be measured by them, not by their links.
REDUCED_MAX = 4
PORT = 5201
PROBE_S = 4.0
#: Receives for as long as somebody sends, and tells the rate of what came after the first bytes.
RECEIVER = f"""
import socket, time
with socket.create_server(("", {PORT})) as server:
    print("listening", flush=True)
    client, _ = server.accept()
    client.recv(1 << 20)
    began, total = time.monotonic(), 0
    while data := client.recv(1 << 20):
        total += len(data)
    print(8 * total / (time.monotonic() - began) / 1e9, flush=True)
"""
SENDER = """
import socket, sys, time
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as sock:
    until = time.monotonic() + float(sys.argv[3])
    while time.monotonic() < until:
        sock.sendall(bytes(1 << 18))
"""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One cluster: what the plan says, and what was measured."""

    hosts: int
    reducers: int
    low: float
    point: float
    high: float
    measured: float = 0.0


def main() -> None:
    """Probe, calibrate, plan, train, draw."""
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    counts = sorted(args.hosts)
    with places(2 * counts[-1], args.mbit, loopback=False) as hosts:
        if hosts[0].interface == "lo":
            raise SystemExit("hosts behind links need root, and ip, tc, unshare and nsenter")
        gbps = probed(hosts[0], hosts[1])
        print(f"a stream over a link of {args.mbit:g} Mbit/s gets {1000 * gbps:.0f}", flush=True)
        calibrate(args, gbps)
        answers = [trained(one, hosts, args) for count in counts for one in planned(args, count)]
    tell(answers)
    draw(answers, args.out / "planned-and-measured.png", args.mbit)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="compare a plan with what hosts do")
    parser.add_argument("--hosts", type=numbers, default=[1, 2, 4, 8])
    parser.add_argument("--mbit", type=float, default=200.0, help="rate of every link")
    parser.add_argument("--seconds", type=float, default=10.0, help="of calibration")
    parser.add_argument("--epochs", type=int, default=1, help="of each training")
    parser.add_argument("--out", type=Path, default=Path("runs"))
    return parser.parse_args()


def numbers(text: str) -> list[int]:
    """Read numbers with commas between them."""
    return [int(word) for word in text.split(",")]


def probed(one: Host, other: Host) -> float:
    """Gbit/s of a stream from one host to the other."""
    argv = [*other.inside, sys.executable, "-c", RECEIVER]
    receiver = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)  # noqa: S603  # ours
    with ended([receiver]):  # type: ignore[list-item]  # it reads text
        assert receiver.stdout
        receiver.stdout.readline()
        words = ["-c", SENDER, other.address, str(PORT), str(PROBE_S)]
        with ended([sender := one.start(words, {})]):
            sender.wait(timeout=10 * PROBE_S)
        return float(receiver.stdout.readline())


def calibrate(args: argparse.Namespace, gbps: float) -> None:
    """Time the steps of one host."""
    words = ["--module-name", "trainer.task", "--package-path", "trainer", "--runs", "A"]
    words += ["--seconds", str(args.seconds), "--batch", str(BATCH), "--out", str(file_of(args))]
    words += ["--network-gbps", str(args.mbit / 1000), "--stream-gbps", f"{gbps:.4g}"]
    argv = [TRAINSHED, "plan", "calibrate", *words, "--", "--epochs", "1000"]
    subprocess.run([*argv, "--batch-size", str(BATCH)], cwd=DIGITS, check=True)  # noqa: S603


def file_of(args: argparse.Namespace) -> Path:
    """Where the calibration lies."""
    return Path(args.out).resolve() / "calibration.toml"


def planned(args: argparse.Namespace, count: int) -> list[Answer]:
    """What the plan says of so many hosts: with a ring, and with as many reducers."""
    return [
        answer
        for reducers in ([0, count] if 1 < count <= REDUCED_MAX else [0])
        for answer in plan(args, count, reducers)
    ]


def plan(args: argparse.Namespace, count: int, reducers: int) -> list[Answer]:
    """One plan."""
    words = ["--calibration", str(file_of(args)), "--what-if", f"hosts={count}"]
    argv = [TRAINSHED, "plan", *words, "--reducers", str(reducers), "--format", "json"]
    done = subprocess.run(argv, check=True, capture_output=True)  # noqa: S603  # ours
    return [
        Answer(
            hosts=count,
            reducers=reducers,
            low=rate["low"],
            point=rate["point"],
            high=rate["high"],
        )
        for option in json.loads(done.stdout)["options"]
        if (rate := option["samples_per_s"]) and option["reducers"] == reducers
    ]


def trained(answer: Answer, hosts: Sequence[Host], args: argparse.Namespace) -> Answer:
    """Train on so many hosts, and note what they did."""
    workers, reducers = hosts[: answer.hosts], hosts[answer.hosts :][: answer.reducers]
    words = ["--batch-size", str(BATCH * answer.hosts), "--epochs", str(args.epochs)]
    training = argparse.Namespace(arguments=words)
    folder = Path(args.out).resolve() / f"{answer.hosts}-hosts-{answer.reducers}-reducers"
    if reducers:
        report = compare.trained_with_reducers(workers, reducers, training, folder)
    else:
        report = compare.trained(workers, training, folder, {})
    return replace(answer, measured=BATCH * answer.hosts / report["step_seconds"])


def tell(answers: Sequence[Answer]) -> None:
    """Print a line for each."""
    print(f"\n{'HOSTS':6} {'REDUCERS':9} {'PLANNED SAMPLES/S':24} {'MEASURED':10} OFF")
    for row in answers:
        span = f"{row.point:.0f} ({row.low:.0f} to {row.high:.0f})"
        off = 100 * (row.point / row.measured - 1)
        print(f"{row.hosts:<6} {row.reducers:<9} {span:24} {row.measured:<10.0f} {off:+.0f} %")


def draw(answers: Sequence[Answer], path: Path, mbit: float) -> None:
    """Draw the plans with their intervals, and what was measured on top of them."""
    import matplotlib as mpl  # noqa: PLC0415  # slow to import

    mpl.use("agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for name, is_ours, colour in (("ring", False, "#3366aa"), ("reducers", True, "#cc6633")):
        line = [answer for answer in answers if (answer.reducers > 0) is is_ours]
        hosts = [answer.hosts for answer in line]
        axes.fill_between(
            hosts,
            [answer.low for answer in line],
            [answer.high for answer in line],
            color=colour,
            alpha=0.18,
        )
        axes.plot(hosts, [answer.point for answer in line], color=colour, label=f"{name}, planned")
        axes.plot(
            hosts,
            [answer.measured for answer in line],
            "o",
            color=colour,
            label=f"{name}, measured",
        )
    axes.set_xscale("log", base=2)
    counts = sorted({answer.hosts for answer in answers})
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.set_yscale("log")
    axes.set_xlabel("hosts")
    axes.set_ylabel("samples/s")
    axes.set_title(f"Digits on hosts behind links of {mbit:g} Mbit/s; bands hold 80 of 100")
    axes.legend()
    figure.savefig(path, dpi=120)
    print(f"the picture: {path}")


if __name__ == "__main__":
    main()
