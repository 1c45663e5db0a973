"""What the frames of an exception tell about something that was not there: an attribute, a key, an argument, a file.

Which classes have it, what the table has instead, who was asked for it. What the message says is read elsewhere.
"""

import argparse
import ast
import contextlib
import enum
import inspect
import itertools
import linecache
import operator
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import CodeType, FrameType, FunctionType, ModuleType, SimpleNamespace
from typing import Any, Final, TypeAlias

from torch import Tensor, nn

from fxengine.classification import moments_of
from fxengine.errors import text_of
from fxengine.source import is_user_file
from fxengine.syntax import definition_of, nodes_around
from fxworker.absent import is_stand_in
from fxworker.callers import EXPRESSION
from fxworker.choices import attribute_of, parameters_of
from fxworker.conventions import FILE, holds_configuration, usual_values
from fxworker.evidence import Called
from fxworker.having import is_assigned
from fxworker.nearby import configurations, files_called
from fxworker.packages import key_written, member_named
from fxworker.surroundings import constructor_of, listed, tree_of
from fxworker.wording import MOST_VALUES

Moments: TypeAlias = list[tuple[str, FrameType, str]]
"""Function, frame and source line of what an exception came through, innermost first."""

WORD: Final = re.compile(r"[A-Za-z_]\w*")

_TEXT: Final = re.compile(r"""["'](\w+)["']""")

_NO_ATTRIBUTE: Final = re.compile(r"'(\w+)' object has no attribute '(\w+)'")

_ASKED_FOR: Final = ("ReLU", "relu", "LSTM", "BatchNorm2d", "Conv2d", "Linear")
"""What modules are mostly asked for by name: `getattr(nn, kind)`."""

_MANY: Final = 100
"""How many keys are a registry's."""

_MOST_KEYS: Final = 10_000

_MOST_RECORDS: Final = 3
"""How many classes are tried for a value that lacks an attribute."""

_DEEPEST: Final = 4
"""How deep something is looked for in what was given."""

_MOST_ITEMS: Final = 8
"""How many items of a list are looked at."""

_LISTING: Final = (dict, list, tuple, set, frozenset)
"""What a value may be looked for in."""


_OPERATIONS: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
"""What is computed again to know what was compared."""


def constructed(moments: Moments) -> Iterator[type]:
    """Yield the classes of the objects whose constructors an exception came through."""
    for name, frame, _ in moments:
        if name == "__init__" and "self" in frame.f_locals:
            yield type(frame.f_locals["self"])


def records_with(moments: Moments, name: str) -> Iterator[type]:
    """Yield the classes with an attribute that the code on the way names, or that stand beside it or what it names."""
    frames = [frame for _, frame, _ in moments if frame.f_code.co_filename != "<inferred>"]
    named = [frame.f_globals.get(each) for frame in frames for each in _names_in(frame.f_code)]
    modules = dict.fromkeys(str(attribute_of(each, "__module__")) for each in named)
    beside = [vars(sys.modules[each]) for each in modules if each in sys.modules and _is_project(each)]
    found = dict.fromkeys(_having(name, named))
    for scope in (*(frame.f_globals for frame in frames), *beside):
        found |= dict.fromkeys(sorted(_having(name, scope.values()), key=lambda each: each.__qualname__))
    yield from list(found)[:_MOST_RECORDS]


def registered(moments: Moments) -> list[str]:
    """Return the names of what a registry has whose method raised: of its tables of classes and functions."""
    found: list[str] = []
    for _, frame, _ in moments[:1]:
        owner = frame.f_locals.get("self")
        for table in vars(owner).values() if hasattr(owner, "__dict__") else ():
            # What is imported late has no entry yet.
            kinds = [each for each in table.values() if each is not None] if type(table) is dict else []
            if kinds and all(isinstance(each, type | FunctionType) for each in kinds):
                found += [repr(each) for each in table if isinstance(each, str)]
    return found


