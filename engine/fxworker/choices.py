"""Arguments that were chosen for a constructor, as a tree of Python expressions, and how it is written.

A value is an expression, or a group of values: a call of a class, a namespace with attributes, a mapping, a module that
has some attributes, a function with what it gives, or a list, whose items are called `0`, `1` and so on. A choice maps
paths such as `config.width` to values.
"""

import ast
import functools
import inspect
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any, Final, Literal, TypeAlias

from torch import nn

from fxengine.inputs.signature import meant_by


@dataclass(frozen=True, slots=True)
class Group:
    """A value that is made of others, its fields.

    Attributes:
        style: How it is made.
        head: The name of the class that is called, or that a namespace or a mapping is of, if not the usual one.
        cls: That class, or that of the items of a list or mapping; those of the items, where each has one of its own.
        size: How many items a list has, or a mapping with any keys; what a namespace says of its length, if it has one.
        keys: The keys of a mapping whose entries are called `a`, `b` and so on here, as expressions.
    """

    style: Literal["call", "namespace", "mapping", "module", "function", "list"]
    head: str = ""
    cls: Any = None
    size: int = 0
    keys: tuple[str, ...] = ()


OPTIONS: Final = (
    "type('Options', (dict,), {'__getattr__': lambda self, name: "
    "self[name] if name in self else object.__getattribute__(self, name)})"
)
"""A mapping whose entries are attributes too."""

LEAST_SIZE: Final = 16
"""The least number that is a size: smaller ones are counts, of heads and layers."""

FIRST_KEY: Final = ascii_lowercase[0]
"""The first key of a mapping with any keys."""

_MODULE: Final = re.compile(r"torch\.nn\.([A-Z]\w*)\(.*\)|type\('Module', \(torch\.nn\.\w+,\), \{.*\}\)\(.*\)")
"""How modules are written that are made by themselves."""

Value: TypeAlias = str | Group
Choice: TypeAlias = Mapping[str, Value]


def joined(path: str, name: str) -> str:
    """Return the path of a field."""
    return f"{path}.{name}" if path else name


def fields_in(choice: Choice, path: str) -> list[str]:
    """Return the names of the fields that a group has in a choice."""
    prefix = f"{path}." if path else ""
    inner = (each[len(prefix) :] for each in choice if each.startswith(prefix) and each != path)
    return [each for each in inner if each and "." not in each]


def without(choice: Choice, path: str) -> dict[str, Value]:
    """Return a choice without a value and all that it is made of."""
    return {each: value for each, value in choice.items() if each != path and not each.startswith(f"{path}.")}


def would_hold_itself(choice: Choice, path: str, value: Value) -> bool:
    """Whether a value is a call of a class that is called already for what the place is a part of."""
    while path and isinstance(value, Group) and value.style == "call":
        path = owner_of(path)[0]
        around = choice.get(path)
        if isinstance(around, Group) and around.style == "call" and around.cls is value.cls:
            return True
    return False


def call_in(expression: str) -> ast.Call | None:
    """Return the call that an expression is, None for another one."""
    call = ast.parse(expression.strip(), mode="eval").body
    return call if isinstance(call, ast.Call) else None


def owner_of(path: str) -> tuple[str, str]:
    """Return the path of the group that a value belongs to, and its name there."""
    around, _, name = path.rpartition(".")
    return around, name


def called_around(choice: Choice, path: str) -> list[Any]:
    """Return what is called whose arguments a value is in, at whatever depth, outermost first."""
    steps = path.split(".")
    around = [choice.get(".".join(steps[:at])) for at in range(1, len(steps))]
    return [each.cls for each in around if isinstance(each, Group) and each.style == "call"]


def written(choice: Choice) -> str:
    """Return the expression that a choice is."""
    fields: dict[str, list[str]] = {}
    for path in choice:
        if path:
            fields.setdefault(path.rpartition(".")[0], []).append(path)
    return _written(choice, "", fields)


def _written(choice: Choice, path: str, fields: Mapping[str, Sequence[str]]) -> str:
    """Return the expression of what is in a place, of which others are `fields`."""
    value = choice[path]
    if isinstance(value, str):
        return value
    parts = {owner_of(each)[1]: _written(choice, each, fields) for each in fields.get(path, ())}
    match value.style:
        case "call":
            parameters = every_parameter_of(value.cls)
            arguments = [_argument(parameters.get(name), name, each) for name, each in parts.items()]
            return f"{value.head}({', '.join(arguments)})"
        case "namespace":
            sized = f"type('Sized', (SimpleNamespace,), {{'__len__': lambda self: {value.size}}})"
            head = sized if value.size else value.head or "SimpleNamespace"
            return f"{head}({', '.join(f'{name}={each}' for name, each in parts.items())})"
        case "mapping":
            keys = dict(zip(ascii_lowercase, value.keys, strict=False))
            entries = f"{{{', '.join(f'{keys.get(name, repr(name))}: {each}' for name, each in parts.items())}}}"
            return f"{value.head}({entries})" if value.head else entries
        case "module":
            return _module(parts, {owner_of(each)[1] for each in fields.get(path, ()) if _makes_module(choice[each])})
        case "function":
            return f"lambda *_, **__: {', '.join(parts.values()) or None}"
        case "list":
            return f"[{', '.join(parts.values())}]"


