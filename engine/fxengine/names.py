"""Names: unique identifiers for values, and how functions and types are spelled in generated code.

A ``_Namespace`` hands out identifiers that clash neither with each other nor with what every generated function can
see. ``_get_qualified_name`` and ``_type_repr`` say how an object from outside the graph is written. Nothing here knows
graphs or nodes.
"""

import builtins
import functools
import inspect
import keyword
import math
import re
import types
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import torch
from torch.utils import _pytree as pytree

from fxengine import _pytree as fx_pytree

__all__ = [
    "_CustomBuiltin",
    "_Namespace",
    "_custom_builtins",
    "_find_module_of_method",
    "_get_qualified_name",
    "_illegal_names",
    "_is_from_torch",
    "_is_magic",
    "_register_custom_builtin",
    "_snake_case",
    "_target_to_str",
    "_type_repr",
    "dtype_abbreviation",
    "dtype_abbrs",
]

_NUMBERED = re.compile(r"[a-zA-Z_][0-9a-zA-Z_]*_\d+").fullmatch
_ILLEGAL_CHARACTERS = re.compile(r"[^0-9a-zA-Z_]+").sub
_WORD_BOUNDARY = re.compile(r"(?<=[a-z])([A-Z])").sub
_TORCH_MODULE = re.compile(r"torch(?:\.(?!_dynamo\.|_inductor\.)[^.]+)*").fullmatch


_DTYPE_LETTERS = (
    ("bfloat", "bf"),
    ("float", "f"),
    ("complex", "c"),
    ("uint", "u"),
    ("int", "i"),
    ("bool", "b8"),
    ("bits", "b"),
)


class _CustomBuiltin(NamedTuple):
    """An object that every generated function can see under a fixed name."""

    import_str: str
    """The statement that binds the name in saved code."""
    obj: object


_custom_builtins: dict[str, _CustomBuiltin] = {}
_illegal_names: dict[str, object] = {**{word: object() for word in keyword.kwlist}, **vars(builtins)}


def _register_custom_builtin(name: str, import_str: str, obj: object) -> None:
    """Make ``obj`` visible as ``name`` in all code generated from now on; no value of a graph takes that name."""
    _custom_builtins[name] = _CustomBuiltin(import_str, obj)
    _illegal_names[name] = obj


_register_custom_builtin("inf", "from math import inf", math.inf)
_register_custom_builtin("nan", "from math import nan", math.nan)
_register_custom_builtin("NoneType", "NoneType = type(None)", type(None))
_register_custom_builtin("torch", "import torch", torch)
_register_custom_builtin("device", "from torch import device", torch.device)
_register_custom_builtin("fx_pytree", "import fxengine._pytree as fx_pytree", fx_pytree)
_register_custom_builtin("pytree", "import torch.utils._pytree as pytree", pytree)