def listed_in(node: ast.expr, frame: FrameType) -> list[str]:
    """Return the texts that a list or table has which an expression names."""
    node = listed(node)
    first, *rest = ast.unparse(node).split(".") if isinstance(node, ast.Name | ast.Attribute) else [""]
    value = frame.f_locals.get(first, frame.f_globals.get(first))
    for each in rest:
        value = attribute_of(value, each)
    return [key for each in value if (key := key_written(each))] if isinstance(value, _LISTING) else []


def keys_of_tables(frame: FrameType, line: str) -> list[str]:
    """Return the keys of the dictionaries that a line looks something up in."""
    found: list[str] = []
    for name in dict.fromkeys(WORD.findall(line)):
        table = frame.f_locals.get(name, frame.f_globals.get(name))
        if isinstance(table, Mapping) and 0 < len(table) < _MOST_KEYS:
            plain = [each for each in table if isinstance(each, str | int) and not isinstance(each, enum.Enum)]
            found += map(repr, _likeliest(plain))
            found += filter(None, (member_named(each) for each in table if isinstance(each, enum.Enum)))
    return found[:MOST_VALUES]


def _likeliest(keys: list[str | int]) -> list[str | int]:
    """Return the keys of a table, those of a large one with what models are usually called, then with short names."""
    if len(keys) < _MANY:
        return keys
    usual = usual_values("model_name")
    return sorted(keys, key=lambda each: (repr(each) not in usual, len(str(each)), str(each)))


def keys_of_table(error: KeyError, moments: Moments) -> frozenset[str] | None:
    """Return the keys of the mapping that was asked for a key which it has not, None where there is none."""
    table = table_asked(error, moments)
    return None if table is None else frozenset(each for each in table if isinstance(each, str))


def table_asked(error: KeyError, moments: Moments) -> dict[Any, Any] | None:
    """Return the mapping that was asked for a key which it has not: the one in what raised, or on the lines on the way.

    It is None where there is none.
    """
    key = error.args[0] if error.args else None
    places = moments_of(error.__traceback__)[-1:]
    asking = [(node, each.frame) for each in places for node in nodes_around(each.path, each.source.span)[-1:]]
    nodes = [(node.value, frame) for node, frame in asking if isinstance(node, ast.Subscript)]
    lines = ((node, frame) for _, frame, line in moments for node in _expressions(line))
    for node, frame in itertools.chain(nodes, lines) if isinstance(key, str) else ():
        table = value_in(node, frame)
        if type(table) is dict and key not in table:
            return table
    return None


def read_by(moments: Moments, value: Any) -> tuple[type, str] | None:
    """Return the class whose constructor was given a value, the innermost one, and as which parameter; else None."""
    for name, frame, _ in moments:
        owner = frame.f_locals.get("self")
        as_parameter = next((each for each in _parameters_in(frame) if frame.f_locals.get(each) is value), None)
        if name == "__init__" and as_parameter is not None:
            for cls in type(owner).__mro__:
                if attribute_of(vars(cls).get("__init__"), "__code__") is frame.f_code:
                    return cls, as_parameter
    return None


def place_of(moments: Moments, value: Any) -> str:
    """Return where among the arguments of the outermost call a value is, as a path; "" where it is not there."""
    frames = [frame for _, frame, _ in moments]
    inferred = [at for at, frame in enumerate(frames) if frame.f_code.co_filename == EXPRESSION]
    outermost = frames[inferred[0] - 1] if inferred and inferred[0] > 0 else None
    for name, each in _given_to(outermost) if outermost is not None else ():
        found = _path_to(value, each, _DEEPEST)
        if found is not None:
            return ".".join((name, *found))
    return ""


def _given_to(frame: FrameType) -> Iterator[tuple[str, Any]]:
    """Yield the arguments of what a frame runs, those in its `**kwargs` among them."""
    yield from ((name, frame.f_locals.get(name)) for name in _parameters_in(frame))
    _, rest = _keywords(frame)
    yield from rest.items() if type(rest) is dict else ()


