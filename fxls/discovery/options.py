"""What a project's command lines and configurations say about values: `parser.add_argument("--width", default=64)`.

A constructor that reads `args.width` is given by the project what its scripts say about `width`. Nothing is executed:
what counts are literals, of options on command lines, of classes and tables that are called configurations, and of
assignments to what is called one.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Final

from fxls.discovery.closing import is_literal
from fxls.discovery.names import every_statement
from fxls.discovery.syntax import FunctionNode, dotted, items_of, span_of
from fxworker.wire import Location, Setting

_SPEAKING: Final = re.compile(
    r"\badd_argument\(|\.option\(|\bset_defaults\(|\bclass \w*(?:Config|Args|Params|Options|Settings)\w*\b"
    r"|^[ \t]*\w*(?:config|cfg|args|opts?|params|_C)\b[\w.\[\]'\"]*[ \t]*=",
    re.MULTILINE | re.IGNORECASE,
)
_CONFIGURATION: Final = re.compile(
    r"\w*config(uration)?s?|\w*cfgs?|confs?|\w*args|arguments|\w*params|\w*parameters|\w*options?|opts?|\w*settings|hps|_+c",
    re.IGNORECASE,
)
_RECORD: Final = re.compile(r"\w*(Namespace|[dD]ict|ConfigDict|Config|Args|H?Params|CN|CfgNode|Munch|Box|create)")
"""What is called that makes a configuration of its keywords, or of a mapping."""

_CONVERTED: Final = frozenset({"int", "float"})
_OPTION: Final = frozenset({"add_argument", "add_option", "option", "Option"})
_FIELD: Final = frozenset({"field", "Field", "ib", "attrib"})
_DEEPEST: Final = 4
"""How many sections may be inside each other."""

_FEWEST: Final = 2
"""How many names another file must know that a text reads."""
_MOST_FILES: Final = 3
_MOST: Final = 120
"""How many files are told of, and how many values of each."""


def speaks_of_options(text: str) -> bool:
    """Whether a file looks as if it said something about options."""
    return _SPEAKING.search(text) is not None


def settings_in(path: str, tree: ast.Module) -> list[Setting]:
    """Return the values that a file gives to options, in its order; of equal names the last one counts."""
    found: dict[str, Setting] = {}
    for name, value in _Reader().read(tree):
        last = name.rpartition(".")[2]
        if last.isidentifier():
            found.pop(name, None)
            found[name] = Setting(name, ast.unparse(value), Location(path, span_of(value)))
    return list(found.values())


class _Reader:
    """Reads one file. Mutable: it keeps which names stand for sections of a configuration."""

    def __init__(self) -> None:
        self._sections: dict[str, str] = {}

    def read(self, tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
        """Yield the names of options and their values."""
        for statement in sorted(every_statement(tree), key=lambda each: each.lineno):
            match statement:
                case ast.ClassDef() if _CONFIGURATION.fullmatch(statement.name):
                    yield from _fields(statement)
                case ast.Assign():
                    yield from self._assigned(statement.targets, statement.value)
                case ast.AnnAssign(value=ast.expr() as value):
                    yield from self._assigned([statement.target], value)
                case _:
                    pass
            for call in _calls(statement):
                yield from _option(call)
            for each in getattr(statement, "decorator_list", ()):
                yield from _option(each) if isinstance(each, ast.Call) else ()

    def _assigned(self, targets: list[ast.expr], value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
        """Yield what an assignment gives to a configuration, or to a part of one."""
        places = [place for place in map(self._place, targets) if place is not None]
        section = self._place(value)
        for place in places or ([section] if section else []):
            yield from _flattened(place, value)
            # `model = config.model = ConfigDict()` gives the section a name, as does `model = config.model`.
            for target in targets if place else ():
                if isinstance(target, ast.Name):
                    self._sections[target.id] = place

    def _place(self, target: ast.expr) -> str | None:
        """Return where in a configuration something is: `model.width` for `config.model.width`, else None."""
        match target:
            case ast.Name(id=name):
                return self._sections.get(name, "" if _CONFIGURATION.fullmatch(name) else None)
            case ast.Attribute(value=value, attr=name):
                around = self._place(value)
                # `self.config.width` is one, too.
                is_own = isinstance(value, ast.Name) and value.id == "self"
                if is_own:
                    return "" if _CONFIGURATION.fullmatch(name) else None
                return None if around is None else _joined(around, name)
            case ast.Subscript(value=value, slice=ast.Constant(str(name))):
                around = self._place(value)
                return None if around is None else _joined(around, name)
            case _:
                return None


def _option(call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """Yield what a call says that declares an option, or sets several."""
    called = dotted(call.func).rpartition(".")[2]
    keywords = {each.arg: each.value for each in call.keywords if each.arg is not None}
    if called == "set_defaults":
        yield from ((name, value) for name, value in keywords.items() if is_literal(value))
    if called not in _OPTION:
        return
    flags = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    match keywords.get("dest"):
        case ast.Constant(str(name)):
            pass
        case _:
            # Of several the first long one counts; click takes one without dashes as the name.
            plain = [each for each in flags if not each.startswith("-")]
            name = next(iter((*plain, *(each for each in flags if each.startswith("--")), *flags)), "")
    value = _default(keywords)
    if value is not None:
        yield name.partition("/")[0].lstrip("-").replace("-", "_"), value


def _default(keywords: dict[str, ast.expr]) -> ast.expr | None:
    """Return the value that an option has if nobody gives it one, or the first that it may have."""
    default, kind = keywords.get("default"), keywords.get("type")
    if isinstance(default, ast.Constant) and isinstance(default.value, str) and isinstance(kind, ast.Name):
        try:
            number = {"int": int, "float": float}[kind.id](default.value) if kind.id in _CONVERTED else None
        except ValueError:
            number = None
        default = default if number is None else ast.copy_location(ast.Constant(number), default)
    if default is not None:
        return default if is_literal(default) and not _is_none(default) else None
    match keywords.get("action"), keywords.get("choices"), keywords.get("is_flag"):
        case ast.Constant("store_true" | "store_false" as action) as node, _, _:
            return ast.copy_location(ast.Constant(action == "store_false"), node)
        case _, ast.List(elts=[first, *_]) | ast.Tuple(elts=[first, *_]), _ if is_literal(first):
            return first
        case _, _, ast.Constant(True) as node:
            return ast.copy_location(ast.Constant(value=False), node)
        case _:
            return None


def _fields(cls: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    """Yield the values that a class which is called a configuration gives to its fields."""
    for statement in cls.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                yield from _flattened(f"{cls.name}.{name}", _of_field(value))
            case ast.FunctionDef(name="__init__", args=arguments):
                positional = [*arguments.posonlyargs, *arguments.args]
                pairs = [*zip(positional[::-1], arguments.defaults[::-1], strict=False)]
                pairs += [*zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
                for argument, default in pairs:
                    if default is not None:
                        yield from _flattened(f"{cls.name}.{argument.arg}", default)
                for inner in every_statement(ast.Module(statement.body, [])):
                    match inner:
                        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value) if (
                            is_literal(value)
                        ):
                            yield from _flattened(f"{cls.name}.{name}", value)
                        case _:
                            pass
            case _:
                pass


def _of_field(value: ast.expr) -> ast.expr:
    """Return the default of `field(default=3)`, `field(default_factory=lambda: [3])` or `Field(3)`."""
    if not isinstance(value, ast.Call) or dotted(value.func).rpartition(".")[2] not in _FIELD:
        return value
    keywords = {each.arg: each.value for each in value.keywords}
    match keywords.get("default_factory"):
        case ast.Lambda(body=body):
            return body
        case _:
            return keywords.get("default", value.args[0] if value.args else value)


def _flattened(place: str, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Yield what a value says about a place, one by one for the entries of a mapping or a record."""
    if place.count(".") > _DEEPEST:
        return
    for name, inner in _entries(value).items():
        yield from _flattened(_joined(place, name), inner)
    if place and is_literal(value) and not isinstance(value, ast.Dict) and not _is_none(value):
        yield place, value


