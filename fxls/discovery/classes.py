"""Which classes of a file are modules, as far as its syntax shows."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from fxls.discovery.index import Function, ModelClass
from fxls.discovery.names import Names, blocks_of, every_statement, module_level, names_of
from fxls.discovery.syntax import FunctionNode, dotted, first_line, function_of, is_main_guard, name_span, span_of
from fxworker.misspelling import meant_as_forward
from fxworker.wire import LOCALS

_NO_FORWARD: Final = frozenset(
    {
        "torch.nn.Module",
        "torch.nn.ModuleList",
        "torch.nn.ModuleDict",
        "torch.nn.ParameterList",
        "torch.nn.ParameterDict",
        "torch.jit.ScriptModule",
    }
)
"""Modules that give their subclasses no forward."""

_NO_MODULES: Final = re.compile(
    r"^(?:torch\.autograd|torch\.utils\.data|torch\.optim|torch\.Tensor|typing|abc|enum|collections|dataclasses|unittest)\b"
    r"|(?:^|\.)(?:Function|Dataset|Optimizer|Scheduler|Config|Exception|Error|Enum|ModelOutput|TestCase)$|^pydantic\b"
)
_LIKE_A_MODULE: Final = re.compile(
    r"(?:Module|Model|Net|Network|Layer|Block|Encoder|Decoder|Backbone|Head|Transformer|Attention|Embeddings?|ViT|Norm)"
    r"(?:V\d+|\d*[dD])?$"
)


@dataclass(frozen=True, slots=True)
class FoundClass:
    """A class of the file with its node. `traceable` says that it is a target of its own, not only a base."""

    model: ModelClass
    node: ast.ClassDef
    traceable: bool


@dataclass(frozen=True, slots=True)
class _Candidate:
    qualname: str
    node: ast.ClassDef
    bases: tuple[str, ...]
    init: Function | None
    forward: Function | None
    abstract: bool


def module_classes(tree: ast.Module, names: Names, lines: list[str]) -> list[FoundClass]:
    """Return the file's classes that are modules, in the order of the text.

    Those in classes have names such as `Outer.Inner`, those in functions and methods `make.<locals>.Net`.
    """
    nodes = dict(_classes(tree.body, ""))
    names = _with_local_imports(names, nodes, tree)
    resolve = partial(_resolved, nodes=nodes, made=_made(tree))
    candidates = {qualname: _candidate(qualname, node, names, lines, resolve) for qualname, node in nodes.items()}
    modules: dict[str, bool] = {}
    for qualname in candidates:
        _judge(qualname, candidates, modules, names)
    parents = {base for qualname, each in candidates.items() if modules[qualname] for base in each.bases}
    found: list[FoundClass] = []
    for qualname, candidate in candidates.items():
        if not modules[qualname]:
            continue
        lineage = list(_lineage(qualname, candidates))
        inherits_forward = any(_gives_forward(base, names) for each in lineage for base in each.bases)
        own = _first(each.forward for each in lineage)
        own = own or _misspelt_forward(lineage, names, tree)
        template = candidate.forward is None and qualname in parents and not _is_torch_nn(candidate, names)
        found.append(
            FoundClass(
                model=_model_class(candidate, lineage, names, lines),
                node=candidate.node,
                traceable=(bool(own) or inherits_forward) and not candidate.abstract and not template,
            )
        )
    return found


def _classes(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield the classes in a body at every depth, each with its qualified name."""
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            qualname = prefix + statement.name
            yield qualname, statement
            yield from _classes(statement.body, qualname + ".")
        elif isinstance(statement, FunctionNode):
            yield from _classes(statement.body, f"{prefix}{statement.name}{LOCALS}")
        else:
            for block in blocks_of(statement):
                yield from _classes(block, prefix)


def _with_local_imports(names: Names, nodes: dict[str, ast.ClassDef], tree: ast.Module) -> Names:
    """Return names with those that functions and the main block import, where a class may need them."""
    if all(LOCALS not in each for each in nodes) and not any(map(is_main_guard, tree.body)):
        return names
    imports = [each for each in every_statement(tree) if isinstance(each, ast.Import | ast.ImportFrom)]
    local = names_of(ast.Module([*imports], []))
    return Names({**local.full, **names.full}, tuple(dict.fromkeys((*names.starred, *local.starred))))


def _made(tree: ast.Module) -> set[str]:
    """Return the names that a file gives to what its calls return: `Base = make_model(Encoder)`."""
    return {
        target.id
        for statement in module_level(tree.body)
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }


def _resolved(base: str, qualname: str, nodes: dict[str, ast.ClassDef], made: set[str]) -> str:
    """Return the qualified name of the class of the file that a base's name means, the name itself for another.

    What a call has made has none, as if the call were the base.
    """
    parts = qualname.split(LOCALS)
    # A function does not see the names of a class around it.
    scopes = [qualname.rpartition(".")[0] + "."]
    scopes += [LOCALS.join(parts[:count]) + LOCALS for count in range(len(parts) - 1, 0, -1)]
    return next((scope + base for scope in scopes if scope + base in nodes), "" if base in made else base)


