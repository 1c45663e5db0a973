"""Python signatures of torch's operators, made from the schemas that torch keeps of them, and calls in a normal form.

One function of `torch` has several overloads, so it has several signatures. A call is checked against all of them;
where that leaves a doubt, nothing is concluded, unless the caller gives the types of the arguments.
"""

import enum
import functools
import inspect
import numbers
import types
import typing
import warnings
from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from typing import Any, Literal, NamedTuple, overload

import torch
from torch._C import FunctionSchema
from torch._jit_internal import boolean_dispatched
from torch._ops import OpOverload, OpOverloadPacket
from torch.jit._builtins import _find_builtin

__all__ = [
    "ArgsKwargsPair",
    "_args_kwargs_to_normalized_args_kwargs",
    "_normalize_function_or_error",
    "_torchscript_schema_to_signature",
    "_torchscript_type_to_python_type",
    "check_for_mutable_operation",
    "create_type_hint",
    "get_signature_for_torch_op",
    "normalize_function",
    "normalize_module",
    "overloads_of",
    "type_matches",
]

_NORMAL_KINDS = frozenset({Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY})
_RANDOM_FILL = ("input", "from", "to", "generator")
"""The parameters of `uniform_` and its like: `from` is a keyword of Python and so by position only, but is dispatched
by name."""


class ArgsKwargsPair(NamedTuple):
    """Positional and keyword arguments of one call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@overload
def get_signature_for_torch_op(
    op: Callable[..., Any], return_schemas: Literal[True]
) -> tuple[list[Signature] | None, list[FunctionSchema] | None]: ...


@overload
def get_signature_for_torch_op(
    op: Callable[..., Any], return_schemas: Literal[False] = ...
) -> list[Signature] | None: ...


def get_signature_for_torch_op(
    op: Callable[..., Any], return_schemas: bool = False
) -> list[Signature] | tuple[list[Signature] | None, list[FunctionSchema] | None] | None:
    """Return one signature for each overload of a torch function, or None if torch has no schema of it.

    Args:
        op: A function of `torch`, an operator overload or a packet of overloads.
        return_schemas: Return a pair of the signatures and torch's schemas, in the same order.
    """
    if op is torch.nonzero:
        # Its schemas lack `as_tuple`, which Python adds.
        return (_nonzero_schemas(), None) if return_schemas else None
    known = _signatures_and_schemas(_Identity(op))
    if known is None:
        return (None, None) if return_schemas else None
    signatures, schemas = known
    return (list(signatures), list(schemas)) if return_schemas else list(signatures)


def check_for_mutable_operation(target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse a call that changes one of its arguments, if the overload that is called is beyond doubt.

    Raises:
        RuntimeError: The only overload that fits the arguments is a mutable one.
    """
    signatures, schemas = get_signature_for_torch_op(target, return_schemas=True)
    if not signatures or not schemas:
        return
    fitting = [schema for signature, schema in zip(signatures, schemas, strict=True) if _fits(signature, args, kwargs)]
    if len(fitting) == 1 and fitting[0].is_mutable:
        raise RuntimeError(
            f"Tried to trace mutable operation {fitting[0]}. FX only supports functional code, so operations "
            "that mutate operands in-place (e.g. via `out` arguments) are not supported"
        )


