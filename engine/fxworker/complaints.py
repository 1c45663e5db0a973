"""What an exception says about the arguments that led to it: which kind of value it wants, and what would do."""

import argparse
import ast
import builtins
import contextlib
import enum
import inspect
import itertools
import linecache
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import CodeType, FrameType, ModuleType, SimpleNamespace, TracebackType
from typing import Any, Final

from torch import Tensor, nn

from fxengine.classification import moments_of
from fxengine.errors import text_of
from fxengine.syntax import nodes_around
from fxworker.absent import is_stand_in
from fxworker.choices import attribute_of, parameters_of
from fxworker.evidence import Kind, kind_of_attribute
from fxworker.nearby import files_called
from fxworker.patience import OutOfPatience
from fxworker.wording import MOST_VALUES, ONE_NUMBER, WANTED, missing_in, numbers, quoted, said_kind

_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_TEXT: Final = re.compile(r"""["'](\w+)["']""")

_RAISED: Final = (AssertionError, TypeError, ValueError, NotImplementedError)
"""What code raises that does not like the type of a value."""

_NO_ATTRIBUTE: Final = re.compile(r"'(\w+)' object has no attribute '(\w+)'")

_ASSIGNED: Final = re.compile(r"\s*(?:for ([\w., ()]+?) in|([\w., ]+?)\s*[-+*/]?=(?!=))(.*)")
_FURTHEST: Final = 100
"""How many lines above one are read for what its variables were computed from."""

_ASKED_FOR: Final = ("ReLU", "relu", "LSTM", "BatchNorm2d", "Conv2d", "Linear")
"""What modules are mostly asked for by name: `getattr(nn, kind)`."""

_MOST_TESTS: Final = 4
"""How many conditions around what raised are looked at: `elif` is one in another."""

_MOST_RECORDS: Final = 3
"""How many classes are tried for a value that lacks an attribute."""


@dataclass(frozen=True, slots=True)
class Complaint:
    """What an exception says.

    Attributes:
        words: The names in the message, then those in the lines that it came through, innermost first.
        kind: What a value should have been.
        got: The type of the value instead, "" where that is not known.
        lacks: The attributes or keys that a value had not.
        owner: The attributes or keys that it had.
        length: How many items a sequence should have had.
        values: Values that would do, as expressions.
        missing: The arguments that were not given.
        unexpected: The argument that was not wanted.
        callee: The constructor that this is about.
        classes: What a value should have been an instance of.
        within: The classes that were being constructed, innermost first.
        records: Classes whose instances have the attribute that a value had not.
        spread: The names of the mappings whose items were handed on as arguments.
    """

    words: tuple[str, ...] = ()
    kind: Kind | None = None
    got: str = ""
    lacks: str = ""
    owner: frozenset[str] | None = None
    length: int = 0
    values: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unexpected: str = ""
    callee: str = ""
    classes: tuple[type, ...] = ()
    within: tuple[type, ...] = ()
    records: tuple[type, ...] = ()
    spread: tuple[str, ...] = ()


def complaint_of(error: BaseException) -> Complaint:
    """Return what an exception says."""
    # Errors of Python's own say `types.SimpleNamespace`.
    text = text_of(error).replace("'types.", "'")
    moments = list(_moments(error.__traceback__))
    tests = _conditions(error)
    words = tuple(_words(text, moments, tests))
    values = (*quoted(text), *numbers(text), *_compared(moments, tests))
    if isinstance(error, TypeError) and (told := _about_call(text, words)) is not None:
        return replace(told, within=tuple(_constructed(moments)), spread=tuple(_spread(moments)))
    if isinstance(error, RuntimeError | ValueError) and ONE_NUMBER.search(text):
        return Complaint(words, "number", "Tensor", values=values)
    if isinstance(error, OutOfPatience) or "Overflow" in text:
        return Complaint(words, values=("2", "1"))
    if isinstance(error, KeyError | FileNotFoundError) or (isinstance(error, AttributeError) and _lacked(error)[1]):
        return _about_absent(error, words, moments)
    if isinstance(error, NameError) and (names := _evaluated(moments)):
        return Complaint((str(error.name), *words), "string", values=names)
    if classes := _checked(error, tests):
        return Complaint(words, said_kind(text), values=values, classes=classes)
    if isinstance(error, TypeError | ValueError | IndexError):
        told = _about_kind(error, text, words, values, moments)
    else:
        told = Complaint(words, said_kind(text), values=values)
    if missing := missing_in(text):
        within = tuple(_constructed(moments))
        callee = within[0].__name__ if within else ""
        return replace(told, missing=missing, callee=callee, within=within)
    return told


