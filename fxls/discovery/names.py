"""What the names of a file stand for, as far as its imports and aliases say: `nn.Module` is `torch.nn.Module`."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fxls.discovery.syntax import dotted, is_main_guard

_STARRED: Final = {"torch.nn": "torch.nn", "torch": "torch"}

_USUAL: Final = {"nn": "torch.nn"}
"""What a name means that a file imports nowhere: the import was forgotten."""

_TORCH_LIBRARIES: Final = frozenset({
    "torch", "torchvision", "torchaudio", "timm", "transformers", "diffusers", "lightning", "pytorch_lightning",
    "kornia", "monai", "open_clip", "segmentation_models_pytorch", "speechbrain", "vit_pytorch", "torch_geometric",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Names:
    """The module-level names of a file that imports and plain aliases bind, with their full dotted names.

    `starred` are the modules that `from … import *` was used on. A name that stands for the file's own module, as in
    `library = sys.modules[__name__]`, has an empty one.
    """

    full: dict[str, str]
    starred: tuple[str, ...]

    def own(self, name: str) -> str:
        """Return a dotted name without a name of the file's own module before it."""
        head, _, rest = name.partition(".")
        return rest if rest and self.full.get(head) == "" else name

    def resolve(self, node: ast.expr) -> str:
        """Return the full dotted name that an expression such as `nn.Module` means, "" where it is no name."""
        return self.expand(dotted(node))

    def expand(self, name: str) -> str:
        """Return the full name of a dotted name; one that nothing binds stands for itself, or what it usually means."""
        head, dot, rest = self.own(name).partition(".")
        full = self.full.get(head)
        if full is None and dot and head in _USUAL:
            return f"{_USUAL[head]}{dot}{rest}"
        if full is None and not dot and head[:1].isupper() and "torch.nn" in self.starred:
            return f"torch.nn.{head}"
        return f"{head if full is None else full}{dot}{rest}"

    @property
    def speak_of_torch(self) -> bool:
        """Whether the file imports from torch, from a sibling module, or from a library built on torch."""
        roots = {full.partition(".")[0] for full in self.all_imported}
        return bool(roots & _TORCH_LIBRARIES)

    @property
    def all_imported(self) -> frozenset[str]:
        """The full names of what the file imports, and of what it gives another name."""
        return frozenset((*self.full.values(), *self.starred))

    def may_import(self, name: str) -> bool:
        """Whether a dotted name is, or may be, something that the file imports."""
        return self.imported(name) or bool(self.starred)

    def imported(self, name: str) -> bool:
        """Whether a dotted name begins with something that the file imports."""
        return name.partition(".")[0] in self.full


def names_of(tree: ast.Module) -> Names:
    """Return what the imports and aliases at a file's module level bind, in all their branches."""
    full: dict[str, str] = {}
    starred: list[str] = []
    names = Names(full, ())
    for statement in module_level(tree.body):
        match statement:
            case ast.Import():
                for alias in statement.names:
                    full[alias.asname or alias.name.partition(".")[0]] = imported_name(statement, alias)
            case ast.ImportFrom():
                module = "." * statement.level + (statement.module or "")
                for alias in statement.names:
                    if alias.name == "*":
                        starred.append(_STARRED.get(module, module))
                    else:
                        full[alias.asname or alias.name] = imported_name(statement, alias)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                meant = _meant(value, names)
                if meant is not None:
                    full[name] = meant
            case _:
                pass
    return Names(full, tuple(starred))


def _meant(value: ast.expr, names: Names) -> str | None:
    """Return the full name of what a value is that gets another name, None for one that is made there."""
    match value:
        case ast.Name() | ast.Attribute():
            return (names.resolve(value) or None) if names.imported(dotted(value)) else None
        case ast.Subscript(value=ast.Attribute(attr="modules"), slice=ast.Name(id="__name__")):
            return ""
        case ast.Call(func=function, args=[ast.Constant(value=str(module)), *_]) if "import" in dotted(function):
            # `nn = try_import("torch.nn")`
            return module
        case _:
            return None


def imported_name(statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    """Return what a name means that an import binds: `timm.layers.Mlp`, after dots if it is looked for nearby."""
    if isinstance(statement, ast.Import):
        return alias.name if alias.asname else alias.name.partition(".")[0]
    return f"{'.' * statement.level}{f'{statement.module}.' if statement.module else ''}{alias.name}"


def defined_by(tree: ast.Module) -> frozenset[str]:
    """Return the names of the functions, classes and variables that a file makes at its module level."""
    found = set[str]()
    for statement in module_level(tree.body):
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(statement.name)
        elif isinstance(statement, ast.Assign):
            found.update(each.id for each in statement.targets if isinstance(each, ast.Name))
    return frozenset(found)


def module_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run when the module is imported, those inside `if`, `try` and `with` included."""
    for statement in body:
        yield statement
        if is_main_guard(statement):
            continue
        for inner in blocks_of(statement):
            yield from module_level(inner)


def every_statement(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements of a file at every depth; much less work than a walk over all nodes."""
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        statement = waiting.pop()
        yield statement
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            waiting.extend(statement.body)
        else:
            for block in blocks_of(statement):
                waiting.extend(block)


def blocks_of(statement: ast.stmt) -> list[list[ast.stmt]]:
    """Return the nested blocks of a statement that run in its own scope."""
    match statement:
        case ast.If() | ast.For() | ast.AsyncFor() | ast.While():
            return [statement.body, statement.orelse]
        case ast.With() | ast.AsyncWith():
            return [statement.body]
        case ast.Try() | ast.TryStar():
            return [
                statement.body,
                *(handler.body for handler in statement.handlers),
                statement.orelse,
                statement.finalbody,
            ]
        case ast.Match():
            return [case.body for case in statement.cases]
        case _:
            return []