def _parameters_in(frame: FrameType) -> tuple[str, ...]:
    """Return the names of the parameters of what a frame runs, without `self`."""
    code = frame.f_code
    return tuple(each for each in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if each != "self")


def _path_to(value: Any, around: Any, depth: int) -> tuple[str, ...] | None:
    """Return the names that lead from one value to another that it holds, None where none do."""
    if around is value:
        return ()
    for name, each in _parts_of(around) if depth else ():
        found = _path_to(value, each, depth - 1) if isinstance(name, str) else None
        if found is not None:
            return (name, *found)
    return None


def _parts_of(around: Any) -> Iterable[tuple[Any, Any]]:
    """Return what a mapping, an object or a list has, by what it is called in a choice of arguments."""
    if isinstance(around, list | tuple):
        return ((str(at), each) for at, each in enumerate(around[:_MOST_ITEMS]))
    return (around if isinstance(around, dict) else vars(around) if isinstance(around, SimpleNamespace) else {}).items()


def lacking_attribute(moments: Moments, error: AttributeError) -> str:
    """Return the class whose constructor looks for an attribute in itself, and may make some of `**kwargs`; else ""."""
    for name, frame, _ in moments:
        owner = frame.f_locals.get("self")
        if name != "__init__" or not frame.f_code.co_flags & inspect.CO_VARKEYWORDS or error.obj is None:
            continue
        if error.obj is owner or (isinstance(error.obj, dict) and _is_what_was_given(error.obj, frame)):
            return type(owner).__name__
    return ""


_COMPREHENSIONS: Final = frozenset({"<dictcomp>", "<genexpr>", "<listcomp>", "<setcomp>"})


def lacking_keyword(moments: Moments, key: str) -> str:
    """Return what was called, by the name of its class, if the key was looked for in its `**kwargs`; else ""."""
    # In Python 3.11 what goes over something in one expression has a frame of its own.
    within = itertools.dropwhile(lambda each: each[0] in _COMPREHENSIONS, moments)
    name, frame, line = next(within, moments[0])
    keywords, table = _keywords(frame)
    if type(table) is not dict or key in table or not re.search(rf"\b{keywords}\s*[.\[]", line):
        return ""
    return type(frame.f_locals["self"]).__name__ if name == "__init__" and "self" in frame.f_locals else name


def keywords_wanted(moments: Moments, tests: Iterable[ast.expr]) -> tuple[str, ...]:
    """Return the keywords that code raised for the lack of: `if "width" not in kwargs: raise`."""
    keywords, table = _keywords(moments[0][1]) if moments else ("", None)
    if type(table) is not dict:
        return ()
    found: list[str] = []
    nodes = [node for test in tests for node in ast.walk(test)]
    for node in (*nodes, *_assigned_to(nodes, moments[0][1])):
        match node:
            case (
                ast.Compare(left=ast.Constant(str(key)), comparators=[ast.Name(id=name)])
                | ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr="get" | "pop"), args=[ast.Constant(str(key)), *_]
                )
            ) if name == keywords and key not in table:
                found.append(key)
            case _:
                pass
    return tuple(found)


def _assigned_to(names: Iterable[ast.AST], frame: FrameType) -> Iterator[ast.expr]:
    """Yield what a function assigns to some variables."""
    wanted = {each.id for each in names if isinstance(each, ast.Name)}
    tree = definition_of(frame.f_code.co_filename, frame.f_code.co_firstlineno, frame.f_code.co_name)
    for node in ast.walk(tree) if tree is not None else ():
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in wanted:
                yield value
            case _:
                pass


