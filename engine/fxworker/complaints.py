"""What an exception says about the arguments that led to it: which kind of value it wants, and what would do."""

import ast
import builtins
import contextlib
import re
import typing
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import FrameType, ModuleType
from typing import Any, Final

from torch import nn

from fxengine.classification import moments_of
from fxengine.errors import text_of
from fxengine.syntax import nodes_around
from fxworker.beyond import Beyond, taken_beyond, with_parts
from fxworker.choices import attribute_of, parameters_of, written_tuple
from fxworker.demanding import demanded_by, tested_together
from fxworker.evidence import MOVED, Called, Kind, kind_of_attribute
from fxworker.lacking import (
    Moments,
    attribute_wanted,
    attributes_given,
    called_as,
    constructed,
    files_named,
    key_wanted,
    keys_of_table,
    keys_of_tables,
    keys_refused,
    keywords_wanted,
    lacked_by,
    lacking_attribute,
    lacking_keyword,
    left_to_others,
    listed_in,
    makers_beside,
    members_named,
    place_of,
    raised_within,
    read_by,
    records_with,
    registered,
    table_asked,
    texts_of,
    unmade,
    unpacked,
    value_in,
    words_around,
)
from fxworker.lineages import heirs_with
from fxworker.patience import OutOfPatience
from fxworker.pointing import place_refused, place_spread
from fxworker.prefixes import prefixes_in
from fxworker.titled import titles_wanted
from fxworker.tracebacks import conditions_of, is_given_none, looked_into, moments_through, spread_in, words_of
from fxworker.wording import (
    MOST_VALUES,
    WANTED,
    axes_wanted,
    is_not_positive,
    is_read_as_number,
    is_small_picture,
    missing_in,
    no_module_in,
    no_number_in,
    numbers,
    quoted,
    refused_in,
    said_kind,
    sequences_told,
    told_in,
    told_missing,
    values_told,
)

_RAISED: Final = (AssertionError, TypeError, ValueError, NotImplementedError)
"""What code raises that does not like the type of a value."""

_NOT_IN_LIST: Final = re.compile(r"not in (?:list|tuple)$")
"""What is said of an item whose place is asked for, and which there is not."""

_JOINED_TO_TUPLE: Final = re.compile(r"concatenate tuple|for \+: (?:'tuple' and '\w+'|'\w+' and 'tuple')")
"""What Python says of what is no tuple and was to be joined to one."""

_ADDED_TO: Final = re.compile(r"can only concatenate (list|tuple) \(not \"(?:int|float)\"\)")
"""What Python says of a list to which a number was added."""

_OF_TYPES: Final = frozenset(
    map(repr, ("NoneType", *(name for name, each in vars(builtins).items() if isinstance(each, type))))
)
"""What Python has in quotes where it says of what type something is, and no name that was asked for."""

_LONGEST: Final = 32
"""How many items of a list may be wanted."""

_MOST_TESTS: Final = 4
"""How many conditions around what raised are looked at: `elif` is one in another."""


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
        place: Where among the arguments of the outermost call that value is, as a path.
        reader: The constructor that was given it, and as which parameter.
        kept: The texts that what lacked an attribute has, as expressions: it may have been made by one of them. The
            lists of numbers that a message has, likewise.
        small: Whether a picture has become too small.
        short: Whether more was taken away from a number than it is.
        named: The name that a module has no member of.
        members: The names of what the module has that can be called.
        is_of_tuple: Whether the value was to be joined to a tuple, to which no list can be.
        demanded: What attributes have to be whose names the code has as texts, as expressions.
        tested: The names in the condition under which code raised.
        refused: The names that are said not to be known.
        beyond: The number of an item that a list has not, and how many it has.
        at: Where among the arguments of the outermost call what it is about is, as a path.
        prefixes: What names may begin with before they are asked for without it.
        called: How what it lacks was to be called, or what gave something of another length; None for neither.
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
    kept: tuple[str, ...] = ()
    small: bool = False
    short: bool = False
    place: str = ""
    reader: tuple[type, str] | None = None
    named: str = ""
    members: tuple[str, ...] = ()
    is_of_tuple: bool = False
    demanded: tuple[tuple[str, str], ...] = ()
    tested: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    beyond: Beyond | None = None
    at: str = ""
    prefixes: tuple[str, ...] = ()
    called: Called | None = None