def _module(parts: Mapping[str, str], modules: Collection[str]) -> str:
    """Return the expression of a module that gives what it is given, and has some attributes.

    Args:
        parts: The attributes. Whoever asks for `parameters` is asked for them in turn: there are some then.
        modules: Those of them that are modules: they are registered, where the name is not that of a method.
    """
    inner = {name: each for name, each in parts.items() if name in modules and not hasattr(nn.ModuleDict, name)}
    others = {name: each for name, each in parts.items() if name not in inner and name != "parameters"}
    base, given = "Identity", ""
    if "parameters" in parts and not inner:
        base, given = "Linear", "1, 1"
    elif inner:
        inner |= {"own": "torch.nn.Linear(1, 1)"} if "parameters" in parts else {}
        base, given = "ModuleDict", f"{{{_entries(inner)}}}"
    if base != "Identity":
        others.setdefault("forward", "torch.nn.Identity.forward")
    return f"type('Module', (torch.nn.{base},), {{{_entries(others)}}})({given})"


def _entries(parts: Mapping[str, str]) -> str:
    return ", ".join(f"{name!r}: {each}" for name, each in parts.items())


def _makes_module(value: Value) -> bool:
    """Whether a value is a module."""
    if isinstance(value, Group):
        is_call = value.style == "call" and isinstance(value.cls, type) and issubclass(value.cls, nn.Module)
        return is_call or value.style == "module"
    made = _MODULE.fullmatch(value)
    return made is not None and (made[1] is None or issubclass(getattr(nn, made[1], object), nn.Module))


def written_tuple(parts: Sequence[str]) -> str:
    """Return the expression of a tuple of expressions."""
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _argument(parameter: inspect.Parameter | None, name: str, value: str) -> str:
    if parameter is not None and parameter.kind is parameter.VAR_POSITIONAL:
        return value[1:-1] if value[:1] == "[" else f"*{value}"
    positional = parameter is not None and parameter.kind is parameter.POSITIONAL_ONLY
    return value if positional else f"{name}={value}"


def taking_several(cls: Any) -> inspect.Parameter | None:
    """Return the parameter of a constructor that takes any number of values, if it takes them first; else None.

    One that takes any keywords as well only hands on what it is given.
    """
    every = list(every_parameter_of(cls).values())
    is_passed_on = any(each.kind is each.VAR_KEYWORD for each in every)
    return every[0] if every and every[0].kind is inspect.Parameter.VAR_POSITIONAL and not is_passed_on else None


def parameters_of(cls: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a constructor that can be given one by one."""
    fixed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {name: each for name, each in every_parameter_of(cls).items() if each.kind not in fixed}


def required_parameters(cls: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters that a constructor cannot do without; empty where it does not say."""
    return {name: each for name, each in parameters_of(cls).items() if each.default is each.empty}


def handed_parameters_of(cls: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a constructor, with those of the bases that it hands its keywords on to."""
    found: dict[str, inspect.Parameter] = {}
    for each in cls.__mro__[:-1] if isinstance(cls, type) else (cls,):
        every = every_parameter_of(each)
        found = {**parameters_of(each), **found}
        if not any(one.kind is one.VAR_KEYWORD for one in every.values()):
            break
    return found


def every_parameter_of(function: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a callable; none where it does not say."""
    try:
        return dict(_signature(function))
    except Exception:  # noqa: BLE001 — An object of the user's may answer any question by raising, as what its hash is.
        return _asked_for_parameters(function)


@functools.lru_cache(maxsize=512)
def _signature(function: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a callable that can be told from others; they are asked for again and again."""
    return _asked_for_parameters(function)


def _asked_for_parameters(function: Any) -> dict[str, inspect.Parameter]:
    try:
        found = {
            name: each.replace(annotation=meant_by(each.annotation))
            for name, each in inspect.signature(function).parameters.items()
        }
        if isinstance(function, type) and type(function).__call__ is not type.__call__ and _says_nothing(found):
            # The metaclass hands on what it is called with.
            _, *own = inspect.signature(function.__init__).parameters.items()
            return dict(own)
    except Exception:  # noqa: BLE001 — As above.
        return {}
    return found


def _says_nothing(parameters: Mapping[str, inspect.Parameter]) -> bool:
    """Whether parameters are `*args, **kwargs`, maybe with others."""
    kinds = {each.kind for each in parameters.values()}
    return {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} <= kinds


def attribute_of(value: Any, name: str) -> Any:
    """Return an attribute, None for one that is not there or cannot be had."""
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001 — As above.
        return None


def literal(expression: str) -> Any:
    """Return the value of a literal; the type `NotImplemented` for what is none."""
    try:
        return ast.literal_eval(expression)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return NotImplemented


def is_number(expression: str) -> bool:
    """Whether an expression is a number."""
    found = literal(expression)
    return isinstance(found, int | float) and not isinstance(found, bool)