def _entries(value: ast.expr) -> dict[str, ast.expr]:
    """Return the entries of a mapping that is written out, or of a record that is made of keywords or a mapping."""
    match value:
        case ast.Dict(keys=keys, values=values):
            named = zip(keys, values, strict=True)
            return {key.value: each for key, each in named if isinstance(key, ast.Constant) and type(key.value) is str}
        case ast.Call(func=function, args=args) if _RECORD.fullmatch(dotted(function).rpartition(".")[2]):
            inner = _entries(args[0]) if args and isinstance(args[0], ast.Dict | ast.Call) else {}
            return {**inner, **{each.arg: each.value for each in value.keywords if each.arg is not None}}
        case ast.Call():
            return items_of(value)
        case _:
            return {}


def _calls(statement: ast.stmt) -> Iterator[ast.Call]:
    """Yield the calls in a statement's own expressions that may declare options."""
    if isinstance(statement, FunctionNode | ast.ClassDef):
        return
    waiting = list(ast.iter_child_nodes(statement))
    for node in waiting:
        if isinstance(node, ast.Call):
            yield node
            # `parser.add_argument("--a").add_argument("--b")`.
            waiting.append(node.func.value if isinstance(node.func, ast.Attribute) else node.func)


def _joined(around: str, name: str) -> str:
    return f"{around}.{name}" if around else name


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def best_first(text: str, files: Iterable[tuple[str, list[Setting]]], near: str) -> list[Setting]:
    """Return the settings of the files that say most about what a text reads, those of the best file first.

    Args:
        text: The text.
        files: Files with what they say.
        near: The path of the text's own file, which counts before others.
    """
    words = frozenset(re.findall(r"[A-Za-z_]\w*", text))
    ranked: list[tuple[int, int, str, list[Setting]]] = []
    for path, settings in files:
        known = {each.name.rpartition(".")[2] for each in settings} & words
        if len(known) >= (1 if path == near else _FEWEST):
            # What nothing reads is of no use.
            read = [each for each in settings if each.name.rpartition(".")[2] in words]
            ranked.append((-len(known), path != near, path, read))
    found: list[Setting] = []
    for *_, settings in sorted(ranked, key=lambda each: each[:3])[:_MOST_FILES]:
        found += settings[:_MOST]
    return found
