"""Python signatures of torch's operators, made from the schemas that torch keeps of them.

One function of `torch` has several overloads, so it has several signatures. A call is checked against all of them; where
that leaves a doubt, nothing is concluded.
"""

import enum
import functools
import inspect
import numbers
import typing
from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from typing import Any, Literal, NamedTuple, overload

import torch
from torch._C import FunctionSchema
from torch._ops import OpOverload, OpOverloadPacket

__all__ = ["ArgsKwargsPair", "check_for_mutable_operation", "get_signature_for_torch_op"]


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
        return (_nonzero_signatures(), None) if return_schemas else None
    schemas = _schemas(op)
    if schemas is None:
        return (None, None) if return_schemas else None
    signatures = [_signature(schema) for schema in schemas]
    return (signatures, list(schemas)) if return_schemas else signatures


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


def _schemas(op: Callable[..., Any]) -> Sequence[FunctionSchema] | None:
    if isinstance(op, OpOverload):
        return [op._schema]
    if isinstance(op, OpOverloadPacket):
        return [overload._schema for overload in op.op_overloads()]
    builtin = torch.jit._builtins._find_builtin(op)
    return None if builtin is None else torch._C._jit_get_schemas_for_operator(builtin)


def _fits(signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _signature(schema: FunctionSchema) -> Signature:
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
        annotation = _python_type(argument.type.annotation_str)
        parameters.append(Parameter(name, kind, default=default, annotation=annotation))
    returns = [_python_type(result.type.annotation_str) for result in schema.returns]
    match returns:
        case []:
            annotation = None
        case [single]:
            annotation = single
        case _:
            annotation = tuple(returns)
    return Signature(parameters, return_annotation=annotation)


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


def _nonzero_signatures() -> list[Signature]:
    tensor = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD, annotation=torch.Tensor)
    as_tuple = Parameter("as_tuple", Parameter.KEYWORD_ONLY, annotation=bool)
    return [Signature([tensor], return_annotation=None), Signature([tensor, as_tuple], return_annotation=None)]
