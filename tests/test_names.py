"""No definition has a name that says nothing of its value, and no class the name of another."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "trainer", "scripts", "benchmarks", "examples", "tests")
#: A reader of one of them has to find out elsewhere what the value is.
VAGUE = frozenset({"found", "each", "seen", "known", "asked", "kept", "told"})
#: Most files have none of them, and need not be parsed.
VAGUE_WORD = re.compile(rf"\b_*(?:{'|'.join(sorted(VAGUE))})\b")
#: Fields that a codec or the native API writes by their names: files, databases, clients have them.
WRITTEN = {
    "src/trainshed/engines/base.py": {"found"},
    "src/trainshed/engines/slurm/attempt_files.py": {"kept"},
    "src/trainshed/model/attempt.py": {"found"},
    "src/trainshed/model/explanation.py": {"asked"},
    "src/trainshed/model/resources.py": {"each"},
    "src/trainshed/service/nodes/node_service.py": {"seen"},
}


def list_definitions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """(name, line) of everything that a module names itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno


def list_vague_names(text: str, allowed: frozenset[str] | set[str] = frozenset()) -> list[str]:
    if not VAGUE_WORD.search(text):
        return []
    return [
        f"{line} {name}"
        for name, line in list_definitions(ast.parse(text))
        if name.lstrip("_") in VAGUE - allowed
    ]


def test_a_vague_name_is_noticed_wherever_a_name_can_stand():
    for text in ("found = 1", "def asked(): pass", "def f(each): pass", "class seen: pass"):
        assert list_vague_names(text), text
    for text in ("a = [told for told in b]", "self._kept = 1", "lambda known: 1"):
        assert list_vague_names(text), text
    assert not list_vague_names("rows = store.find(kept=1)")


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_definition_has_a_vague_name(folder):
    vague = {}
    for path in sorted((ROOT / folder).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if lines := list_vague_names(path.read_text("utf-8"), WRITTEN.get(name, set())):
            vague[name] = lines
    assert not vague, "say what the value is: `rows`, `match`, `attempts`"


@pytest.mark.parametrize("name", WRITTEN)
def test_every_exception_is_needed(name):
    names = {name for name, _ in list_definitions(ast.parse((ROOT / name).read_text("utf-8")))}
    assert WRITTEN[name] <= names


def list_classes_twice(texts: dict[str, str]) -> dict[str, list[str]]:
    """The public classes that several modules define, with those modules."""
    modules = defaultdict(list)
    for module, text in texts.items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(module)
    return {name: places for name, places in modules.items() if len(places) > 1}


def test_no_two_public_classes_have_one_name():
    assert list_classes_twice({"a": "class Job: pass", "b": "class Job: pass"}) == {
        "Job": ["a", "b"]
    }
    assert not list_classes_twice({"a": "class _Job: pass", "b": "class _Job: pass"})
    paths = (ROOT / "src").rglob("*.py")
    texts = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}
    assert not list_classes_twice(texts), "name each class after what it is"