def is_evaluated(error: BaseException) -> bool:
    """Whether an error is that of an expression which the code had as text."""
    return next((frame.f_code.co_filename == "<string>" for _, frame, _ in _moments(error.__traceback__)), False)


def is_raising(error: BaseException) -> bool:
    """Whether an error is that of a line which was to raise another: `raise Error("…")`."""
    return next((line.lstrip().startswith("raise ") for *_, line in _moments(error.__traceback__)), False)


def _evaluated(moments: list[tuple[str, FrameType, str]]) -> tuple[str, ...]:
    """Return what a text may say that was evaluated and names nothing: the modules that stand beside the code."""
    frame = moments[0][1] if moments else None
    if frame is None or frame.f_code.co_filename != "<string>":
        return ()
    own = frame.f_globals.get("__name__")
    classes = [
        name for name, value in frame.f_globals.items() if isinstance(value, type) and issubclass(value, nn.Module)
    ]
    classes.sort(key=lambda name: (frame.f_globals[name].__module__ != own, name))
    return tuple(map(repr, classes))[:MOST_VALUES]


def depth_of(error: BaseException | None) -> int:
    """Return how far an attempt came, as the line of the outermost constructor that raised."""
    traceback = error.__traceback__ if error is not None else None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_name == "__init__":
            return traceback.tb_lineno
        traceback = traceback.tb_next
    return 0


def _moments(traceback: TracebackType | None) -> Iterator[tuple[str, FrameType, str]]:
    """Yield function, frame and source line of what an exception came through, innermost first."""
    found: list[tuple[str, FrameType, str]] = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        line = _whole_line(code.co_filename, traceback.tb_lineno)
        found.append((code.co_name, traceback.tb_frame, line))
        traceback = traceback.tb_next
    yield from reversed(found)


def _whole_line(path: str, line: int) -> str:
    """Return the line of a file, with those after it that its brackets go on in."""
    text = linecache.getline(path, line)
    for following in range(line + 1, line + 8):
        if text.count("(") + text.count("[") <= text.count(")") + text.count("]"):
            break
        text += linecache.getline(path, following)
    return text


def _conditions(error: BaseException) -> list[ast.expr]:
    """Return the conditions under which code raised by itself, innermost first."""
    moments = moments_of(error.__traceback__)
    if not moments or not (moments[-1].opname == "RAISE_VARARGS" or is_raising(error)):
        return []
    around = nodes_around(moments[-1].path, moments[-1].source.span)[::-1]
    return [node.test for node in around if isinstance(node, ast.If | ast.Assert)]


def _words(text: str, moments: list[tuple[str, FrameType, str]], tests: list[ast.expr]) -> Iterator[str]:
    """Yield the names in a message, then those in the lines on the way, then what these were made of."""
    conditions = (word for test in tests for word in _WORD.findall(ast.unparse(test)))
    lines = (word for *_, line in moments for word in _WORD.findall(line))
    sources = (word for name, frame, line in moments if name == "__init__" for word in _sources(frame, line))
    yield from dict.fromkeys([*_WORD.findall(text), *conditions, *lines, *sources])