def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Return the arguments of a call as the function's signature names them, with default values; None if it has none.

    Args:
        target: The function that is called.
        args: The positional arguments.
        kwargs: The keyword arguments.
        arg_types: The types of the positional arguments, where these alone leave open which overload is called.
        kwarg_types: The types of the keyword arguments.
        normalize_to_only_use_kwargs: Pass everything by keyword.

    Raises:
        RuntimeError: Several overloads fit, and no types are given.
    """
    kwargs = kwargs or {}
    if not isinstance(target, (types.BuiltinFunctionType, OpOverloadPacket, OpOverload)):
        target = getattr(target, "_op", target)  # A wrapper around an operator.
    if not isinstance(target, (types.BuiltinFunctionType, OpOverloadPacket, OpOverload)):
        signature = _python_signature(target)
        return (
            None
            if signature is None
            else _args_kwargs_to_normalized_args_kwargs(signature, args, kwargs, normalize_to_only_use_kwargs)
        )
    signatures = get_signature_for_torch_op(target) or []
    fitting = [signature for signature in signatures if _fits(signature, args, kwargs)]
    if len(fitting) > 1:
        if arg_types is None and kwarg_types is None:
            raise RuntimeError(
                f"Tried to normalize arguments to {torch.typename(target)} but the schema match was ambiguous! Please "
                f"provide argument types to the normalize_arguments() call. Available schemas:\n"
                + "\n".join(str(signature) for signature in fitting)
            )
        fitting = [signature for signature in signatures if _types_fit(signature, arg_types or (), kwarg_types or {})]
    return (
        _args_kwargs_to_normalized_args_kwargs(fitting[0], args, kwargs, normalize_to_only_use_kwargs)
        if fitting
        else None
    )


def normalize_module(
    root: torch.nn.Module,
    target: str,
    args: tuple[Any],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Return the arguments of a call of a module as its `forward` names them, with default values.

    Args:
        root: Where the module is found.
        target: The module's qualified name.
        args: The positional arguments.
        kwargs: The keyword arguments.
        normalize_to_only_use_kwargs: Pass everything by keyword.

    Returns:
        The arguments, or None if the module is not one of `torch.nn`.

    Raises:
        RuntimeError: There is no such module.
    """
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize node with target {target} but root did not have that target!"
        ) from error
    if getattr(torch.nn, type(module).__name__, None) is not type(module):
        return None
    signature = inspect.signature(inspect.unwrap(module.forward))
    return _args_kwargs_to_normalized_args_kwargs(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def create_type_hint(x: object) -> object:
    """Return the type hint of a list or tuple of types: `list[T]`, T the one that all others derive from, else Any.

    Anything else is returned as it is.
    """
    if not isinstance(x, (list, tuple)):
        return x
    try:
        widest: Any = x[0] if x else Any
        for member in x:
            if issubclass(widest, member):
                widest = member
            elif not issubclass(member, widest):
                widest = Any
                break
    except TypeError:  # A member is no class.
        warnings.warn(f"We were not able to successfully create type hint from the type {x}", stacklevel=2)
        return x
    return list[widest] if isinstance(x, list) else tuple[widest, ...]


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Return whether an argument of type `argument_type` may be passed where a schema says `signature_type`."""
    if signature_type is argument_type:
        return True
    origin = typing.get_origin(signature_type)
    if origin in {typing.Union, types.UnionType}:
        return signature_type == argument_type or any(
            type_matches(member, argument_type) for member in typing.get_args(signature_type)
        )
    if origin is list:
        return _list_matches(signature_type, argument_type)
    if signature_type is int and argument_type is torch.dtype:
        return True  # Schemas have integers for dtypes.
    if signature_type is numbers.Number and argument_type in {int, float}:
        return True
    if inspect.isclass(argument_type) and inspect.isclass(signature_type):
        return issubclass(argument_type, signature_type)
    return False


def _list_matches(signature_type: Any, argument_type: Any) -> bool:
    (element,) = typing.get_args(signature_type)
    if argument_type is int and element is int:
        return True  # One integer stands for a list of them.
    if not inspect.isclass(element):
        warnings.warn(f"Does not support nested parametric types, got {signature_type}.", stacklevel=3)
        return False
    members = typing.get_args(argument_type)
    match typing.get_origin(argument_type):
        case builtin if builtin is list:
            return issubclass(members[0], element)
        case builtin if builtin is tuple:
            return all(member in {..., ()} or issubclass(member, element) for member in members)
        case _:
            return False


def _normalize_function_or_error(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair:
    """Return what `normalize_function` does.

    Raises:
        RuntimeError: It returns None.
    """
    normalized = normalize_function(target, args, kwargs, arg_types, kwarg_types, normalize_to_only_use_kwargs)
    if normalized is None:
        raise RuntimeError(f"Failed to normalize function {target} with args {args} and kwargs {kwargs}")
    return normalized


def _python_signature(function: Callable[..., Any]) -> Signature | None:
    """Return the signature of a Python function; None where it depends on the value of an argument."""
    if function not in boolean_dispatched:
        return inspect.signature(inspect.unwrap(function))
    branches = boolean_dispatched[function]  # As for `max_pool2d(return_indices=...)`.
    signature = inspect.signature(inspect.unwrap(branches["if_true"]))
    other = inspect.signature(inspect.unwrap(branches["if_false"]))
    return signature if signature.parameters == other.parameters else None


def _types_fit(signature: Signature, arg_types: tuple[Any, ...], kwarg_types: dict[str, Any]) -> bool:
    try:
        bound = signature.bind(*arg_types, **kwarg_types)
    except TypeError:
        return False
    return all(type_matches(signature.parameters[name].annotation, kind) for name, kind in bound.arguments.items())


def _args_kwargs_to_normalized_args_kwargs(
    signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any], normalize_to_only_use_kwargs: bool
) -> ArgsKwargsPair | None:
    """Return the arguments by name, those passed by position first; None if some have no name of their own."""
    parameters = signature.parameters
    if any(parameter.kind not in _NORMAL_KINDS for parameter in parameters.values()) and (
        tuple(parameters) != _RANDOM_FILL
    ):
        return None
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    by_position = () if normalize_to_only_use_kwargs else tuple(parameters)[: len(args)]
    return ArgsKwargsPair(
        tuple(bound.arguments[name] for name in by_position),
        {name: bound.arguments[name] for name in parameters if name not in by_position},
    )


class _Identity:
    """A function as a key: builtin functions that are different things may be equal, such as `torch.mm` and others."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __hash__(self) -> int:
        return id(self.function)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.function is self.function


@functools.lru_cache(maxsize=4096)
def _signatures_and_schemas(op: _Identity) -> tuple[list[Signature], Sequence[FunctionSchema]] | None:
    schemas = _schemas(op.function)
    return None if schemas is None else ([_torchscript_schema_to_signature(schema) for schema in schemas], schemas)


def overloads_of(packet: OpOverloadPacket) -> list[OpOverload]:
    """Return the overloads of an operator. Before 2.13, torch only gives their names."""
    return [getattr(packet, name) for name in packet.overloads()]


def _schemas(op: Callable[..., Any]) -> Sequence[FunctionSchema] | None:
    if isinstance(op, OpOverload):
        return [op._schema]
    if isinstance(op, OpOverloadPacket):
        return [overload._schema for overload in overloads_of(op)]
    builtin = _find_builtin(op)
    return None if builtin is None else torch._C._jit_get_schemas_for_operator(builtin)


def _fits(signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _torchscript_schema_to_signature(schema: FunctionSchema) -> Signature:
    """The signature of one overload; its first tensor is called `input`, as in Python, not `self`."""
    parameters: list[Parameter] = []
    for argument in schema.arguments:
        name = "input" if argument.name == "self" else argument.name
        kind = Parameter.KEYWORD_ONLY if argument.kwarg_only else Parameter.POSITIONAL_OR_KEYWORD
        if name == "from":
            # Nothing can be passed to a parameter whose name is a keyword but by position, nor to those before it.
            kind = Parameter.POSITIONAL_ONLY
            parameters = [parameter.replace(kind=kind) for parameter in parameters]
        default = argument.default_value if argument.has_default_value() else Parameter.empty
        annotation = _torchscript_type_to_python_type(argument.type)
        parameters.append(Parameter(name, kind, default=default, annotation=annotation))
    returns = [_torchscript_type_to_python_type(result.type) for result in schema.returns]
    match returns:
        case []:
            annotation = None
        case [single]:
            annotation = single
        case _:
            annotation = tuple(returns)
    return Signature(parameters, return_annotation=annotation)


def _torchscript_type_to_python_type(ts_type: "torch._C.JitType") -> Any:
    """Return the type that TorchScript calls ``ts_type``."""
    return _python_type(ts_type.annotation_str)


@functools.lru_cache(maxsize=4096)
def _python_type(annotation: str) -> Any:
    return eval(annotation, _type_names())  # noqa: S307 - the text is torch's own.


@functools.cache
def _type_names() -> dict[str, Any]:
    """What the names in schemas mean."""
    names: dict[str, Any] = {name: getattr(typing, name) for name in dir(typing)}
    return {
        **names,
        "Tensor": torch.Tensor,
        "Device": torch.device,
        "Layout": torch.layout,
        "number": numbers.Number,
        "Future": torch.jit.Future,
        "AnyEnumType": enum.Enum,
        "QScheme": torch.qscheme,
        "__torch__": _TorchScriptClasses(),
        "NoneType": type(None),
        "Storage": torch.UntypedStorage,
        "t": typing.TypeVar("t"),
        "PyObject": Any,
    }


class _TorchScriptClasses:
    """`__torch__` in a schema: the place of classes, of which only those in `torch` are known to Python."""

    def __getattr__(self, name: str) -> Any:
        if name == "torch":
            return torch
        raise RuntimeError("Expected a torch namespace lookup")


def _nonzero_schemas() -> list[Signature]:
    tensor = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD, annotation=torch.Tensor)
    as_tuple = Parameter("as_tuple", Parameter.KEYWORD_ONLY, annotation=bool)
    return [Signature([tensor], return_annotation=None), Signature([tensor, as_tuple], return_annotation=None)]
