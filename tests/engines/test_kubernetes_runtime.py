"""The server's Python starts in an image that has nothing; every bundle of it is the same."""

import _sqlite3
import io
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from engines.empty_root import EmptyRoot, why_not
from trainshed.engines.kubernetes import elf, runtime
from trainshed.engines.warden import archive
from trainshed.model.faults import EngineFault
from trainshed.model.launch_plan import ReplicaPlan
from trainshed.model.roles import Role
from warden.attempts import Launchers, plan_of, step

MB = 1_000_000
DEBIAN = "/usr/bin/python3"
#: Imports all that lies in the archive, and what its functions import later.
IMPORTS = """
import importlib, sys, zipfile
place, *names = sys.argv[1:]
sys.path.insert(0, place)
sys.path.append(place + "/newer")
for name in sorted(zipfile.ZipFile(place).namelist()):
    if name.startswith("trainshed/") and name.endswith(".py"):
        importlib.import_module(name[:-3].replace("/", ".").removesuffix(".__init__"))
for name in names:
    importlib.import_module(name)
print(len(sys.modules))
"""
#: What a launcher and a warden do, each in one line.
DEEDS = """
import codecs, ctypes, json, os, pkgutil, encodings, select, signal, socket, subprocess, sys
import threading, time
assert ctypes.CDLL(None).getpid() == os.getpid()
listener = socket.create_server(("127.0.0.1", 0))
dialled = socket.create_connection(("127.0.0.1", listener.getsockname()[1]))
accepted, _ = listener.accept()
dialled.sendall(b"x"); assert accepted.recv(1) == b"x"
try:
    socket.getaddrinfo("nobody-has-this-name.invalid", 1)
except socket.gaierror:
    pass
assert "b\\u00fccher.example".encode("idna") == b"xn--bcher-kva.example"
for module in pkgutil.iter_modules(encodings.__path__):
    if module.name not in ("mbcs", "oem", "aliases", "cp65001", "_win_cp_codecs"):
        codecs.lookup(module.name)
thread = threading.Thread(target=time.sleep, args=(0,)); thread.start(); thread.join()
child = os.fork()
if not child:
    os._exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
print(json.dumps([sys.executable, sys.version_info[:2], sys.getfilesystemencoding()]))
"""


@pytest.fixture(scope="module")
def bundle():
    return runtime.bundle(archive.build())


@pytest.fixture(scope="module")
def root(bundle, tmp_path_factory):
    if reason := why_not():
        pytest.skip(reason)
    path = tmp_path_factory.mktemp("root")
    yield EmptyRoot(path, bundle)
    shutil.rmtree(path)


def start(root, *words, **env):
    return root.run(*runtime.compose_start(root.runtime), *words, **env)


def test_a_bundle_is_small_and_has_the_files_that_a_start_names(bundle):
    assert sum(map(len, bundle.files.values())) < 25 * MB
    names = {runtime.START, runtime.LOADER, runtime.PYTHON, runtime.WARDEN}
    assert names <= set(bundle.files)
    assert not [path for path in bundle.files if path.startswith("/") or ".." in path]


def test_the_words_of_a_start_are_those_of_the_loader():
    assert " ".join(runtime.compose_start("/r")) == (
        "/r/start /r/ld.so --library-path /r/lib --argv0 /r/bin/python3 /r/bin/python3 -I -S"
    )


def test_two_bundles_are_the_same_and_other_files_give_another_name(bundle):
    again = runtime.bundle(archive.build())
    assert again == bundle
    data = bundle.files[runtime.WARDEN]
    others = ({**bundle.files, runtime.WARDEN: data + b"x"}, {**bundle.files, "more": b""})
    assert bundle.name not in {f"runtime-{runtime._hash(files)}" for files in others}


def test_nothing_but_the_standard_library_is_in_it(bundle):
    path = next(path for path in bundle.files if path.endswith(".zip"))
    names = zipfile.ZipFile(io.BytesIO(bundle.files[path])).namelist()
    tops = {name.partition("/")[0].removesuffix(".pyc") for name in names}
    others = tops - set(sys.stdlib_module_names)
    assert all(name.startswith("_sysconfigdata") for name in others)
    assert {"subprocess", "socket", "json", "encodings"} <= tops