def _sources(frame: FrameType, line: str) -> list[str]:
    """Return the names that the variables in a line of a constructor were computed from, in the lines above it."""
    path, first = frame.f_code.co_filename, frame.f_code.co_firstlineno
    if line.lstrip().startswith("raise"):
        line += linecache.getline(path, frame.f_lineno - 1)  # The condition.
    wanted, found = set(_WORD.findall(line)), list[str]()
    for number in range(frame.f_lineno - 1, max(first, frame.f_lineno - _FURTHEST), -1):
        assigned = _ASSIGNED.match(linecache.getline(path, number))
        if assigned is not None and not wanted.isdisjoint(_WORD.findall(assigned[1] or assigned[2])):
            words = _WORD.findall(assigned[3])
            found += words
            wanted.update(words)
    return found


def _about_call(text: str, words: tuple[str, ...]) -> Complaint | None:
    """Read a complaint about a call: arguments that it misses, or that it does not know."""
    callee = re.match(r"(?:[\w.<>]*\.)?(\w+)\.__(?:init|new)__\(\)|(\w+)\(\)", text)
    name = (callee[1] or callee[2]) if callee is not None else ""
    if " missing " in text:
        return Complaint(words, missing=tuple(re.findall(r"'(\w+)'", text.partition(" missing ")[2])), callee=name)
    unexpected = re.search(
        r"unexpected keyword argument '(\w+)'|multiple values for (?:keyword )?argument '(\w+)'", text
    )
    if unexpected is not None:
        return Complaint(words, unexpected=unexpected[1] or unexpected[2], callee=name)
    return None


def _constructed(moments: list[tuple[str, FrameType, str]]) -> Iterator[type]:
    """Yield the classes of the objects whose constructors an exception came through."""
    for name, frame, _ in moments:
        if name == "__init__" and "self" in frame.f_locals:
            yield type(frame.f_locals["self"])


def _spread(moments: list[tuple[str, FrameType, str]]) -> Iterator[str]:
    """Yield what the mappings on the way are called that are handed on as in `Net(**options["net"])`."""
    for *_, line in moments:
        for each in re.findall(r"\*\*([\w.\[\]'\"]+)", line):
            yield _WORD.findall(each)[-1] if _WORD.search(each) else ""


def _about_absent(
    error: AttributeError | KeyError | FileNotFoundError,
    words: tuple[str, ...],
    moments: list[tuple[str, FrameType, str]],
) -> Complaint:
    """Read a complaint about something that is not there: an attribute, a key, an argument in `**kwargs`, a file."""
    if isinstance(error, FileNotFoundError):
        name = str(error.filename)
        asking = [each for _, frame, _ in moments for each, value in frame.f_locals.items() if value is error.filename]
        return Complaint((*asking, *words), values=tuple(dict.fromkeys(_files(name, moments)))[:MOST_VALUES])
    if isinstance(error, KeyError):
        tables = [key for _, frame, line in moments for key in _table_keys(frame, line)]
        key = error.args[0] if error.args and isinstance(error.args[0], str) else ""
        if key and (callee := _lacking_keyword(moments, key)):
            return Complaint(words, missing=(key,), callee=callee)
        if error.args == ("",):
            # No table has an entry without a name: the name is what is wrong, and in an empty one any will do.
            own = _keys(moments, "")
            names = tables if own is None else map(repr, sorted(own) or ["default"])
            return Complaint(words, got="str", values=tuple(dict.fromkeys(names))[:MOST_VALUES])
        return Complaint(words, lacks=key, owner=_keys(moments, key), values=tuple(dict.fromkeys(tables))[:MOST_VALUES])
    if isinstance(error.obj, ModuleType):
        return Complaint(words, got="str", values=tuple(_members(error.obj, moments)))
    got, name = _lacked(error)
    if callee := _lacking_attribute(moments, error):
        return Complaint(words, missing=(name,), callee=callee)
    kind, records = kind_of_attribute(name), tuple(_records(moments, name))
    return Complaint(words, kind or "object", got, name, _attributes(error.obj), records=records)