def complaint_of(error: BaseException) -> Complaint:
    """Return what an exception says."""
    error = raised_within(error)
    moments = list(moments_through(error.__traceback__))
    try:
        told = _read(error, moments)
    except Exception:  # noqa: BLE001 — What is looked at is the user's, and may raise whatever it is asked.
        told = Complaint()
    prefixes = tuple(prefixes_in(moments)) if told.missing or told.lacks else ()
    kept = (
        (*told.kept, *sequences_told(text_of(error))) if isinstance(error, ValueError | AssertionError) else told.kept
    )
    return replace(told, at=place_refused(error, moments, told.got), prefixes=prefixes, kept=kept)


def _read(error: BaseException, moments: Moments) -> Complaint:
    """Return what an exception says, by its text and what it came through."""
    # Errors of Python's own say `types.SimpleNamespace`.
    text = text_of(error).replace("'types.", "'")
    # What a `KeyError` says is written as a key; one with spaces is a message of the code's own.
    is_message = isinstance(error, KeyError) and " " in text and isinstance(error.args[0], str)
    text = str(error.args[0]) if is_message else text
    tests = conditions_of(error)
    words = tuple(words_of(error, text, moments, tests))
    named = (each for each in quoted(text) if not (isinstance(error, TypeError) and each in _OF_TYPES))
    counted = () if isinstance(error, TypeError) and "positional argument" in text else numbers(text)
    values = (*_looked_up(error.__context__), *named, *counted, *_compared(moments, tests))
    values = (*values, *(values_told(text) if isinstance(error, ValueError | AssertionError) else ()))
    within = tuple(constructed(moments))
    if isinstance(error, TypeError) and (told := _about_call(text, words)) is not None:
        place = place_spread(error, moments)
        return replace(told, within=within, spread=tuple(spread_in(moments)), place=place)
    if is_message:
        told = Complaint(words, got="str", values=(*registered(moments), *values)[:MOST_VALUES])
        return replace(told, missing=missing_in(text), callee=_name_of(within), within=within)
    if isinstance(error, KeyError | FileNotFoundError) or (isinstance(error, AttributeError) and lacked_by(error)[1]):
        return _about_absent(error, words, moments)
    if isinstance(error, NameError) and (names := _evaluated(moments)):
        return Complaint((str(error.name), *words), "string", values=names)
    got = left_to_others(error, moments) if isinstance(error, NotImplementedError) else ""
    classes = _checked(error, tests)
    if not classes:
        got, classes = (got, ()) if got else titles_wanted(moments, tests)
    got = got or no_module_in(text)
    if got or classes:
        kind: Kind | None = "object" if got and not classes else said_kind(text)
        return Complaint(words, kind, got, values=values, classes=classes)
    if (wanted := attribute_wanted(moments, tests)) is not None:
        return _about_attribute(*wanted, words, moments)
    told = _about_value(error, text, words, values, moments, tests)
    if (looked_for := key_wanted(moments, tests)) is not None:
        told = _placed(
            replace(told, lacks=looked_for[1], owner=attributes_given(looked_for[0])), moments, looked_for[0]
        )
    demanded = (*demanded_by(error, tests), *told_in(text))
    if missing := keywords_wanted(moments, tests) or missing_in(text) or told_missing(text, _parameters_of(within)):
        return replace(told, missing=missing, callee=_name_of(within), within=within, demanded=demanded)
    tested = tested_together(tests)
    refused = (*refused_in(text), *keys_refused(moments, tests))
    return replace(told, demanded=demanded, tested=tested, within=within, refused=refused)


def _name_of(within: Sequence[type]) -> str:
    """Return the name of the innermost class that was being constructed, "" where there is none."""
    return within[0].__name__ if within else ""