class _Namespace:
    """Associates names with objects, one name for each object and one object for each name.

    Names do not shadow builtins or keywords unless the object is that very builtin. The cost of a name does not grow
    with the number of names that share its stem.
    """

    __slots__ = ("_base_count", "_obj_to_name", "_uncounted", "_used_names")

    def __init__(self) -> None:
        self._obj_to_name: dict[Any, str] = {}
        self._used_names: set[str] = set()
        self._base_count: dict[str, int] = {}
        self._uncounted: list[str] = []

    def create_name(self, candidate: str, obj: object | None) -> str:
        """Return the name of ``obj``, or an unused one like ``candidate`` that belongs to ``obj`` from now on.

        Args:
            candidate: What the name should resemble; characters that an identifier cannot have are replaced.
            obj: The object that is named; None if the name belongs to nothing in particular.
        """
        if obj is not None:
            known = self._obj_to_name.get(obj)
            if known is not None:
                return known
        candidate, base, number = _split_candidate(candidate)
        used = self._used_names
        if self._uncounted and (number is not None or candidate in used or candidate in _illegal_names):
            self._count()
        if obj is None and number is None and candidate not in used and candidate not in _illegal_names:
            # Nearly always so, and it needs no count: without one counting starts from 0.
            used.add(candidate)
            return candidate
        if number is None or candidate in used:
            number = self._base_count.get(base, 0)
            if candidate in _illegal_names and _illegal_names[candidate] is not obj:
                number += 1
                candidate = f"{base}_{number}"
        while candidate in used:
            number += 1
            candidate = f"{base}_{number}"
        used.add(candidate)
        self._base_count[base] = number
        if obj is not None:
            self._obj_to_name[obj] = candidate
        return candidate

    def name_all(self, wanted: Mapping[str, object]) -> dict[str, object]:
        """Return objects by the names that ``create_name`` gives them; the names that they would like are given."""
        objects = {obj: name for name, obj in wanted.items()}
        if (
            self._used_names
            or len(objects) < len(wanted)
            or any(_illegal_names.get(name) is not obj for name, obj in wanted.items())
        ):
            return {self.create_name(name, obj): obj for name, obj in wanted.items()}
        self._obj_to_name |= objects
        self._used_names |= wanted.keys()
        self._uncounted += wanted
        return dict(wanted)

    def keep_name(self, name: str) -> bool:
        """Take a name if ``create_name`` would not change it; return whether that is so. It belongs to nothing."""
        if name in self._used_names or name in _illegal_names or not (name.isidentifier() and name.isascii()):
            return False
        self._used_names.add(name)
        self._uncounted.append(name)
        return True

    def _count(self) -> None:
        """Note what numbers the kept names end in, which is where the search for further names of a stem begins."""
        for name in self._uncounted:
            _, base, number = _split_candidate(name)
            if number is not None:
                self._base_count[base] = number
        self._uncounted.clear()

    def associate_name_with_obj(self, name: str, obj: object) -> None:
        """Give ``obj``, which has no name yet, the name ``name``."""
        assert self._obj_to_name.setdefault(obj, name) is name, "obj is already associated"

    def _rename_object(self, obj: object, name: str) -> None:
        """Replace the name of ``obj``; the old name stays taken."""
        assert obj in self._obj_to_name, f"Object {obj} is not in _obj_to_name"
        self._obj_to_name[obj] = name
        self._used_names.add(name)

    def _copy_used_names(self, other: "_Namespace") -> None:
        """Treat the names in ``other`` as taken here too."""
        other._count()
        self._used_names |= other._used_names
        self._base_count = {**other._base_count, **self._base_count}


@functools.lru_cache(maxsize=8192)
def _split_candidate(candidate: str) -> tuple[str, str, int | None]:
    """Return ``candidate`` as an identifier, its stem, and the number after it (``x_2``: ``("x_2", "x", 2)``)."""
    name = candidate.replace(".", "_")
    if name[:1].isdigit():
        name = f"_{name}"
    if not (name.isidentifier() and name.isascii()) or ".." in candidate:
        name = candidate if _NUMBERED(candidate) else _identifier(candidate)
    stem, _, number = name.rpartition("_")
    return (name, stem, int(number)) if stem and number.isdecimal() else (name, name, None)


def _identifier(text: str) -> str:
    """Return ``text`` with an underscore for each run of characters that an identifier cannot have."""
    name = _ILLEGAL_CHARACTERS("_", text) or "_unnamed"
    return f"_{name}" if name[0].isdigit() else name