def _about_kind(
    error: BaseException,
    text: str,
    words: tuple[str, ...],
    values: tuple[str, ...],
    moments: list[tuple[str, FrameType, str]],
) -> Complaint:
    """Read a complaint about what a value is, or how long."""
    length = re.search(r"not enough values to unpack \(expected (\d+)|too many values to unpack \(expected (\d+)", text)
    if length is not None:
        return Complaint(words, "sequence", length=int(length[1] or length[2]))
    if isinstance(error, IndexError):
        return Complaint(words, "sequence", "sequence", length=-1)
    if isinstance(error, TypeError) and "not subscriptable" in text:
        got = re.search(r"'(\w+)' object is not subscriptable", text)
        line = moments[0][2] if moments else ""
        keys = re.findall(r"""\[["'](\w+)["']\]""", line)
        kind: Kind = "mapping" if keys else "sequence"
        return Complaint(words, kind, got[1] if got is not None else "", lacks=keys[0] if keys else "")
    indexed = re.search(r"(list|tuple|string) indices must be integers", text)
    if isinstance(error, TypeError) and indexed is not None:
        return Complaint(words, "mapping", {"string": "str"}.get(indexed[1], indexed[1]))
    for pattern, kind in WANTED if isinstance(error, TypeError) else ():
        found = re.search(pattern, text)
        if found is not None:
            return Complaint(words, kind, next((each for each in found.groups() if each), ""), values=values)
    return Complaint(words, said_kind(text), values=values)


def _compared(moments: list[tuple[str, FrameType, str]], tests: list[ast.expr]) -> list[str]:
    """Return the constants that the innermost line compares something with, which did not fit, or that of a raise."""
    if not moments:
        return []
    condition = re.sub(r"^(?:el)?if |^assert |:\s*(?:#.*)?$", "", moments[0][2].strip())
    trees: list[ast.AST] = [*tests[:_MOST_TESTS]]
    with contextlib.suppress(SyntaxError, ValueError):
        trees.append(ast.parse(condition))
    found: list[str] = []
    for node in (each for tree in trees for each in ast.walk(tree)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            found += ["64", "4", "1", "8", "7"]
        elif isinstance(node, ast.Compare) and isinstance(
            _subject(node.left), ast.Name | ast.Attribute | ast.Subscript
        ):
            for each in node.comparators:
                items = each.elts if isinstance(each, ast.Tuple | ast.List | ast.Set) else [each]
                found += [text for item in items if (text := _constant(item, moments[0][1]))]
    return list(dict.fromkeys(found))[:MOST_VALUES]


def _constant(node: ast.expr, frame: FrameType) -> str:
    """Return the constant, or the class of torch's, that an expression is or names, "" for another expression."""
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(node, ast.Name):
        value = frame.f_globals.get(node.id)
    if isinstance(node, ast.Attribute) and vars(nn).get(node.attr) is not None:
        owner = ast.unparse(node.value).rpartition(".")[2]
        return f"torch.nn.{node.attr}" if frame.f_globals.get(owner) is nn or owner == "nn" else ""
    return repr(value) if isinstance(value, str | bytes | int | float) else ""


def _subject(node: ast.expr) -> ast.expr:
    """Return what a comparison is about: `mode` in `mode.lower() == "linear"`."""
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args
    return node.func if is_method and isinstance(node, ast.Call) else node


def _checked(error: BaseException, tests: list[ast.expr]) -> tuple[type, ...]:
    """Return the classes that code which raised by itself compares values with, in the conditions it raised under."""
    moments = moments_of(error.__traceback__) if isinstance(error, _RAISED) and tests else []
    if not moments or moments[-1].opname != "RAISE_VARARGS":
        return ()
    found: list[type] = []
    for call in (node for test in tests for node in ast.walk(test)):
        match call:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, ast.Tuple(elts=kinds)]):
                found += _classes(kinds, moments[-1].frame)
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kind]):
                found += _classes([kind], moments[-1].frame)
            case _:
                pass
    return tuple(dict.fromkeys(found))[:MOST_VALUES]