def attribute_wanted(moments: Moments, tests: Iterable[ast.expr]) -> tuple[Any, str] | None:
    """Return what code raised for since it has no such attribute, and its name: `assert hasattr(config, "width")`."""
    for node in (each for test in tests for each in ast.walk(test)) if moments else ():
        match node:
            case ast.Call(func=ast.Name(id="hasattr"), args=[asked, ast.Constant(str(name))]):
                owner = value_in(asked, moments[0][1])
                if owner is not None and attribute_of(owner, name) is None:
                    return owner, name
            case _:
                pass
    return None


def key_wanted(moments: Moments, tests: Iterable[ast.expr]) -> tuple[dict[Any, Any], str] | None:
    """Return the mapping that code raised for since it has not a key, and the key: `if key not in self.config`."""
    for node in (each for test in tests for each in ast.walk(test)) if moments else ():
        match node:
            case ast.Compare(left=left, ops=[ast.NotIn()], comparators=[table]):
                match table:
                    case ast.Call(func=ast.Attribute(value=mapping, attr="keys"), args=[]):
                        table = mapping
                    case _:
                        pass
                key, found = value_in(left, moments[0][1]), value_in(table, moments[0][1])
                if isinstance(key, str) and isinstance(found, dict) and key not in found:
                    return found, key
            case _:
                pass
    return None


def keys_refused(moments: Moments, tests: Iterable[ast.expr]) -> tuple[str, ...]:
    """Return the keys that a mapping has under whose condition code raised: `if key in config`."""
    found: list[str] = []
    for node in (each for test in tests for each in ast.walk(test)) if moments else ():
        match node:
            case ast.Compare(left=left, ops=[ast.In()], comparators=[table]):
                key, mapping = value_in(left, moments[0][1]), value_in(table, moments[0][1])
                found += [key] if isinstance(key, str) and isinstance(mapping, dict) and key in mapping else []
            case _:
                pass
    return tuple(found)


def _keywords(frame: FrameType) -> tuple[str, Any]:
    """Return what a function's `**kwargs` is called, and what is in it; "" and None where there is none."""
    code = frame.f_code
    if not code.co_flags & inspect.CO_VARKEYWORDS:
        return "", None
    name = code.co_varnames[code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & inspect.CO_VARARGS)]
    return name, frame.f_locals.get(name)


def raised_within(error: BaseException) -> BaseException:
    """Return what a property of a module raised, which the module then says that it has not."""
    if not (isinstance(error, AttributeError) and isinstance(error.obj, nn.Module) and isinstance(error.name, str)):
        return error
    found = inspect.getattr_static(type(error.obj), error.name, None)
    if isinstance(found, property) and found.fget is not None:
        try:
            found.fget(error.obj)
        except AttributeError as inner:
            return inner.with_traceback(inner.__traceback__.tb_next if inner.__traceback__ is not None else None)
        except Exception:  # noqa: BLE001 — The user's code; another error is not what was raised before.
            return error
    return error


def unmade(error: AttributeError) -> bool:
    """Whether an object lacks an attribute that its own class assigns: under conditions that were not met."""
    owner, name = type(error.obj), error.name
    return isinstance(error.obj, nn.Module) and isinstance(name, str) and is_assigned(owner, name)


def words_around(error: AttributeError) -> Iterator[str]:
    """Yield the names in the conditions under which a constructor assigns the attribute that its object lacks."""
    tree = tree_of(constructor_of(type(error.obj))) if unmade(error) else None
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.If) and any(_assigns(each, str(error.name)) for each in ast.walk(node)):
            yield from WORD.findall(ast.unparse(node.test))


def _assigns(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Store)


def left_to_others(error: NotImplementedError, moments: Moments) -> str:
    """Return the type of the object whose method only says that a subclass has it, "" where it is the model's own."""
    frame = moments[0][1] if moments and not text_of(error) else None
    owner = frame.f_locals.get("self") if frame is not None else None
    return "" if owner is None or isinstance(owner, nn.Module) else type(owner).__name__