def _about_value(
    error: BaseException,
    text: str,
    words: tuple[str, ...],
    values: tuple[str, ...],
    moments: Moments,
    tests: list[ast.expr],
) -> Complaint:
    """Read a complaint about a value that is there: its kind, its size, what it has none of."""
    if isinstance(error, ValueError) and is_read_as_number(text):
        return Complaint(words, got="str", values=("'4'",))
    if (got := no_number_in(text)) and isinstance(error, RuntimeError | ValueError):
        return Complaint(words, "number", got, values=values)
    if (told := _about_key(error, text, words, moments)) is not None:
        return told
    if isinstance(error, StopIteration) and moments and "parameters()" in moments[0][2]:
        # A module was asked for its first one.
        return Complaint(words, got="Module", lacks="parameters", values=("torch.nn.Linear(64, 64)",))
    if (small := is_small_picture(text)) or is_not_positive(text):
        return Complaint(words, small=small, short=not small, values=values)
    if isinstance(error, OutOfPatience | ZeroDivisionError) or "Overflow" in text:
        # Something was too large, or too small for what it is divided by.
        return Complaint(words, values=("512", "1") if isinstance(error, ZeroDivisionError) else ("2", "1"))
    if isinstance(error, TypeError | ValueError | IndexError):
        told = _about_kind(error, text, words, values, moments, tests)
        return replace(told, kind="number", got="NoneType") if _is_of_none(error) and not told.got else told
    return Complaint(words, said_kind(text), length=_length_in(tests, moments), values=values)


def _is_of_none(error: BaseException) -> bool:
    """Whether a call does not take None for a number, and says something else."""
    moments = moments_of(error.__traceback__) if isinstance(error, TypeError) else []
    return bool(moments) and is_given_none(moments[-1])


def _about_key(error: BaseException, text: str, words: tuple[str, ...], moments: Moments) -> Complaint | None:
    """Read a complaint about what was looked up where it is not, or cannot be; None for another."""
    if isinstance(error, TypeError) and text.startswith("unhashable type") and moments:
        keys = dict.fromkeys(keys_of_tables(*moments[0][1:]))
        return Complaint(words, "string", text.rpartition(" ")[2].strip("'"), values=tuple(keys)[:MOST_VALUES])
    if isinstance(error, ValueError) and _NOT_IN_LIST.search(text) and (item := _item_wanted(error)):
        return Complaint(words, values=(f"[{item}, {item}]", written_tuple([item, item])))
    return None


def _item_wanted(error: ValueError) -> str:
    """Return the number or text whose place in a list was asked for in vain, "" where that is not known."""
    moments = moments_of(error.__traceback__)
    match nodes_around(moments[-1].path, moments[-1].source.span)[-1:] if moments else []:
        case [ast.Call(func=ast.Attribute(attr="index" | "remove"), args=[item, *_])]:
            frame = moments[-1].frame
            value = value_in(item, frame)
            return repr(value) if isinstance(value, str | int | float) else _constant(item, frame)
        case _:
            return ""


def _parameters_of(classes: Iterable[type]) -> set[str]:
    """Return the names of the arguments that some classes take."""
    return {name for cls in classes for name in parameters_of(cls)}


def _looked_up(error: BaseException | None) -> list[str]:
    """Return the keys of the tables that had no entry, which led to another error."""
    moments = list(moments_through(error.__traceback__)) if isinstance(error, KeyError) else []
    return [key for _, frame, line in moments[:1] for key in keys_of_tables(frame, line)]


def _evaluated(moments: Moments) -> tuple[str, ...]:
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


def _about_absent(
    error: AttributeError | KeyError | FileNotFoundError,
    words: tuple[str, ...],
    moments: Moments,
) -> Complaint:
    """Read a complaint about something that is not there: an attribute, a key, an argument in `**kwargs`, a file."""
    if isinstance(error, FileNotFoundError):
        name = str(error.filename)
        asking = [each for _, frame, _ in moments for each, value in frame.f_locals.items() if value is error.filename]
        values = tuple(dict.fromkeys(files_named(name, moments, asking)))[:MOST_VALUES]
        return Complaint((*asking, *words), values=values, within=tuple(constructed(moments)))
    if isinstance(error, KeyError):
        tables = [key for _, frame, line in moments for key in keys_of_tables(frame, line)]
        key = error.args[0] if error.args and isinstance(error.args[0], str) else ""
        if key and (callee := lacking_keyword(moments, key)):
            return Complaint(words, missing=(key,), callee=callee)
        if error.args == ("",):
            # No table has an entry without a name: the name is what is wrong, and in an empty one any will do.
            own = keys_of_table(error, moments)
            names = tables if own is None else map(repr, sorted(own) or ["default"])
            return Complaint(words, got="str", values=tuple(dict.fromkeys(names))[:MOST_VALUES])
        told = Complaint(
            words, lacks=key, owner=keys_of_table(error, moments), values=tuple(dict.fromkeys(tables))[:MOST_VALUES]
        )
        return _placed(told, moments, table_asked(error, moments) if key else None)
    if isinstance(error.obj, ModuleType):
        members = tuple(name for name, each in vars(error.obj).items() if callable(each))
        values = tuple(members_named(error.obj, moments))
        return Complaint(words, got="str", values=values, named=error.name or "", members=members)
    if unmade(error):
        return Complaint((*words_around(error), *words))
    got, name = lacked_by(error)
    if callee := lacking_attribute(moments, error):
        return Complaint(words, missing=(name,), callee=callee)
    return replace(_about_attribute(error.obj, name, words, moments, got), called=called_as(error))


