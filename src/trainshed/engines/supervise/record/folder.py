"""Defines the folder of one attempt: the paths of its files, its lock, and the order to stop.

The lock is an open-file-description lock: unlike ``flock``, a process can query it without taking
it, so a query never blocks a supervisor that starts.  No replica inherits the lock, so a free lock
proves that the supervisor has ended.
"""
# no pathlib: the supervisor of each attempt imports this module, and pathlib needs a megabyte

import errno
import fcntl
import json
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

from trainshed.engines.processes import identity, secret
from trainshed.engines.processes.identity import Identity
from trainshed.files.beneath import Beneath, PathBeneath
from trainshed.model.codec import decode
from trainshed.model.log_line import LOG_FOLDER

_PRIVATE_FOLDER: Final = 0o700
_PRIVATE_FILE: Final = 0o600
_SMALL_BYTES_MAX: Final = 1 << 20
_BYTES_MAX: Final = 1 << 26
_REPORT_BYTES_MAX: Final = 1 << 16
#: Programs that run as the server's user may have replaced a file by a link, a FIFO or a device.
_CAREFUL: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

#: Follows a node's name in the message of a stop order, if the cluster has signalled the processes
#: on this node to end.
ENDS_PROCESSES: Final = "is ending its processes"
#: The variable of a node with the name that its cluster has for it, if the cluster sets one.
NODE: Final = "SLURMD_NODENAME"
#: Begins the message of a stop order that a launcher gives itself at the end of its time.
TIME_IS_OVER: Final = "its time on the cluster is over: it ran"
#: struct flock of fcntl.h on 64-bit Linux: type, whence, start, length, pid (0 for these locks).
_FLOCK: Final = "hhqqi4x"


class Order(NamedTuple):
    """The order to stop an attempt.

    If the attempt has not begun when the server writes the order, it never begins.
    """

    grace_s: float
    reason: str = "cancel"
    """A value of ``model.stopping.StopReason``."""
    message: str = ""
    lost: bool = False
    """Whether the server gave up the attempt: it has no supervisor, or a later attempt began."""

    def after(self, earlier: "Order | None") -> "Order | None":
        """Return the order to obey after an earlier one; None if this order changes nothing.

        Only a shorter grace period changes an earlier order.
        """
        if earlier is None:
            return self
        if self.grace_s >= earlier.grace_s:
            return None
        return self._replace(lost=earlier.lost)