def lacked_by(error: AttributeError) -> tuple[str, str]:
    """Return the type of what lacks an attribute, and its name; "" where the error does not say."""
    if isinstance(error.name, str):
        return type(error.obj).__name__, error.name
    # Where one is set, the text alone says it.
    told = _NO_ATTRIBUTE.match(text_of(error))
    return (told[1], told[2]) if told is not None else ("", "")


def called_as(error: AttributeError) -> Called | None:
    """Return how the attribute that something lacks was to be called, None where it was only read."""
    match _innermost(error)[-3:]:
        case [*around, ast.Call(func=ast.Attribute(attr=name) as called) as call, last] if last is called:
            return _as_called(call, around) if name == error.name else None
        case _:
            return None


def unpacked(error: ValueError) -> Called | None:
    """Return how something was called whose result has another length than was expected, None for another error."""
    for node in _innermost(error):
        match node:
            case ast.Assign(targets=[ast.Tuple()], value=ast.Call(func=ast.Name() | ast.Attribute()) as call):
                return _as_called(call, [node])
            case _:
                pass
    return None


def _innermost(error: Exception) -> list[ast.AST]:
    """Return the nodes around what was executed when something was raised, in the innermost of the user's files."""
    own = [each for each in moments_of(error.__traceback__) if is_user_file(each.path)]
    return nodes_around(own[-1].path, own[-1].source.span) if own else []


def _as_called(call: ast.Call, around: list[ast.AST]) -> Called:
    """Return how something is called, by the statement around, if that is an assignment."""
    targets = around[-1].targets if around and isinstance(around[-1], ast.Assign) else []
    several = [len(each.elts) for each in targets if isinstance(each, ast.Tuple | ast.List)]
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    return Called(name, bool(call.args or call.keywords), several[0] if several else 0)


def members_named(module: ModuleType, moments: Moments) -> Iterator[str]:
    """Yield the names of members of a module that the code has as text which asks for one by its name.

    After those of the class that is constructed come the modules that it, or a file in its package, defines.
    """
    texts = [_text_of(each) for each in constructed(moments)]
    elsewhere = "".join(linecache.getlines(moments[0][1].f_code.co_filename)) if moments else ""
    own = [name for name, each in vars(module).items() if _is_module_of(each, module.__name__)]
    said = [*re.findall(_TEXT, "".join(texts)), *own, *_ASKED_FOR, *sorted(re.findall(_TEXT, elsewhere))]
    members = (each for each in dict.fromkeys(said) if callable(vars(module).get(each)))
    yield from map(repr, itertools.islice(members, MOST_VALUES))


def _is_module_of(value: Any, name: str) -> bool:
    """Whether a value is a class of modules that a module defines, or has from inside itself, and not torch's."""
    if not (isinstance(value, type) and issubclass(value, nn.Module)) or name.startswith("torch."):
        return False
    return value.__module__ == name or value.__module__.startswith(f"{name}.")


def files_named(name: str, moments: Moments, asking: Iterable[str]) -> Iterator[str]:
    """Yield the paths of files of this name in the projects of the code on the way.

    Where the name was made up for what is called a configuration by those that ask for it, those of configurations.
    """
    made_up = repr(name) == FILE
    paths = dict.fromkeys(os.path.dirname(frame.f_code.co_filename) for _, frame, _ in moments)
    for folder in paths if not made_up or any(map(holds_configuration, asking)) else ():
        if os.path.isdir(folder) and "site-packages" not in folder and not folder.startswith(sys.prefix):
            beside = os.path.join(folder, "_")
            yield from map(repr, configurations(beside) if made_up else files_called(name, beside))


def attributes_given(value: Any) -> frozenset[str] | None:
    """Return the attributes that a namespace has, or a mapping that gives its items as such; None for another value."""
    if isinstance(value, dict):
        return frozenset(each for each in value if isinstance(each, str))
    return frozenset(vars(value)) if isinstance(value, SimpleNamespace | argparse.Namespace) else None