def _about_attribute(value: Any, name: str, words: tuple[str, ...], moments: Moments, got: str = "") -> Complaint:
    """Read a complaint about an attribute that a value has not, which is of a type of a name."""
    got = got or type(value).__name__
    # What is moved and is a number, as far as one knew, is a tensor.
    is_moved = name in MOVED and got in {"int", "float", "list", "tuple"}
    # What every mapping has is asked of one.
    is_of_mappings = hasattr(dict, name)
    kind: Kind | None = "tensor" if is_moved else "mapping" if is_of_mappings else kind_of_attribute(name)
    records = () if is_of_mappings else (*heirs_with(type(value), name), *records_with(moments, name))
    owner = attributes_given(value)
    makers, others = makers_beside(value, name)
    kept = (*texts_of(value), *makers)
    values = tuple(others[:MOST_VALUES])
    told = Complaint(words, kind or "object", got, name, owner, records=records, kept=kept, values=values)
    return _placed(told, moments, value if owner is not None else None)


def _placed(told: Complaint, moments: Moments, value: object) -> Complaint:
    """Return a complaint about a value that lacks something with where it is, and who reads it."""
    place = place_of(moments, value) if value is not None else ""
    return replace(told, place=place, reader=read_by(moments, value)) if place else told


def _about_kind(
    error: BaseException,
    text: str,
    words: tuple[str, ...],
    values: tuple[str, ...],
    moments: Moments,
    tests: list[ast.expr],
) -> Complaint:
    """Read a complaint about what a value is, or how long."""
    length = re.search(r"not enough values to unpack \(expected (\d+)|too many values to unpack \(expected (\d+)", text)
    if length is not None:
        called = unpacked(error) if isinstance(error, ValueError) else None
        return Complaint(words, "sequence", length=int(length[1] or length[2]), called=called)
    if axes := axes_wanted(text):
        return Complaint(words, "tensor", length=axes)
    if isinstance(error, IndexError):
        beyond = taken_beyond(error)
        if beyond is not None and beyond.is_part:
            return Complaint(words, got="Module", values=(with_parts(beyond),))
        return Complaint(words, "sequence", "sequence", length=-1, beyond=beyond)
    if isinstance(error, TypeError) and "not subscriptable" in text:
        got = re.search(r"'(\w+)' object is not subscriptable", text)
        key = _key_looked_up(error, moments)
        kind: Kind = "mapping" if key else "sequence"
        return Complaint(words, kind, got[1] if got is not None else "", lacks=key)
    indexed = re.search(r"(list|tuple|string) indices must be integers", text)
    if isinstance(error, TypeError) and indexed is not None:
        return Complaint(words, "mapping", {"string": "str"}.get(indexed[1], indexed[1]))
    for pattern, kind in WANTED if isinstance(error, TypeError) else ():
        found = re.search(pattern, text)
        if found is not None:
            got = next((each for each in found.groups() if each), "")
            classes = (nn.Module,) if kind == "callable" else ()
            is_of_tuple = _JOINED_TO_TUPLE.search(text) is not None
            added = _ADDED_TO.search(text)
            wanted, got = ("number", added[1]) if added is not None and _adds_number(error) else (kind, got)
            return Complaint(words, wanted, got, values=values, classes=classes, is_of_tuple=is_of_tuple)
    named = re.search(r"<class '([\w.]+)'>", text)
    got = named[1].rpartition(".")[2] if named is not None else ""
    return Complaint(words, said_kind(text), got, length=_length_in(tests, moments), values=values)


def _adds_number(error: BaseException) -> bool:
    """Whether what raised adds a number that is written there, `layers + 1`: the other side is the one to blame."""
    moments = moments_of(error.__traceback__)
    match nodes_around(moments[-1].path, moments[-1].source.span)[-1:] if moments else []:
        case [ast.BinOp(right=ast.Constant(value=int() | float()))]:
            return True
        case _:
            return False