class _Name:
    """A class attribute that returns the path of a file, from the folder and the file's name."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: "AttemptFolder", _type: object = None) -> str:
        return f"{folder.path}/{self._name}"


class AttemptFolder:
    """The folder of an attempt, ``jobs/UID/ATTEMPT``: its paths, its lock and its order to stop."""

    __slots__ = ("path",)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """The folder need not exist."""
        self.path = os.fspath(path)

    @property
    def job(self) -> str:
        """The folder of all attempts of the job."""
        return os.path.dirname(self.path)

    plan = _Name("plan.json")
    """The spec for the supervisor and the preparer; if this file exists, the attempt must begin."""
    job_file = _Name("job.json")
    """The names of the job, for programs that collect logs."""
    records = _Name("records.jsonl")
    """The supervisor's records of the attempt, in order."""
    lock = _Name("lock")
    """The lock that the supervisor holds while it lives; the text identifies the supervisor."""
    order = _Name("stop")
    """The order to stop, if there is one."""
    shared = _Name("progress")
    """Files that replicas and supervisor exchange; containers mount it too."""
    notice = _Name("progress/notice")
    """The notice for replicas that will be stopped."""
    containers = _Name("containers")
    """Files that container runtimes read."""
    control = _Name("control")
    """The socket on which the supervisor takes orders."""
    key = _Name("orders.key")
    """The secret that a message on that socket must contain; programs of jobs cannot read it."""
    words = _Name("runner.txt")
    """The stderr of the supervisor itself."""
    log = _Name(LOG_FOLDER)
    """The segments of the replicas' lines."""
    resolver = _Name("resolv.conf")
    """The resolver of names, for the replicas' ``/etc/resolv.conf``."""
    hosts = _Name("hosts")
    """The names of the replicas, for the replicas' ``/etc/hosts``."""
    passwd = _Name("passwd")
    """The user of the replicas, for the replicas' ``/etc/passwd``."""
    profile = _Name("profile")
    """The profile of login shells, for the replicas' ``/etc/profile``."""
    machines = _Name("machines")
    """The home, the overlay of Python and other folders of each replica."""
    root = _Name("root")
    """The mount points of the replicas' root."""
    spare = _Name("spare")
    """A file that reserves disk space for the records of the end; its content has no meaning."""
    work = _Name("work")
    """The working folder of replicas whose plan names none."""
    tmp = _Name("tmp")
    """The temporary files of replicas that do not use the machine's ``/tmp``."""
    metrics = _Name("hypertune")
    """The metric files that the programs of a trial write."""
    reports = _Name("reports.jsonl")
    """The reports of a trial, in the order of their arrival."""
    search_note = _Name("reports-found.json")
    """A sentence for people: where the supervisor looked for reports and what it found."""
    usage = _Name("usage.jsonl")
    """The newest lines on the usage of the replicas and their GPUs (``model.usage``)."""
    packed_usage = _Name("usage.jsonl.gz")
    """The earlier lines on the usage."""
    reduction = _Name("progress/reduction.json")
    """The report of the worker of rank 0 on the job's exchanges of gradients."""

    def progress(self, task_name: str) -> str:
        """Return the file that a replica touches as a sign of progress."""
        return f"{self.shared}/{task_name}"

    def steps(self, task_name: str) -> str:
        """Return the file to which a replica writes how long its steps take."""
        return f"{self.shared}/{task_name}.steps.json"

    def make(self) -> None:
        """Make the folder, readable only by this user, unless it exists.  Raises OSError."""
        os.makedirs(self.path, mode=_PRIVATE_FOLDER, exist_ok=True)

    def hold(self) -> int | None:
        """Take the lock and return its descriptor; None if another process holds the lock.

        Closing the descriptor releases the lock.  Raises OSError.
        """
        descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT | _CAREFUL, _PRIVATE_FILE)
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _lock_of(fcntl.F_WRLCK))
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:
            os.close(descriptor)
            raise
        with suppress(OSError):  # a full disk: the text only helps to end a suspended supervisor
            os.ftruncate(descriptor, 0)  # a supervisor that was killed has left its own text
            os.pwrite(descriptor, json.dumps(identity.read_own_identity()).encode(), 0)
        return descriptor

    def is_held(self) -> bool:
        """Return whether a supervisor lives.  Raises OSError."""
        try:
            descriptor = os.open(self.lock, os.O_RDWR | _CAREFUL)
        except FileNotFoundError:
            return False
        try:
            lock = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _lock_of(fcntl.F_WRLCK))
        finally:
            os.close(descriptor)
        return bool(struct.unpack(_FLOCK, lock)[0] != fcntl.F_UNLCK)

    def holder(self) -> Identity | None:
        """Return the identity of the last holder of the lock; None if it cannot be read."""
        try:
            return Identity(*read_json(self.lock))
        except (OSError, ValueError, TypeError):
            return None

    def stop_order(self) -> Order | None:
        """Read the order to stop, if the server gave one.  Raises OSError or ValueError."""
        try:
            document = read_json(self.order)
        except FileNotFoundError:
            return None
        return decode(Order, document)

    def find_order(self, *, is_expected: bool = False) -> Order | None:
        """Return the order to stop; None if there is no valid order.

        ``is_expected``: list the folder first, because NFS may not find a name that another machine
        has just created.
        """
        with suppress(OSError, ValueError):
            if is_expected:
                os.listdir(self.path)
            return self.stop_order()
        return None

    def read_report(self, task_name: str) -> bytes:
        """Return the last report of a program on its progress; empty if there is none.

        A longer report than 64 KiB is cut off, so it is no valid JSON.
        """
        path = self.progress(task_name)
        if not os.path.lexists(path):  # as for most programs; ``Beneath`` needs some memory
            return b""
        try:
            place = PathBeneath.of_file(path, (self.job,))
            return read_file(place, bytes_max=_REPORT_BYTES_MAX)
        except OSError:
            return b""

    def make_key(self) -> None:
        """Write a secret for messages to the supervisor, unless it exists.  Raises OSError."""
        if not os.path.exists(self.key):
            write_json(self.key, secret.new_secret())

    def read_key(self) -> str:
        """Read the secret for messages to the supervisor; empty if the attempt has none.

        Attempts that an earlier version began have none.
        """
        with suppress(OSError, ValueError):
            return str(read_json(self.key))
        return ""

    def give_order(self, order: Order) -> None:
        """Write an order durably, unless the present order is as strict.  Raises OSError.

        The stricter order has the shorter grace period.  Replace a file that is not a valid order.
        """
        self.make()
        present: Order | None = None
        with suppress(ValueError):
            present = self.stop_order()
        new = order.after(present)
        if new is not None:
            write_json(self.order, new._asdict(), durably=True)


def name_node() -> str:
    """Return the cluster's name of this node, or else the host name of this machine."""
    return os.environ.get(NODE) or os.uname().nodename


def write_json(
    path: str,
    value: Any,
    *,
    durably: bool = False,
    syncs_name: bool = True,
    mode: int = _PRIVATE_FILE,
) -> None:
    """Write a JSON file completely or not at all, by default a private one.  Raises OSError.

    ``syncs_name`` is False if the caller syncs the folder later, with the names of other files.
    """
    folder, _, name = path.rpartition("/")
    draft = f"{folder}/.{name}-{os.getpid()}-{os.urandom(4).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with open(os.open(draft, flags, mode), "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)  # whatever the umask is: containers run as other users
            file.write(json.dumps(value))
            file.flush()
            if durably:
                os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise
    if durably and syncs_name:
        sync_folder(folder)


def read_json(path: str) -> Any:
    """Read a small JSON file.  Raises OSError, or ValueError also if it is not a regular file."""
    try:
        return json.loads(read_file(PathBeneath.of_file(path), bytes_max=_SMALL_BYTES_MAX))
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ELOOP):
            raise ValueError(f"{path} is not a file") from None
        raise


def read_file(place: PathBeneath, offset: int = 0, bytes_max: int = _BYTES_MAX) -> bytes:
    """Read at most ``bytes_max`` bytes from an offset.  Raises OSError if that is not possible.

    Raises OSError also if the file is not a regular file: programs of the job may have replaced it.
    A link leads to another file, a FIFO blocks, and a device never ends.
    """
    with Beneath(place.root) as folder, folder.read(place.name) as file:
        file.seek(offset)
        return file.read(bytes_max)


def sync_folder(path: str) -> None:
    """Sync the names in a folder to disk, if the file system can."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def short_path(path: str) -> Iterator[str]:
    """Yield a path of the same file that is short enough for the address of a socket."""
    folder, _, name = path.rpartition("/")
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def _lock_of(kind: int) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, 0, 0, 0)
