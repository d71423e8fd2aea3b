"""What lies in folders that jobs write to is reached by descriptors (``files.beneath``), not paths.

A path may lead somewhere else at the moment at which it is used: a job puts a link there.  Code of
the server that opens, makes, renames, removes or walks by path therefore stands in a table here,
with the reason why no job can write where it does so.  A new call needs a reason, or a descriptor.
"""

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Final

import pytest

SOURCE: Final = Path(__file__).parent.parent / "src/trainshed"

#: What works with folders of jobs.  The rest reads and writes as the user who runs a command.
ROOMS: Final = (
    "api", "app", "controller", "engines", "files", "service", "storage", "store",
    "workbench/backups.py", "workbench/doctor",
)  # fmt: skip

#: Calls that take a path, unless they are given a folder's descriptor besides.
OF_OS: Final = frozenset({
    "chmod", "chown", "getxattr", "lchown", "link", "listdir", "listxattr", "makedirs",
    "mkdir", "mkfifo", "mknod", "open", "readlink", "remove", "removedirs", "removexattr", "rename",
    "renames", "replace", "rmdir", "scandir", "setxattr", "symlink", "truncate", "unlink", "utime",
    "walk",
})  # fmt: skip
OF_SHUTIL: Final = frozenset({
    "chown", "copy", "copy2", "copyfile", "copymode", "copystat", "copytree", "make_archive",
    "move", "rmtree", "unpack_archive",
})  # fmt: skip
OF_PATHS: Final = frozenset({
    "chmod", "glob", "hardlink_to", "iterdir", "lchmod", "mkdir", "read_bytes", "read_text",
    "readlink", "rename", "rglob", "rmdir", "symlink_to", "touch", "unlink", "write_bytes",
    "write_text",
})  # fmt: skip
BY_DESCRIPTOR: Final = frozenset({"dir_fd", "src_dir_fd", "dst_dir_fd"})
#: What a first argument is called that is an open file.
DESCRIPTORS: Final = ("descriptor", "handle", "held.fileno()", "*.fileno()", "folder.descriptor")