def _key_looked_up(error: TypeError, moments: Moments) -> str:
    """Return the text that was looked up in what nothing can be looked up in, "" where it was a number."""
    node = looked_into(error)
    if node is not None:
        return node.slice.value if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str) else ""
    keys = re.findall(r"""\[["'](\w+)["']\]""", moments[0][2] if moments else "")
    return keys[0] if keys else ""


def _compared(moments: Moments, tests: list[ast.expr]) -> list[str]:
    """Return the constants that the innermost line compares something with, which did not fit, or that of a raise.

    Of whole numbers that it compares with each other, each may be what the largest is.
    """
    if not moments:
        return []
    condition = re.sub(r"^(?:el)?if |^assert |:\s*(?:#.*)?$", "", moments[0][2].strip())
    trees: list[ast.AST] = [*tests[:_MOST_TESTS]]
    with contextlib.suppress(SyntaxError, ValueError):
        trees.append(ast.parse(condition))
    found, numbers = list[str](), list[str]()
    for node in (each for tree in trees for each in ast.walk(tree)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            found += ["64", "4", "1", "8", "7"]
        elif isinstance(node, ast.Call):
            found += map(repr, _affixed(node, moments[0][1]))
        elif isinstance(node, ast.Compare):
            is_of_value = isinstance(_subject(node.left), ast.Name | ast.Attribute | ast.Subscript)
            for each in node.comparators if is_of_value else ():
                items = each.elts if isinstance(each, ast.Tuple | ast.List | ast.Set) else [each]
                found += [text for item in items if (text := _constant(item, moments[0][1]))]
                found += listed_in(each, moments[0][1])
            # What is computed is what the other side must be, where both must be the same.
            is_same = isinstance(node.left, ast.BinOp) and isinstance(node.ops[0], ast.Eq | ast.NotEq)
            values = [value_in(each, moments[0][1]) for each in (node.left, *node.comparators)]
            whole = (is_of_value or is_same) and all(type(each) is int for each in values)
            numbers += [repr(values[0] if is_same else max(values))] if whole else []
    return list(dict.fromkeys([*found, *numbers]))[:MOST_VALUES]


def _affixed(call: ast.Call, frame: FrameType) -> Iterator[str]:
    """Yield the text that code asks for how it begins or ends, such as the name of a file, so that it does so."""
    match call:
        case ast.Call(func=ast.Attribute(value=subject, attr="startswith" | "endswith" as method), args=[affix]):
            text = value_in(subject, frame)
            written = [value_in(each, frame) for each in affix.elts] if isinstance(affix, ast.Tuple) else None
            told = written or value_in(affix, frame)
        case _:
            return
    for each in told if isinstance(told, list | tuple) else (told,):
        if not (isinstance(text, str) and isinstance(each, str)):
            continue
        stem, dot, _ = text.rpartition(".")
        if method == "startswith":
            yield each + text
        else:
            yield f"{stem}.{each.removeprefix('.')}" if dot else text + each


def _length_in(tests: list[ast.expr], moments: Moments) -> int:
    """Return how many items something should have had by the conditions under which code raised, 0 if they do not say.

    What raises says what it is with `assert`, and what it is not with `if`.
    """
    match tests[:1]:
        case [
            ast.Compare(
                left=ast.Call(func=ast.Name(id="len")),
                ops=[ast.Eq() | ast.NotEq()],
                comparators=[ast.Constant() | ast.BinOp() as wanted],
            )
        ] if moments:
            count = value_in(wanted, moments[0][1])
            return count if type(count) is int and 0 < count <= _LONGEST else 0
        case _:
            return 0


def _constant(node: ast.expr, frame: FrameType) -> str:
    """Return the constant, or the class of torch's, that an expression is or names, "" for another expression."""
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(node, ast.Name):
        value = frame.f_globals.get(node.id)
    if isinstance(node, ast.Attribute) and vars(nn).get(node.attr) is not None:
        owner = ast.unparse(node.value).rpartition(".")[2]
        return f"torch.nn.{node.attr}" if frame.f_globals.get(owner) is nn or owner == "nn" else ""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        module = frame.f_globals.get(node.value.id)
        value = vars(module).get(node.attr) if isinstance(module, ModuleType) else None
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
        value = typing.get_origin(value) or value
        if isinstance(value, type):
            yield value
