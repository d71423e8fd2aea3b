"""The network of all pods: a bridge in a namespace of its own, and an address for each pod."""

import itertools
import shutil
import subprocess

SERVER = "10.244.0.1"
PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"


def find_tool(name):
    """The path of a program, also where only root looks, or None."""
    return shutil.which(name, path=PATH)


class PodNetwork:
    """``holder`` is the pid of a process in the namespace of the bridge."""

    def __init__(self, holder):
        self._holder = holder
        self._numbers = itertools.count(2)
        self._run(
            holder,
            "link add br0 type bridge",
            f"addr add {SERVER}/16 dev br0",
            "link set br0 up",
        )

    def connect(self, pid):
        """Give the namespace of a process an interface; return its address."""
        number = next(self._numbers)
        address = f"10.244.{number // 250}.{number % 250 + 2}"
        self._run(
            self._holder,
            f"link add v{number} type veth peer name eth0 netns {pid}",
            f"link set v{number} master br0",
            f"link set v{number} up",
        )
        self._run(
            pid,
            f"addr add {address}/16 dev eth0",
            "link set eth0 up",
            f"route add default via {SERVER}",
        )
        return address

    @staticmethod
    def _run(pid, *commands):
        words = (
            find_tool("nsenter"),
            f"--net=/proc/{pid}/ns/net",
            "--",
            find_tool("ip"),
            "-batch",
            "-",
        )
        text = "".join(f"{command}\n" for command in commands)
        done = subprocess.run(words, input=text, check=False, capture_output=True, text=True)
        assert done.returncode == 0, (commands, done.stderr)