def _is_magic(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def found_in(module: str, *objects: Any) -> None:
    """Let classes and functions call themselves after the module where users find them."""
    for defined in objects:
        defined.__module__ = module
        if isinstance(defined, type):
            found_in(module, *(member for member in vars(defined).values() if isinstance(member, types.FunctionType)))


def _snake_case(name: str) -> str:
    """Return ``name`` as a variable's name: ``pascalCase`` is ``pascal_case``, ``ALL_CAPS`` is ``all_caps``."""
    return name if name.islower() else _WORD_BOUNDARY(r"_\1", name).lower()


def _target_to_str(target: Callable[..., Any] | str) -> str:
    """Return what the value of a node with this target is called before its name is made unique."""
    if type(target) is str:
        return _named_after(target)
    if callable(target):
        return _snake_case(target.__name__)
    assert isinstance(target, str), f"Expected target to be str, got {type(target)}"
    return _named_after(target)


@functools.lru_cache(maxsize=8192)
def _named_after(target: str) -> str:
    """Return what the value of a module or method is called: ``__getitem__`` gives ``getitem``."""
    return _snake_case(target[2:-2] if _is_magic(target) else target)


def _is_from_torch(obj: object) -> bool:
    """Return whether generated code can reach ``obj`` by its qualified name because ``torch`` is always there."""
    module_name: object = getattr(obj, "__module__", None)
    if module_name is not None:
        return _TORCH_MODULE(str(module_name)) is not None
    name: object = getattr(obj, "__name__", None)
    if not isinstance(name, str) or name == "torch":
        return False
    return any(getattr(place, name, None) is obj for place in (torch, torch.nn.functional))


def _find_module_of_method(orig_method: Callable[..., Any]) -> str:
    """Return the name of the module in which ``orig_method`` is found.

    Raises:
        RuntimeError: The function does not say so and is not one of torch's.
    """
    name = orig_method.__name__
    module: Any = orig_method.__module__
    if module is not None:
        return module
    for place in (torch, torch.nn.functional):
        if getattr(place, name, None) is orig_method:
            return place.__name__
    raise RuntimeError(f"cannot find module for {orig_method}")


def _get_qualified_name(func: Callable[..., Any]) -> str:
    """Return the dotted name by which generated code reaches ``func``.

    Raises:
        RuntimeError: ``func`` is a lambda whose source is not known, or its module is not.
    """
    name = func.__name__
    if vars(builtins).get(name) is func:
        return name
    if _is_tensor_method(func):
        return f"torch.Tensor.{name}"
    if name == "<lambda>":
        name = _name_of_lambda(func)
    # torch's operators say `torch._ops`, where they are not; they are reached through `torch.ops`.
    module = _find_module_of_method(func).replace("torch._ops", "torch.ops")
    if module == "torch" and name == "segment_reduce":
        name = "_segment_reduce"
    elif module == "torch.nn.functional" and name in {"_ScalingType", "_SwizzleType"}:
        name = name.removeprefix("_")
    return f"{module}.{name}"


def _is_tensor_method(func: Callable[..., Any]) -> bool:
    name = func.__name__
    if isinstance(func, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return func is getattr(torch.Tensor, name, None)
    return func.__module__ == "torch._tensor" and func.__qualname__ == f"Tensor.{name}"


def _name_of_lambda(func: Callable[..., Any]) -> str:
    """Return what the lambda was assigned to where it was written: ``f = lambda x: x`` is called ``f``."""
    try:
        return inspect.getsource(func).split("=")[0].strip()
    except (OSError, TypeError) as error:
        raise RuntimeError("Unable to represent lambda") from error


def _type_repr(obj: object) -> str:
    """Return how a type is written: ``int``, ``torch.Tensor``; for anything else ``repr``, for ``...`` three dots."""
    if isinstance(obj, type) and not isinstance(obj, types.GenericAlias):
        return obj.__qualname__ if obj.__module__ == "builtins" else f"{obj.__module__}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    if isinstance(obj, types.FunctionType):
        return obj.__name__
    return repr(obj)


@functools.cache
def dtype_abbreviation(dtype: torch.dtype) -> str:
    """Return a dtype in short: ``f32``, ``bf16``, ``i64``, ``b8`` for booleans."""
    name = str(dtype).removeprefix("torch.")
    for word, letter in _DTYPE_LETTERS:
        if name.startswith(word):
            short = letter + name.removeprefix(word).replace("_", "")
            return short if word != "bits" or "x" in short else f"{short}x1"
    return name


dtype_abbrs: Final[dict[torch.dtype, str]] = {
    dtype: dtype_abbreviation(dtype) for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)
}
"""All dtypes in short."""
