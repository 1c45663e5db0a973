"""From a file's text to its index: the modules in it, and how each may be built and fed, in the order of trying."""

import ast
from dataclasses import replace
from typing import Final

from fxls.discovery.assignments import Assignment, Assignments
from fxls.discovery.classes import FoundClass, module_classes
from fxls.discovery.directives import Directives, directives_of
from fxls.discovery.factories import factories_of, free_factories
from fxls.discovery.ignores import ignores_of
from fxls.discovery.index import ModelIndex, ordered
from fxls.discovery.names import every_statement, module_level, names_of
from fxls.discovery.sites import Sites, Source, sites_of
from fxls.discovery.syntax import FunctionNode, first_line, name_span, parse, span_of
from fxls.text.scanning import LINE_END
from fxworker.wire import LOCALS, Construct, Problem, TraceTarget

_MOST: Final = 8
"""How many ways to build, and to feed, one target are tried."""


def discover(path: str, text: str) -> ModelIndex:
    """Return the index of a file's text. Never fails: a text that does not parse has an empty index that says so."""
    tree = parse(path, text)
    if isinstance(tree, Problem):
        return ModelIndex(path, parsed=False, syntax_error=tree)
    try:
        return _index(path, text, tree)
    except RecursionError:
        # Nesting beyond the interpreter's limit, such as a sum of thousands of terms: there is no model to see in it.
        return ModelIndex(path)


def with_ignores(index: ModelIndex, text: str) -> ModelIndex:
    """Return an index with the comments of a text that ignore problems; the rest of it is that of the same code."""
    tree = parse(index.path, text)
    return index if isinstance(tree, Problem) else replace(index, ignores=ignores_of(text, tree))


def _index(path: str, text: str, tree: ast.Module) -> ModelIndex:
    lines = LINE_END.split(text)
    names = names_of(tree)
    found = module_classes(tree, names, lines)
    classes = frozenset(each.model.qualname for each in found if each.traceable)
    factories = factories_of(tree, classes)
    local = {
        each.node.lineno: each.model.qualname for each in found if each.traceable and LOCALS in each.model.qualname
    }
    sites = sites_of(Source(path, text, tree, names, local), classes, factories)
    functions = {each.name: each for each in module_level(tree.body) if isinstance(each, FunctionNode)}
    headers = {each.model.header: each.model.qualname for each in found if each.traceable}
    headers |= {first_line(each): name for name, each in functions.items()}
    headers |= {each.name.line: each.qualname for each in sites.instances}
    directives = directives_of(path, lines, tree, headers, classes)
    free = free_factories(path, tree, factories)
    traced = [name for name in functions if name in sites.functions or _directed(name, factories, directives)]
    targets = (
        *(_target(each, sites, directives, free) for each in found if each.traceable),
        *(_instance_target(each, sites, directives) for each in sites.instances),
        *(_function_target(functions[name], lines, sites, directives) for name in traced),
    )
    return ModelIndex(
        path,
        targets=tuple(sorted(targets, key=lambda target: target.name.line)),
        classes=tuple(each.model for each in found),
        variables=tuple(sites.variables),
        assignments=_assignments(tree),
        ignores=ignores_of(text, tree),
        imported=names.all_imported,
    )


def _target(
    found: FoundClass, sites: Sites, directives: Directives, factories: dict[str, list[Construct]]
) -> TraceTarget:
    name = found.model.qualname
    constructs = (*directives.constructs.get(name, ()), *sites.constructs.get(name, ()), *factories.get(name, ()))
    inputs = (*directives.inputs.get(name, ()), *sites.inputs.get(name, ()))
    return TraceTarget(
        qualname=name,
        kind="class",
        name=found.model.name_span,
        constructs=ordered(constructs)[:_MOST],
        inputs=ordered(inputs)[:_MOST],
    )


def _instance_target(target: TraceTarget, sites: Sites, directives: Directives) -> TraceTarget:
    name = target.qualname
    return replace(
        target,
        constructs=ordered((*directives.constructs.get(name, ()), *target.constructs)),
        inputs=ordered((*directives.inputs.get(name, ()), *sites.inputs.get(name, ())))[:_MOST],
    )


def _directed(name: str, factories: dict[str, str], directives: Directives) -> bool:
    """Whether a directive above a function asks for the function itself to be traced."""
    return name not in factories and (name in directives.inputs or name in directives.constructs)


def _function_target(node: FunctionNode, lines: list[str], sites: Sites, directives: Directives) -> TraceTarget:
    return TraceTarget(
        qualname=node.name,
        kind="function",
        name=name_span(node, lines),
        constructs=ordered(directives.constructs.get(node.name, ())),
        inputs=ordered((*directives.inputs.get(node.name, ()), *sites.inputs.get(node.name, ())))[:_MOST],
    )


def _assignments(tree: ast.Module) -> Assignments:
    """Return the statements inside functions whose value may be a tensor, for the hints at their ends."""
    return Assignments(
        Assignment(span_of(node), span_of(node.value))
        for node in every_statement(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return) and node.value is not None
    )