def _candidate(
    qualname: str, node: ast.ClassDef, names: Names, lines: list[str], resolve: Callable[[str, str], str]
) -> _Candidate:
    init: Function | None = None
    forward: Function | None = None
    abstract = False
    for statement in node.body:
        if not isinstance(statement, ast.FunctionDef):
            continue
        decorators = {names.resolve(each) for each in statement.decorator_list}
        abstract = abstract or bool(decorators & {"abc.abstractmethod", "abstractmethod"})
        if statement.name == "__init__":
            init = function_of(statement, lines, method=True)
        elif statement.name == "forward" and not ("staticmethod" in decorators and _takes_context(statement)):
            forward = function_of(statement, lines, method=True)
            abstract = abstract or _left_to_subclasses(statement)
    written = (dotted(choice) for each in node.bases for choice in _choices(each))
    bases = tuple(resolve(names.own(each), qualname) for each in written)
    return _Candidate(qualname, node, bases, init, forward, abstract)


def _choices(base: ast.expr) -> Iterator[ast.expr]:
    """Yield what a base may be, without parameters: both of `nn.Module if has_torch else object`."""
    match base:
        case ast.IfExp(body=body, orelse=orelse):
            yield from _choices(body)
            yield from _choices(orelse)
        case ast.Subscript(value=value):
            yield value
        case _:
            yield base


def _takes_context(function: ast.FunctionDef) -> bool:
    """Whether a static `forward` is that of an `autograd.Function`, which is handed a context."""
    parameters = [*function.args.posonlyargs, *function.args.args]
    return bool(parameters) and parameters[0].arg in {"ctx", "context", "_ctx"}


def _left_to_subclasses(function: ast.FunctionDef) -> bool:
    """Whether a function does nothing but raise, as one that is only there to be overridden, or never to be called."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return len(body) == 1 and isinstance(body[0], ast.Raise)


def _judge(qualname: str, candidates: dict[str, _Candidate], modules: dict[str, bool], names: Names) -> bool:
    """Return, and note, whether a class of the file is a module."""
    known = modules.get(qualname)
    if known is not None:
        return known
    modules[qualname] = False  # A class that inherits from itself, by a mistake, is none.
    candidate = candidates[qualname]
    verdict = False
    for base in candidate.bases:
        if base in candidates:
            verdict = verdict or _judge(base, candidates, modules, names)
            verdict = verdict or (candidate.forward is not None and _from_elsewhere(base, candidates, names))
            continue
        full = names.expand(base)
        if not base:
            # A call, say: what it is shows when it is executed.
            verdict = verdict or (candidate.forward is not None and names.speak_of_torch)
            continue
        if _NO_MODULES.search(full):
            continue
        looks = candidate.forward is not None or (names.speak_of_torch and bool(_LIKE_A_MODULE.search(full)))
        verdict = verdict or full.startswith("torch.nn.") or (names.may_import(base) and looks)
    modules[qualname] = verdict
    return verdict


def _from_elsewhere(qualname: str, candidates: dict[str, _Candidate], names: Names) -> bool:
    """Whether a class of the file has a base, however far, that another file defines and that may be a module."""
    bases = (base for each in _lineage(qualname, candidates) for base in each.bases if base not in candidates)
    return any(base and names.may_import(base) and not _NO_MODULES.search(names.expand(base)) for base in bases)


def _lineage(qualname: str, candidates: dict[str, _Candidate]) -> Iterator[_Candidate]:
    """Yield a class and its bases in the file, nearest first."""
    waiting, seen = [qualname], set[str]()
    while waiting:
        name = waiting.pop(0)
        if name in seen or name not in candidates:
            continue
        seen.add(name)
        yield candidates[name]
        waiting.extend(candidates[name].bases)


def _gives_forward(base: str, names: Names) -> bool:
    """Whether a base class of another file probably has a forward."""
    full = names.expand(base)
    if not base or full in _NO_FORWARD or _NO_MODULES.search(full):
        return False
    if full.startswith("torch.nn."):
        return True
    return (
        names.imported(base) and bool(_LIKE_A_MODULE.search(full)) and not full.endswith(("PreTrainedModel", "Module"))
    )


def _misspelt_forward(lineage: list[_Candidate], names: Names, tree: ast.Module) -> str:
    """Return the method that is probably meant to be the forward of a class that has none; "" where none is.

    What is called by that name anywhere in the file is meant to be called so.
    """
    bases = {base for each in lineage for base in each.bases} - {each.qualname for each in lineage}
    if any(names.expand(base) not in _NO_FORWARD for base in bases):
        return ""
    name = meant_as_forward(each.name for each in lineage[0].node.body if isinstance(each, ast.FunctionDef))
    is_called = any(isinstance(each, ast.Attribute) and each.attr == name for each in ast.walk(tree)) if name else False
    return "" if is_called else name


def _is_torch_nn(candidate: _Candidate, names: Names) -> bool:
    return any(_gives_forward(base, names) and names.expand(base).startswith("torch.nn.") for base in candidate.bases)


def _model_class(candidate: _Candidate, lineage: list[_Candidate], names: Names, lines: list[str]) -> ModelClass:
    # The constructor of a base in another file is not known: nothing is required then, as far as the file shows.
    init = _first(each.init for each in lineage)
    node = candidate.node
    header = first_line(node)
    span = replace(span_of(node), line=header)
    return ModelClass(
        qualname=candidate.qualname,
        name_span=name_span(node, lines),
        span=span,
        header=header,
        bases=tuple(names.expand(base) for base in candidate.bases),
        init=init,
        forward=_first(each.forward for each in lineage),
    )


def _first(functions: Iterator[Function | None]) -> Function | None:
    return next((each for each in functions if each is not None), None)