#: By reason: MODULE::FUNCTION, with ``*`` for any.  Each was read for the question whether a
#: program of a job can write to the folder that the path lies in.
ALLOWED: Final = {
    "the folder of the server's own: its secrets, notes, uploads, database and lists of GPUs": (
        "api/gateway/grpc_calls.py::*",
        "app/application.py::build",
        "engines/kubernetes/bucket_folders.py::*",
        "engines/kubernetes/factory.py::make",
        "service/auth/*",
        "service/upkeep/file_modes.py::*",
        "service/gateway/*",
        "service/starts/interpreters.py::TrainerLibrary.*",
        "service/ports/*",
        "service/upkeep/project_bytes.py::_names",
        "files/server_files.py::*",
        "storage/bucket_folders.py::*",
        "storage/folder_files.py::FolderFiles.put_file",
        "storage/folders.py::make",
        "storage/log_files.py::JobLog.*",
        "storage/object_files.py::locked",
        "storage/remote_objects.py::ObjectsWithRemotes.commit",
        "storage/uploads.py::*",
        "store/*",
        "workbench/doctor/looking.py::*",
    ),
    "the package itself, which only its installer writes": ("api/console/bundle.py::*",),
    "the folder of an attempt itself, in which only its supervisor writes: not those in it": (
        "engines/isolation/compose.py::make_own_folders",
        "engines/local/attempts/*",
        "engines/local/containers/start.py::*",
        "engines/local/foreground.py::_Run._start",
        "engines/supervise/control.py::Control.*",
        "engines/supervise/record/folder.py::*",
        "engines/supervise/helpers/fork_server.py::_fork_supervisor",
        "engines/supervise/main.py::_make_folders",
        "engines/isolation/mounts.py::write_*",
        "engines/supervise/private_root.py::*",
        "engines/supervise/record/records.py::append",
        "engines/supervise/record/reports.py::ReportLog._write",
        "engines/supervise/record/segments.py::*",
        "engines/supervise/record/usage_file.py::*",
        "service/upkeep/usage_files.py::_list_numbers",
        "engines/supervise/watch/watch_metrics.py::_make",
        "files/room.py::*",
        "service/starts/reducers.py::make_secret",
    ),
    "a new folder of a random name, in which no program of a job has run": (
        "engines/environments/overlay.py::*",
        "engines/isolation/replica_machine.py::*",
        "engines/isolation/trial.py::main",
        "engines/kubernetes/probing/exchange.py::*",
        "engines/kubernetes/probing/task.py::*",
    ),
    "the cache of packages, in folders that builders do not write to, or have not been given yet": (
        "engines/environments/builder.py::Builder.build",
        "engines/environments/cache.py::*",
        "engines/environments/content.py::*",
        "engines/environments/install.py::*",
        "engines/environments/nearest.py::Index.releases",
        "engines/environments/plan.py::Plan.*",
        "engines/environments/prune.py::*",
        "engines/environments/replica_tools.py::*",
        "engines/environments/unpack.py::unpack",
    ),
    "the kernel's files and the machine's devices": (
        "engines/isolation/device_nodes.py::_list_names",
        "engines/isolation/landlock.py::*",
        "engines/isolation/linux.py::*",
        "engines/isolation/users.py::*",
        "engines/local/devices/*",
        "engines/network/*",
        "engines/processes/*",
        "service/telemetry/process.py::*",
        "engines/supervise/kernel/cgroups.py::_Maker._make",
        "engines/supervise/helpers/fork_server.py::_become",
        "engines/supervise/leftovers.py::list_marked",
        "engines/supervise/kernel/limits.py::_count_threads",
        "engines/isolation/mount_steps.py::perform",
        "engines/isolation/mounts.py::_group_steps",
        "engines/supervise/kernel/signals.py::close_inherited",
        "engines/supervise/kernel/spawn.py::*",
        "engines/warden/warden.py::main",
    ),
    "programs, libraries and settings of the machine, which its administrator has installed": (
        "engines/environments/interpreter.py::_list_distributions",
        "engines/isolation/compose.py::_resolve_links",
        "engines/isolation/interpreters.py::*",
        "engines/kubernetes/api/library.py::ConfigurationSource._read_account",
        "engines/kubernetes/docker_config.py::_read",
        "engines/kubernetes/runtime.py::*",
        "engines/kubernetes/standard_library.py::*",
        "engines/supervise/own_modules.py::_list_entries",
        "engines/warden/archive.py::*",
        "service/costs/prices.py::_read_own",
        "service/starts/programs.py::is_project",
    ),
    "a cluster, where jobs are programs of the server's own user and can do all that it can": (
        "engines/node_files.py::*",
        "engines/slurm/*",
        "engines/spool.py::*",
        "engines/warden/*",
    ),
    "links of the server's user in /tmp, which programs of jobs cannot remove, and no other user": (
        "engines/supervise/short_tmp.py::*",
    ),
    "no path that a job can change: the folder is named by its descriptor": (
        "files/trees.py::_open_to_owner",
    ),
    "no path: what is opened is a part of a log": ("service/log/searching.py::merge_lazily",),
    "no path: methods of our own that have such a name": (
        "engines/kubernetes/api/watch.py::Watcher._list",
        "engines/kubernetes/factory.py::make_with_client",
        "engines/kubernetes/options.py::*",
        "engines/kubernetes/pod_settings.py::*",
        "engines/kubernetes/probing/run.py::_Probe.run",
        "engines/setting_readers.py::*",
    ),
    "the folder that an administrator names in a command, itself: not what lies in it": (
        "files/beneath.py::Beneath.__init__",
        "files/beneath.py::_resolve",
        "files/copies.py::copy_tree",
        "workbench/backups.py::*",
    ),
}