def _classes(names: Iterable[ast.expr], frame: FrameType) -> Iterator[type]:
    """Yield the classes that names, and alternatives of names, stand for in a frame."""
    for node in names:
        if isinstance(node, ast.BinOp):
            yield from _classes((node.left, node.right), frame)
            continue
        first, *rest = ast.unparse(node).split(".")
        value = frame.f_locals.get(first, frame.f_globals.get(first, getattr(builtins, first, None)))
        for each in rest:
            value = attribute_of(value, each)
        if isinstance(value, type):
            yield value


def _records(moments: list[tuple[str, FrameType, str]], name: str) -> Iterator[type]:
    """Yield the classes with an attribute that the code on the way names, or that stand beside it or what it names."""
    frames = [frame for _, frame, _ in moments if frame.f_code.co_filename != "<inferred>"]
    named = [frame.f_globals.get(each) for frame in frames for each in _names_in(frame.f_code)]
    modules = dict.fromkeys(str(attribute_of(each, "__module__")) for each in named)
    beside = [vars(sys.modules[each]) for each in modules if each in sys.modules and _is_project(each)]
    found = dict.fromkeys(_having(name, named))
    for scope in (*(frame.f_globals for frame in frames), *beside):
        found |= dict.fromkeys(sorted(_having(name, scope.values()), key=lambda each: each.__qualname__))
    yield from list(found)[:_MOST_RECORDS]


def _is_project(module: str) -> bool:
    """Whether a module is neither Python's nor torch's, nor ours."""
    top = module.partition(".")[0]
    return top not in sys.stdlib_module_names and top not in {"torch", "fxworker", "fxengine"}


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield the names that a function and those inside it look up."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names_in(each)


def _having(name: str, values: Iterable[Any]) -> Iterator[type]:
    """Yield the classes among values that hold data, an attribute of this name with it."""
    for each in values:
        if not isinstance(each, type) or not _is_project(each.__module__) or is_stand_in(each):
            continue
        own = [vars(one) for one in each.__mro__ if one.__module__ not in {"builtins", "typing"}]
        has = any(name in one or name in one.get("__annotations__", ()) for one in own) or name in parameters_of(each)
        if has and not issubclass(each, nn.Module | Tensor | BaseException | enum.Enum):
            yield each


def _table_keys(frame: FrameType, line: str) -> list[str]:
    """Return the keys of the dictionaries that a line looks something up in."""
    found: list[str] = []
    for name in dict.fromkeys(_WORD.findall(line)):
        table = frame.f_locals.get(name, frame.f_globals.get(name))
        if isinstance(table, Mapping) and 0 < len(table) < 100:
            found += [repr(each) for each in table if isinstance(each, str | int)]
    return found[:MOST_VALUES]


def _keys(moments: list[tuple[str, FrameType, str]], key: str) -> frozenset[str] | None:
    """Return the keys of the mapping that a line asked for this key, None where there is none."""
    for _, frame, line in moments:
        for node in _expressions(line):
            table = _looked_up(node, frame)
            if type(table) is dict and key not in table:
                return frozenset(each for each in table if isinstance(each, str))
    return None


def _expressions(line: str) -> Iterator[ast.expr]:
    """Yield the expressions in a line, then its words, which may be no whole statement."""
    with contextlib.suppress(SyntaxError, ValueError):
        yield from (each for each in ast.walk(ast.parse(line.strip())) if isinstance(each, ast.expr))
    yield from map(ast.Name, dict.fromkeys(_WORD.findall(line)))


def _looked_up(node: ast.expr, frame: FrameType) -> Any:
    """Return what an expression of names, attributes and items stands for, None where that is not known."""
    match node:
        case ast.Name(id=name):
            return frame.f_locals.get(name)
        case ast.Attribute(value=value, attr=name):
            owner = _looked_up(value, frame)
            return vars(owner).get(name) if isinstance(owner, SimpleNamespace | nn.Module) else None
        case ast.Subscript(value=value, slice=index):
            table = _looked_up(value, frame)
            key = index.value if isinstance(index, ast.Constant) else _looked_up(index, frame)
            return table.get(key) if type(table) is dict and isinstance(key, str) else None
        case _:
            return None


