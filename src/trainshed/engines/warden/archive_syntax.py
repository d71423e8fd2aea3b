"""Rewrites our sources so that Python 3.9 runs them, and leaves out what only people read.

Unions that are values, such as the types of fields, become those of ``typing``; a few names are
imported from ``older``.  What cannot be rewritten is refused, so that no archive is made of it.
"""

import ast
from typing import Final

_OLDER: Final = "trainshed.engines.warden.older"
#: What a module may import that is newer than 3.9, by where it comes from.
_NEWER: Final = {
    "dataclasses": ({"dataclass"}, f"{_OLDER}_dataclasses"),
    "types": ({"NoneType", "UnionType"}, _OLDER),
    "typing": ({"Self"}, _OLDER),
}
_TYPES: Final = {"bool", "bytes", "dict", "float", "frozenset", "int", "list", "set", "str",
                 "tuple", "type"}  # fmt: skip


def rewritten(source: str, path: str) -> str:
    """The same program for Python 3.9, without comments and docstrings.

    Raises ValueError for what it cannot be.
    """
    tree = ast.parse(source, path)
    writer = _Rewriter(path)
    tree = writer.visit(tree)
    # typing.Union where it is needed, behind what must be first
    at = next((at for at, node in enumerate(tree.body) if not _is_future(node)), len(tree.body))
    if writer.has_union:
        tree.body.insert(at, _compose_import("typing", [ast.alias("Union", "_Union")]))
    if writer.has_zip:
        tree.body.insert(at, _compose_import(_OLDER, [ast.alias("zip", None)]))
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def imports_of(source: str, path: str) -> set[str]:
    """The modules that a program may import, wherever in it; a name may be one too."""
    modules: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(source, path)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and _is_for_types(node.test):
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.add(node.module)
            modules.update(f"{node.module}.{alias.name}" for alias in node.names)
        waiting += ast.iter_child_nodes(node)
    return modules


class _Rewriter(ast.NodeTransformer):
    def __init__(self, path: str) -> None:
        self._path = path
        self.has_union = False
        self.has_zip = False

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return None
        return self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        body = getattr(node, "body", None)
        if isinstance(body, list) and not body and not isinstance(node, ast.Module):
            node.body = [ast.Pass()]  # type: ignore[attr-defined] # it had a docstring alone
        return node

    def visit_Match(self, node: ast.Match) -> ast.AST:
        raise ValueError(f"{self._path}:{node.lineno}: Python 3.9 has no match")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | list[ast.AST]:
        newer, place = _NEWER.get(node.module or "", (set(), ""))
        moved = [alias for alias in node.names if alias.name in newer]
        remaining = [alias for alias in node.names if alias.name not in newer]
        parts: list[ast.AST] = []
        if remaining:
            parts.append(_compose_import(node.module or "", remaining, node.level))
        if moved:
            parts.append(_compose_import(place, moved))
        return parts

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = self._type(node.annotation)
        if node.value is not None:
            node.value = self._alias(node.value)
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        node.value = self._alias(node.value)
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        if node.annotation is not None:
            node.annotation = self._type(node.annotation)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if node.returns is not None:
            node.returns = self._type(node.returns)
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        if node.returns is not None:
            node.returns = self._type(node.returns)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "isinstance" and _is_union(node.args[1]):
            node.args[1] = ast.Tuple(_leaves(node.args[1]), ast.Load())
        if name == "zip" and any(word.arg == "strict" for word in node.keywords):
            self.has_zip = True
        return self.generic_visit(node)

    def _alias(self, value: ast.expr) -> ast.expr:
        if _is_union(value) and all(map(_is_type, _leaves(value))):
            return self._type(value)
        return value

    def _type(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            inner = self._type(ast.parse(node.value, mode="eval").body)
            return ast.Constant(ast.unparse(inner))
        changed = _Unions().visit(node)
        self.has_union = self.has_union or ast.dump(changed).find("'_Union'") >= 0
        return changed  # type: ignore[no-any-return] # it was an expression


class _Unions(ast.NodeTransformer):
    """In types every | is a union."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        leaves = [self.visit(leaf) for leaf in _leaves(node)]
        row = ast.Tuple(leaves, ast.Load())
        return ast.Subscript(ast.Name("_Union", ast.Load()), row, ast.Load())


def _is_union(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)


def _leaves(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*_leaves(node.left), *_leaves(node.right)]
    return [node]


def _is_type(node: ast.expr) -> bool:
    """Constants of modules are in capitals, values in small letters."""
    if isinstance(node, ast.Subscript):
        return _is_type(node.value)
    if isinstance(node, ast.Constant):
        return node.value is None
    name = getattr(node, "id", getattr(node, "attr", "")).lstrip("_")
    return name in _TYPES or (name[:1].isupper() and not name.isupper())


def _is_for_types(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _compose_import(module: str, names: list[ast.alias], level: int = 0) -> ast.ImportFrom:
    return ast.ImportFrom(module, names, level)