def calls_by_path(tree: ast.AST, around: str = "") -> Iterator[tuple[str, int, str]]:
    """Yield the function, the line and the text of each call of a module that takes a path."""
    for node in ast.iter_child_nodes(tree):
        inside = around
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = f"{around}.{node.name}".removeprefix(".")
        if isinstance(node, ast.Call) and takes_path(node):
            yield inside, node.lineno, ast.unparse(node.func)
        yield from calls_by_path(node, inside)


def takes_path(call: ast.Call) -> bool:
    if name_of(call) not in OF_OS | OF_SHUTIL | OF_PATHS:
        return False
    if BY_DESCRIPTOR.intersection(keyword.arg for keyword in call.keywords if keyword.arg):
        return False
    first = ast.unparse(call.args[0]) if call.args else ""
    if any(fnmatchcase(first, pattern) for pattern in DESCRIPTORS):
        return False
    if isinstance(call.func, ast.Name):
        return call.func.id == "open"
    owner, name = ast.unparse(call.func).rpartition(".")[::2]
    if owner in ("os", "shutil"):
        return name in (OF_OS if owner == "os" else OF_SHUTIL)
    return name in OF_PATHS or is_method_of_path(call, name)


def name_of(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def is_method_of_path(call: ast.Call, name: str) -> bool:
    """Methods that other classes have too are told by their arguments."""
    first = call.args[0] if call.args else None
    if name == "open":
        is_mode = isinstance(first, ast.Constant) and str(first.value).strip("rwabxt+") == ""
        return is_mode or (first is None and not call.keywords)
    return name == "replace" and len(call.args) == 1 and not call.keywords


@cache
def modules() -> tuple[Path, ...]:
    roots = [SOURCE / room for room in ROOMS]
    files = [root for root in roots if root.is_file()]
    return tuple(sorted((*files, *(path for root in roots for path in root.rglob("*.py")))))


def places_of(path: Path) -> list[tuple[str, str]]:
    """MODULE::FUNCTION of each call by path in a module, and where and what it is."""
    name = path.relative_to(SOURCE).as_posix()
    calls = calls_by_path(ast.parse(path.read_text("utf-8")))
    return [(f"{name}::{inside}", f"{name}:{line}: {text}()") for inside, line, text in calls]


@cache
def all_places() -> list[tuple[str, str]]:
    return [place for module in modules() for place in places_of(module)]


def patterns() -> list[str]:
    return [pattern for group in ALLOWED.values() for pattern in group]


def test_no_call_by_path_is_without_a_reason():
    assert len(all_places()) > 100, "the scan finds nothing: its rooms have moved"
    unknown = [
        text
        for place, text in all_places()
        if not any(fnmatchcase(place, pattern) for pattern in patterns())
    ]
    assert unknown == [], (
        "reach it by a descriptor (files.beneath, files.trees, files.copies), or say in "
        "tests/test_paths.py why no job can write there"
    )


def test_every_exception_is_needed():
    unused = [
        pattern
        for pattern in patterns()
        if not any(fnmatchcase(place, pattern) for place, _ in all_places())
    ]
    assert unused == []


@pytest.mark.parametrize(
    ("text", "is_by_path"),
    [
        ("os.open(path, os.O_RDONLY)", True),
        ("os.open(name, flags, dir_fd=folder)", False),
        ("os.rename(a, b, src_dir_fd=x, dst_dir_fd=y)", False),
        ("os.scandir(descriptor)", False),
        ("os.utime(file.fileno())", False),
        ("open(path)", True),
        ("path.open('rb')", True),
        ("path.open()", True),
        ("tree.open(name, flags)", False),
        ("Path(x).write_text('')", True),
        ("draft.replace(path)", True),
        ("text.replace('a', 'b')", False),
        ("time.replace(tzinfo=UTC)", False),
        ("shutil.rmtree(path)", True),
        ("shutil.rmtree(leaf, dir_fd=folder)", False),
        ("os.chown(path, 0, 0)", True),
    ],
)
def test_the_scan_knows_a_path_from_a_descriptor(text, is_by_path):
    assert bool(list(calls_by_path(ast.parse(text)))) is is_by_path