def _lacking_attribute(moments: list[tuple[str, FrameType, str]], error: AttributeError) -> str:
    """Return the class whose constructor looks for an attribute in itself, and may make some of `**kwargs`; else ""."""
    for name, frame, _ in moments:
        owner = frame.f_locals.get("self")
        if name != "__init__" or not frame.f_code.co_flags & inspect.CO_VARKEYWORDS or error.obj is None:
            continue
        if error.obj is owner or (isinstance(error.obj, dict) and _is_what_was_given(error.obj, frame)):
            return type(owner).__name__
    return ""


def _is_what_was_given(table: dict[Any, Any], frame: FrameType) -> bool:
    """Whether a mapping has what a constructor was called with, and nothing else."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    rest = frame.f_locals.get(code.co_varnames[count + bool(code.co_flags & inspect.CO_VARARGS)])
    names = {*code.co_varnames[1:count], *(rest if isinstance(rest, dict) else ())}
    return table.keys() <= names


def _lacked(error: AttributeError) -> tuple[str, str]:
    """Return the type of what lacks an attribute, and its name; "" where the error does not say."""
    if isinstance(error.name, str):
        return type(error.obj).__name__, error.name
    # Where one is set, the text alone says it.
    told = _NO_ATTRIBUTE.match(text_of(error))
    return (told[1], told[2]) if told is not None else ("", "")


def _lacking_keyword(moments: list[tuple[str, FrameType, str]], key: str) -> str:
    """Return what was called, by the name of its class, if the key was looked for in its `**kwargs`; else ""."""
    name, frame, line = moments[0]
    code = frame.f_code
    if not code.co_flags & inspect.CO_VARKEYWORDS:
        return ""
    at = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)
    table = frame.f_locals.get(code.co_varnames[at])
    if type(table) is not dict or key in table or not re.search(rf"\b{code.co_varnames[at]}\s*[.\[]", line):
        return ""
    return type(frame.f_locals["self"]).__name__ if name == "__init__" and "self" in frame.f_locals else name


def _members(module: ModuleType, moments: list[tuple[str, FrameType, str]]) -> Iterator[str]:
    """Yield the names of members of a module that the code has as text which asks for one by its name."""
    texts = [_text_of(each) for each in _constructed(moments)]
    elsewhere = "".join(linecache.getlines(moments[0][1].f_code.co_filename)) if moments else ""
    said = [*re.findall(_TEXT, "".join(texts)), *_ASKED_FOR, *sorted(re.findall(_TEXT, elsewhere))]
    members = (each for each in dict.fromkeys(said) if callable(vars(module).get(each)))
    yield from map(repr, itertools.islice(members, MOST_VALUES))


def _text_of(cls: type) -> str:
    """Return the text of a class, "" where it is not to be had."""
    try:
        return inspect.getsource(cls)
    except (OSError, TypeError, IndentationError, SyntaxError):
        return ""


def _files(name: str, moments: list[tuple[str, FrameType, str]]) -> Iterator[str]:
    """Yield the paths of files of this name in the projects of the code on the way."""
    paths = dict.fromkeys(os.path.dirname(frame.f_code.co_filename) for _, frame, _ in moments)
    for folder in paths:
        if os.path.isdir(folder) and "site-packages" not in folder and not folder.startswith(sys.prefix):
            yield from map(repr, files_called(name, os.path.join(folder, "_")))


def _attributes(value: Any) -> frozenset[str] | None:
    """Return the attributes that a namespace has, or a mapping that gives its items as such; None for another value."""
    if isinstance(value, dict):
        return frozenset(each for each in value if isinstance(each, str))
    return frozenset(vars(value)) if isinstance(value, SimpleNamespace | argparse.Namespace) else None