def test_the_archive_starts_where_no_other_file_is(root):
    done = start(root, f"{root.runtime}/{runtime.WARDEN}")
    assert done.returncode == 2
    assert (
        done.stderr == "the first argument must be attempt, next, task, prepare or gpus, got none\n"
    )


def test_all_that_the_archive_imports_is_there(root):
    sources = zipfile.ZipFile(io.BytesIO(archive.build().data))
    names = {n for name in sources.namelist() for n in archive.list_imports(sources.read(name))}
    tops = {name.partition(".")[0] for name in names} & set(sys.stdlib_module_names)
    done = start(root, "-c", IMPORTS, f"{root.runtime}/{runtime.WARDEN}", *sorted(tops))
    assert done.returncode == 0, done.stderr


def test_it_does_what_launchers_and_wardens_do(root):
    done = start(root, "-c", DEEDS)
    assert done.returncode == 0, done.stderr
    assert f"{root.runtime}/{runtime.PYTHON}" in done.stdout


def test_a_warden_proves_its_secret_without_openssl(root):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from trainshed.engines.warden import proof; "
        "print(len(proof.prove_warden('s', b'a', b'b')), '_hashlib' in sys.modules)"
    )
    done = start(root, "-c", code, f"{root.runtime}/{runtime.WARDEN}")
    assert (done.stdout.split(), done.stderr) == (["32", "False"], "")


def test_a_program_that_fails_there_says_where(root):
    done = start(root, "-c", "import json\njson.loads('{')")
    assert done.returncode == 1
    assert "json.decoder.JSONDecodeError" in done.stderr


