"""What a thing of an absent package is by its name: torch's layer of that name, one that hands on its input, a tuple.

`FusedLayerNorm` is a layer norm, whoever has written it, a `DropPath` drops nothing where nothing is trained,
`to_2tuple(7)` is `(7, 7)`, `ifnone(None, 7)` is 7, and `noop(x)` is `x`. A `Sequential` that is not torch's leaves out
what is None: for that it was written. What a module hands on that imports everything for all others is known by its
usual name: `nn`, `np`, `Optional`. Files that packages ship are there, though `pkg_resources`, which newer environments
do not have, is asked for them. Nothing else is concluded from names.
"""

import importlib.resources
import pkgutil
import re
import sys
import typing
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from torch import nn

_FASTER: Final = re.compile(r"^(?:Fused|Fast|Memory[Ee]fficient|MemEfficient|Parallel|Optimized)(?=[A-Z])")
"""What is put before the name of a layer that does the same in another way."""

_DROPS: Final = re.compile(r"Drop(?:Path|Block|Connect)s?(?:\dd)?|StochasticDepth")
"""Layers that leave something out while a model is trained."""

_TUPLE: Final = re.compile(r"(?:to|make|as|_)?_?(\d)_?tuple")
_DEFAULT: Final = re.compile(r"if_?none|default(_if_none|_to)?|(val|value)_or(_default)?")
"""What gives its first argument, or where that is None the second."""

_NOTHING: Final = re.compile(r"no_?op")
"""What gives its first argument as it is."""

_LISTY: Final = re.compile(r"_?is_?(listy|list(_?like)?|list_or_tuple|tuple(_or_list)?)")
"""What tells whether something is a list or a tuple."""

_CAMEL: Final = re.compile(r"(snake_?(2|to)_?|to_)camel(_?case)?")
"""What gives a name in another form."""

_LAYERS: Final = re.compile(
    r"(?:Conv(?:Transpose)?[123]d|(?:Batch|Instance)Norm[123]d|(?:Layer|Group)Norm|Linear|Embedding)$"
)
"""How layers are called that keep what they are made of by the names of torch's."""

_USUAL: Final = {
    "torch": "torch", "nn": "torch.nn", "F": "torch.nn.functional", "nnf": "torch.nn.functional", "np": "numpy",
    "numpy": "numpy", "Tensor": "torch.Tensor", "Parameter": "torch.nn.Parameter",
    "Variable": "torch.autograd.Variable", "partial": "functools.partial", "OrderedDict": "collections.OrderedDict",
    "defaultdict": "collections.defaultdict", "deepcopy": "copy.deepcopy", "dataclass": "dataclasses.dataclass",
    "torchvision": "torchvision", "einops": "einops", "rearrange": "einops.rearrange", "einsum": "torch.einsum",
}  # fmt: skip
"""What is imported by almost every file of models, by the name that it usually has there."""

_NAMED_TUPLES: Final = {"single": 1, "pair": 2, "to_pair": 2, "triple": 3, "quadruple": 4}


_SHIPPED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "pkg_resources.resource_filename": str,
    "pkg_resources.resource_stream": lambda file: file.open("rb"),
    "pkg_resources.resource_string": lambda file: file.read_bytes(),
    "pkg_resources.resource_exists": lambda file: file.is_file() or file.is_dir(),
}
"""What functions that may be absent give of a file that a package ships."""


def shipped(path: str, args: tuple[Any, ...]) -> Any:
    """Return what a function gives of a file that a package ships, None where it does nothing of the kind.

    Args:
        path: The function's full name.
        args: The package and the file's name in it.

    Raises:
        OSError: There is no such file.
        ImportError: There is no such package.
    """
    give = _SHIPPED.get(path)
    match args:
        case (str(package), str(name)) if give is not None:
            return give(importlib.resources.files(package).joinpath(*name.split("/")))
        case _:
            return None


def namesake(name: str) -> Callable[..., Any] | None:
    """Return what a function or class of a name does as far as that says it, None where it says nothing.

    Calls of it raise what they raise where the arguments are not those of torch's layer.
    """
    if _DROPS.fullmatch(name):
        return _handing_on(name)
    numbered = _TUPLE.fullmatch(name)
    count = int(numbered[1]) if numbered is not None else _NAMED_TUPLES.get(name.lstrip("_"), 0)
    if count:
        return lambda value: tuple(value) if isinstance(value, tuple | list) else (value,) * count
    if _DEFAULT.fullmatch(name):
        return lambda value, default: default if value is None else value
    if _NOTHING.fullmatch(name):
        return lambda value=None, *_more, **_options: value
    if _LISTY.fullmatch(name):
        return lambda value: isinstance(value, list | tuple)
    if _CAMEL.fullmatch(name):
        return lambda text: "".join(each.capitalize() for each in str(text).split("_"))
    if name == nn.Sequential.__name__:
        return _in_sequence
    layer = getattr(nn, _FASTER.sub("", name), None)
    is_layer = isinstance(layer, type) and issubclass(layer, nn.Module) and layer is not nn.Module
    return layer if is_layer else None


def handed_on(name: str) -> Any:
    """Return what a name usually means that a module hands on with all that it has imported; None for another name."""
    if name in typing.__all__:
        return getattr(typing, name)
    full = _USUAL.get(name, name if name in sys.stdlib_module_names else "")
    try:
        return pkgutil.resolve_name(full) if full else None
    except (ImportError, AttributeError):
        return None


def layer_in(name: str) -> type[nn.Module] | None:
    """Return torch's layer that a base is one of by the end of its name, as `DeformConv2d` is; None for another."""
    found = _LAYERS.search(name)
    return getattr(nn, found[0], None) if found is not None else None


def _in_sequence(*parts: Any, **more: Any) -> nn.Sequential:
    return nn.Sequential(*(each for each in parts if each is not None), **more)


class HandingOn(nn.Module):
    """A layer that gives its input."""

    __module__ = "torch.nn"  # To a tracer it is one of torch's own, whose calls are steps of the graph.

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        super().__init__()

    def forward(self, x: Any, *_more: Any, **_options: Any) -> Any:
        """Return the input."""
        return x


@lru_cache(maxsize=64)
def _handing_on(name: str) -> type[HandingOn]:
    return type(name, (HandingOn,), {"__module__": HandingOn.__module__})