def texts_of(value: Any) -> tuple[str, ...]:
    """Return the texts that an object of a class of its own has, as expressions."""
    if isinstance(value, type | ModuleType | SimpleNamespace | argparse.Namespace):
        return ()
    own = attribute_of(value, "__dict__")
    return tuple(repr(each) for each in own.values() if isinstance(each, str) and each) if type(own) is dict else ()


def makers_beside(made: Any, name: str) -> tuple[list[str], list[str]]:
    """Return which functions beside what made a model make one of its class, and which one with an attribute.

    Both are texts that `getattr(torchvision.models, arch)` may have been given.
    """
    cls = type(made)
    package = sys.modules.get(cls.__module__.rpartition(".")[0])
    if not isinstance(made, nn.Module) or package is None or cls.__module__.startswith("torch."):
        return [], []
    kinds = {repr(each): _made_by(function) for each, function in vars(package).items() if inspect.isfunction(function)}
    same = [each for each, kind in kinds.items() if kind is cls]
    others = [each for each, kind in kinds.items() if kind is not None and is_assigned(kind, name)]
    # The class that most of them make is the best known one, but for what everybody knows.
    usual, known = usual_values("arch"), Counter(kinds.values())
    others.sort(key=lambda each: (each not in usual, -known[kinds[each]]))
    return same, others if same else []


def _made_by(function: FunctionType) -> type[nn.Module] | None:
    """Return the class of models that a function says it returns, None for another function."""
    said = inspect.get_annotations(function).get("return")
    said = inspect.unwrap(function).__globals__.get(said) if isinstance(said, str) else said
    return said if isinstance(said, type) and issubclass(said, nn.Module) else None


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


def _expressions(line: str) -> Iterator[ast.expr]:
    """Yield the expressions in a line, then its words, which may be no whole statement."""
    with contextlib.suppress(SyntaxError, ValueError):
        yield from (each for each in ast.walk(ast.parse(line.strip())) if isinstance(each, ast.expr))
    yield from map(ast.Name, dict.fromkeys(WORD.findall(line)))


def value_in(node: ast.expr, frame: FrameType) -> Any:
    """Return what an expression of names, attributes and items stands for, None where that is not known.

    So is what is computed with whole numbers, and the length of a list or a table.
    """
    match node:
        case ast.Constant(value=value):
            return value
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _OPERATIONS:
            one, other = value_in(left, frame), value_in(right, frame)
            is_whole = type(one) is int and type(other) is int
            return _OPERATIONS[type(operation)](one, other) if is_whole else None
        case ast.Call(func=ast.Name(id="len"), args=[several]):
            found = value_in(several, frame)
            return len(found) if type(found) in _LISTING else None
        case ast.Name(id=name):
            return frame.f_locals.get(name, frame.f_globals.get(name))
        case ast.Attribute(value=value, attr=name):
            own = attribute_of(value_in(value, frame), "__dict__")
            return own.get(name) if type(own) is dict else None
        case ast.Subscript(value=value, slice=index):
            table, key = value_in(value, frame), value_in(index, frame)
            if type(table) in {list, tuple} and type(key) is int and -len(table) <= key < len(table):
                return table[key]
            return table.get(key) if type(table) is dict and isinstance(key, str | int) else None
        case _:
            return None


def _is_what_was_given(table: dict[Any, Any], frame: FrameType) -> bool:
    """Whether a mapping has what a constructor was called with, and nothing else."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    rest = frame.f_locals.get(code.co_varnames[count + bool(code.co_flags & inspect.CO_VARARGS)])
    names = {*code.co_varnames[1:count], *(rest if isinstance(rest, dict) else ())}
    return table.keys() <= names


def _text_of(cls: type) -> str:
    """Return the text of a class, "" where it is not to be had."""
    try:
        return inspect.getsource(cls)
    except (OSError, TypeError, IndentationError, SyntaxError):
        return ""