@pytest.mark.parametrize(
    "env",
    [
        {"LANG": "ja_JP.eucJP", "LC_ALL": "ja_JP.eucJP"},
        {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64", "LD_PRELOAD": "/usr/lib/libjemalloc.so"},
        {"PYTHONHOME": "/opt/conda", "PYTHONPATH": "/opt/conda/lib", "PYTHONSTARTUP": "/x"},
    ],
    ids=["locale", "libraries", "python"],
)
def test_variables_of_an_image_do_not_keep_it_from_starting(root, env):
    done = start(root, "-c", "print('it runs')", **env)
    assert (done.returncode, done.stdout) == (0, "it runs\n"), done.stderr


def test_a_library_of_an_image_that_does_not_fit_does_not_keep_it_from_starting(root):
    """A module of Python whose own libraries the root does not have."""
    source = getattr(_sqlite3, "__file__", None)
    if source is None:
        pytest.skip("this Python has no module with a library of its own")
    shutil.copy(source, root.path / "does-not-fit.so")
    start_program, *words = runtime.compose_start(root.runtime)
    env = {"LD_PRELOAD": "/does-not-fit.so", "LDX": "1"}
    code = "import os; print(os.environ['~D_PRELOAD'], os.environ['LDX'])"
    assert root.run(*words, "-c", code, **env).returncode == 127, "without the first program"
    done = root.run(start_program, *words, "-c", code, **env)
    assert (done.returncode, done.stdout) == (0, "/does-not-fit.so 1\n"), done.stderr


def test_the_first_program_needs_one_to_start(root):
    start_program = runtime.compose_start(root.runtime)[0]
    assert root.run(start_program).returncode == 127
    assert root.run(start_program, "/no/such/program").returncode == 127


def test_a_whole_attempt_runs_with_wardens_in_empty_roots(root, tmp_path, tmp_path_factory):
    launchers = Launchers(tmp_path / "jobs", str(tmp_path_factory.getbasetemp()))
    work = Path(launchers.folder().work)
    (root.path / str(work).lstrip("/")).mkdir(parents=True)
    words = runtime.compose_start(root.runtime)
    code = "import os; print('hello from', os.getpid(), os.listdir('/'))"
    replicas = [
        ReplicaPlan(role=role, index=0, task_name=f"{role.value}-0", argv=(*words, "-c", code))
        for role in (Role.PRIMARY, Role.WORKER)
    ]
    shim = tmp_path / "shim"
    quoted = " ".join(f"'{word}'" for word in root.argv(*words[:-2]))
    shim.write_text(f'#!/bin/sh\nexec {quoted} "$@"\n')
    shim.chmod(0o755)
    pyz = f"{root.runtime}/{runtime.WARDEN}"
    try:
        steps = (step(pyz, 0, 2, str(shim)),)
        attempt = launchers.begin(plan_of(replicas), steps=steps, env={"TMPDIR": ""})
        ended = attempt.ended()
        assert [end.exit_code for end in ended.outcome.replicas] == [0, 0], attempt.words()
        for name in ("primary-0", "worker-0"):
            assert any("hello from" in text for text in attempt.texts(name)), attempt.words()
    finally:
        launchers.close()


@pytest.mark.full
@pytest.mark.skipif(not Path(DEBIAN).exists(), reason=f"{DEBIAN} is not here")
def test_the_python_of_the_distribution_is_bundled_too(tmp_path):
    if reason := why_not():
        pytest.skip(reason)
    bundle = runtime.bundle(archive.build(), DEBIAN)
    root = EmptyRoot(tmp_path / "root", bundle)
    done = start(root, "-c", DEEDS)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(root.path)


def test_a_server_on_another_processor_is_refused(monkeypatch):
    assert runtime.architecture() == {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    monkeypatch.setattr(platform, "machine", lambda: "mips")
    with pytest.raises(EngineFault, match=r"x86_64, aarch64.*got 'mips'"):
        runtime.architecture()


def test_a_program_without_a_loader_is_refused_with_what_to_do(tmp_path):
    path = tmp_path / "python3"
    path.write_bytes(make_elf(""))
    with pytest.raises(EngineFault, match=r"linked statically; run the server with .* glibc 2\.33"):
        runtime.bundle(archive.build(), str(path))


def test_a_program_of_musl_is_refused_with_what_to_do(tmp_path):
    path = tmp_path / "python3"
    path.write_bytes(make_elf("/lib/ld-musl-x86_64.so.1"))
    with pytest.raises(EngineFault, match=r"linked with musl; run the server with .* glibc 2\.33"):
        runtime.bundle(archive.build(), str(path))


def test_a_loader_without_argv0_is_refused_with_what_to_do(tmp_path):
    loader = tmp_path / "ld-linux-x86-64.so.2"
    loader.write_text("#!/bin/sh\necho '  --list  list all dependencies'\n")
    loader.chmod(0o755)
    path = tmp_path / "python3"
    path.write_bytes(make_elf(str(loader)))
    with pytest.raises(EngineFault, match=r"no option --argv0, which glibc has since 2\.33; run"):
        runtime.bundle(archive.build(), str(path))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"#!/bin/sh\n", "must be an ELF file"),
        (b"", "must be an ELF file"),
        (b"\x7fELF\1\1\1" + bytes(60), "must be a 64-bit ELF file"),
        (b"\x7fELF\2\1\1" + bytes(20), "cannot read the program headers"),
    ],
)
def test_a_file_that_is_no_program_is_refused(data, words):
    with pytest.raises(EngineFault, match=words):
        elf.read_loader("/x/python3", data)


def test_what_no_loader_maps_is_left_out_and_the_program_runs(tmp_path):
    path = os.path.realpath(sys._base_executable)
    data = Path(path).read_bytes()
    smaller = elf.copy_mapped(path, data + bytes(1000))
    assert len(smaller) <= len(data)
    assert elf.read_loader(path, smaller) == elf.read_loader(path, data)
    copy = tmp_path / "true"
    copy.write_bytes(elf.copy_mapped("true", Path("/bin/true").read_bytes()))
    copy.chmod(0o755)
    assert subprocess.run([str(copy)], check=False).returncode == 0


def make_elf(loader: str) -> bytes:
    """The headers of a program, with the path of its loader."""
    text = loader.encode() + b"\0"
    ident = b"\x7fELF\2\1\1" + bytes(9)
    rows = (("<IIQQQQQQ", (3, 4, 120, 0, 0, len(text), len(text), 1)),) if loader else ()
    header = elf.struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, len(rows), 64, 0, 0)
    return ident + header + b"".join(elf.struct.pack(form, *row) for form, row in rows) + text
