"""Compile once what the processes of `make test` import: on a fresh clone, each would compile it.

pytest has bytecode of its own of modules in which it rewrites assertions.  It has no function that
writes it without running the module.  Where its format is another one, it writes its own again.
"""

import ast
import compileall
import importlib.util
import marshal
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

from _pytest.assertion import rewrite

ROOT: Final = Path(__file__).parent.parent
FOLDERS: Final = ("src/trainshed", "trainer/src", "benchmarks", "tests")
#: The modules in which pytest rewrites assertions.
REWRITTEN: Final = re.compile(r"/(test_\w+|conftest)\.py$")
#: Those that tests/conftest.py adds; other programs import them too.
REGISTERED: Final = (
    "src/trainshed/testing/*.py",
    "tests/forked.py",
    "tests/interrupted.py",
    "tests/leftovers.py",
)
#: Bytecode that is valid while the source has the hash that follows (PEP 552).
HEAD: Final = importlib.util.MAGIC_NUMBER + b"\x03\x00\x00\x00"


def main() -> int:
    """Compile what has no bytecode or an older one."""
    for folder in FOLDERS:
        compileall.compile_dir(ROOT / folder, quiet=2, rx=REWRITTEN, workers=0)
    tests = [path for path in (ROOT / "tests").rglob("*.py") if REWRITTEN.search(str(path))]
    tests += [path for pattern in REGISTERED for path in ROOT.glob(pattern)]
    with ProcessPoolExecutor() as processes:
        list(processes.map(compile_test, tests, chunksize=16))
    return 0


def compile_test(path: Path) -> None:
    """Write pytest's bytecode of a test module, if it has none or an older one."""
    source = path.read_bytes()
    head = HEAD + importlib.util.source_hash(source)
    bytecode = rewrite.get_cache_dir(path) / (path.stem + rewrite.PYC_TAIL)
    if bytecode.exists() and bytecode.read_bytes()[: len(head)] == head:
        return
    tree = ast.parse(source, filename=str(path))
    rewrite.rewrite_asserts(tree, source, str(path))
    code = compile(tree, str(path), "exec", dont_inherit=True)
    bytecode.parent.mkdir(exist_ok=True)
    bytecode.write_bytes(head + marshal.dumps(code))


if __name__ == "__main__":
    sys.exit(main())
