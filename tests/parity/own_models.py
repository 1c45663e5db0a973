"""Small models for the parity tests: one for each rule of tracing, and one for each way in which tracing fails."""

import collections
import dataclasses
import enum
import functools
import math
import operator
from collections.abc import Callable
from math import sqrt
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np  # noqa: F401 - FAILURES use it.
import torch
import torch.fx
import torch.nn.functional as F  # noqa: N812 - everybody's name for it.
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import fxengine
from tests.support.parity import Case

fxengine.wrap("len")
torch.fx.wrap("len")


def leaf(x: Tensor, y: Any) -> Any:
    """A function that both engines are told to record."""
    return x + y


torch.fx.wrap("leaf")


@torch.fx.wrap
def decorated_leaf(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x
    return -x


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass
class Box:
    value: Any
    scale: float = 2.0


class Mode(enum.Enum):
    FAST = 1


class Custom:
    """Brings its own way into the graph."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __fx_create_arg__(self, tracer: Any) -> Any:
        return tracer.create_arg(self.value)


class Block(nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.relu(self.linear(self.norm(x)))


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Parameters(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(16.0).reshape(4, 4))
        self.register_buffer("mask", torch.ones(4))
        self.constant = torch.full((4,), 3.0)
        self.shared = self.weight

    def forward(self, x: Tensor) -> Tensor:
        y = F.linear(x, self.weight) + self.shared + self.mask
        return y * self.constant + torch.ones(4) - torch.zeros(4)


class ReusedModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def forward(self, x: Tensor) -> Tensor:
        return self.block(self.block(x))


class BranchOnAttribute(nn.Module):
    def __init__(self, activate: bool) -> None:
        super().__init__()
        self.activate = activate
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.linear(x)
        if self.activate:
            x = torch.relu(x)
        return x


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(4, 12)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, 2, c // 2).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1) / math.sqrt(c)).softmax(-1)
        return (self.dropout(weights) @ v).transpose(1, 2).reshape(b, n, c)


class Scripted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.jit.script(nn.Linear(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


class Annotated(nn.Module):
    def forward(self, x: Tensor, scale: float = 2.0, names: list[str] | None = None) -> tuple[Tensor, Tensor]:
        return x * scale, x


class Variadic(nn.Module):
    def forward(self, first: Tensor, *rest: Tensor, flag: int = 3, **options: Any) -> Tensor:
        return first + rest[0] + options["bias"] * flag


class KeywordOnly(nn.Module):
    def forward(self, x: Tensor, *, scale: float = 2.0) -> Tensor:
        return x * scale


class OutsideModule(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.Linear(4, 4)(x)


class HiddenModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = {"a": nn.Linear(4, 4)}

    def forward(self, x: Tensor) -> Tensor:
        return self.layers["a"](x)


class OutsideParameter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = [nn.Parameter(torch.ones(4))]

    def forward(self, x: Tensor) -> Tensor:
        return x + self.hidden[0]


class ModuleAsArgument(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def forward(self, x: Tensor) -> Tensor:
        return leaf(x, self.block)


class SelfAsVariadic(nn.Module):
    def forward(*args: Any) -> Any:
        return args[1]


class SlicedBuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("ids", torch.arange(8).reshape(1, 8))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.ids[:, : x.shape[1]]


class RecursiveForward(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return self.forward(x + 1)


class SideEffects(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


def _wrapped_forward(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    return wrapper


class Decorated(nn.Module):
    @_wrapped_forward
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


class DecoratedWithKeywords(nn.Module):
    @_wrapped_forward
    def forward(self, x: Tensor, y: Tensor, a: int, b: int, c: int, d: int, **options: Any) -> Tensor:
        return x + y


class LeafOfBuffer(nn.Module):
    """What a leaf is given becomes a node itself, while the leaf is running."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.ones(2, 4))
        self.linear = nn.Linear(4, 4)
        self.both = nn.Bilinear(4, 4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.table) + self.linear(x.T) + self.linear(input=x) + self.both(x, self.table)


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()
        self.block.register_forward_hook(lambda module, args, output: output * 2)
        self.block.register_forward_pre_hook(lambda module, args: (args[0] + 1,))

    def forward(self, x: Tensor) -> Tensor:
        return self.block(x)


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.block, x, use_reentrant=False)


class Iterated(nn.Module):
    def forward(self, x: Tensor) -> list[Tensor]:
        return [row + 1 for row in x]


class Named(nn.Module):
    def forward(self, x: Tensor) -> Pair:
        return Pair(x + 1, x)


def unusual_arguments(x: Any) -> Any:
    y = x[..., 1:, None, ::2]
    y = leaf(y, {"a": x, 1: [x, (x, None)], (1, 2): Mode.FAST})
    y = leaf(y, Pair(x, 3))
    y = leaf(y, Box(x))
    y = leaf(y, Custom(x))
    y = leaf(y, range(3))
    return leaf(y, (torch.float32, torch.device("cpu"), torch.contiguous_format, ..., 1j, slice(1, x)))


def operators(x: Any, y: Any) -> Any:
    z = [x + y, x - y, x * y, x / y, x // y, x % y, x**y, x @ y, 1 + x, 1 - x, 2 * x, 1 / x, 1 // x, 1 % x, 2**x]
    z += [x == y, x != y, x < y, x > y, x <= y, x >= y, -x, +x, ~x, abs(x), x & y, x | y, x ^ y, x << 1, x >> 1]
    z += [1 & x, 1 | x, 1 ^ x, 1 << x, 1 >> x, 1 == x, 1 < x]  # noqa: SIM300 - reflected on purpose.
    x += y
    x *= 2
    x -= 1
    x //= 2
    x @= y
    return [*z, x]


def methods(x: Any) -> Any:
    y = x.relu().sum(dim=0, keepdim=True).T
    y = x.foo.bar.baz(1, key=x.shape[0])
    z = x.size(), x.size(0), x.dim(), x.new_zeros(3), x.to(torch.float64), x.real
    return y, z, x(1)


def tensor_functions(x: Any) -> Any:
    y = torch.cat([x, x], dim=0) + torch.stack((x, x)) + torch.add(x, 1, alpha=2)
    y = torch.einsum("ij,jk->ik", x, x) + F.dropout(x, 0.5, training=False) + torch.where(x > 0, x, 0)
    y = F.layer_norm(x, (4,)) + torch.ops.aten.relu(x) + torch.ops.aten.add.Tensor(x, x)
    torch._assert(x.shape[0] == 4, "four rows")
    a, b = torch.split(x, 2)
    c, *_ = torch.unbind(x)[0], 1
    return y, a, b, c, torch.Tensor.relu(x), x.T.mT, torch.ones(4) + x, 3 - x, torch.zeros(2, 2) @ x


def math_functions(x: Any) -> Any:
    return math.sqrt(x.shape[0]) + sqrt(x.shape[1]) + math.floor(x.shape[0]) + len(x)


def nested_outputs(x: Any) -> Any:
    return {"a": x, "b": [x + 1, (x, None, 2)], "c": Pair(x, x)}


def constant_output(x: Any) -> Any:
    return 3


def default_arguments(x: Any, y: Any = 3, z: Any = None, *, w: Any = (1, 2)) -> Any:
    return x + y + w[0]


def unpacking(x: Any) -> Any:
    (a, b), c = x, x.shape
    d, e = c
    f, g, h = leaf(x, 1)
    return a + b + d + e + f + g + h


def _failing(source: str) -> Callable[[], Any]:
    """A function of `x` and `y` with one line of code, in a file of its own."""
    namespace: dict[str, Any] = dict(globals())
    exec(compile(f"def failing(x, y):\n    {source}\n    return x\n", f"<{source}>", "exec"), namespace)
    return lambda: namespace["failing"]


FAILURES = (
    "if x > 0: x = y",
    "if not x: x = y",
    "x = x and y",
    "x = 1 if x.shape[0] == 3 else 2",
    "while x.sum() > 0: x = x - 1",
    "assert x.ndim == 3",
    "assert x.shape[0] == 3, f'bad {x}'",
    "0 < x < 3",
    "max(x, y)",
    "x = x in (1, 2)",
    "x = 3 in x",
    "[a for a in (1, 2) if x]",
    "sorted([x, y])",
    "any(a for a in [x])",
    "bool(x)",
    "len(x)",
    "reversed(x)",
    "for a in x: x = a",
    "for i, a in enumerate(x): x = a",
    "x = [*x.shape]",
    "x = (*x.shape[:-1], -1)",
    "torch.relu(*x)",
    "dict(**x)",
    "a, *b = x",
    "list(x)",
    "tuple(x.shape)",
    "zip(x, y)",
    "sum(x)",
    "range(x.shape[0])",
    "int(x)",
    "float(x.sum())",
    "complex(x)",
    "round(x)",
    "[1, 2, 3][x]",
    "[1, 2, 3][:x]",
    "'%d' % x",
    "f'{x:.2f}'",
    "divmod(x, 2)",
    "operator.index(x)",
    "x[0] = 1",
    "x[y, :] = y",
    "x[0] += 1",
    "del x[0]",
    "x[:, 1:] = x[:, :-1]",
    "torch.tensor(x)",
    "torch.as_tensor(x)",
    "torch.finfo(x.dtype)",
    "torch.empty(x.size(0), 3)",
    "torch.full(x, 1.0)",
    "torch.Size([x])",
    "np.array(x)",
    "np.sqrt(x)",
    "{1: 2}[x]",
    "getattr(x, y)",
    "next(x)",
    "with x: pass",
    "leaf(x, object())",
    "leaf(x, {1, 2})",
    "leaf(x, {x: 1})",
    "leaf(x, lambda: 1)",
    "leaf(x, Custom)",
    "raise ValueError('no')",
    "raise SystemExit(3)",
    "raise KeyboardInterrupt",
    "None.attribute",
    "undefined_name",
    "1 / 0",
    "torch.cond(x, lambda a: a, lambda a: a, (y,))",
    "x.foo = 3",
    "F.interpolate(x, size=(x.shape[0], 2), mode='wrong')",
    "nn.Linear(x, 4)",
    "torch.zeros(3)[x, :y]",
    "isinstance(x, y)",
    "torch.arange(10)[: x.shape[0]]",
    "torch.autograd.Function.apply(x)",
)


def _tracer(**settings: Any) -> Callable[[ModuleType], Any]:
    return lambda engine: engine.Tracer(**settings)


def _leaf_blocks(engine: ModuleType) -> Any:
    class LeafBlocks(engine.Tracer):
        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            return isinstance(m, Block) or super().is_leaf_module(m, module_qualified_name)

    return LeafBlocks()


def _knowing(engine: ModuleType) -> Any:
    class Knowing(engine.Tracer):
        """Takes every condition for true and every iterable for two items."""

        def to_bool(self, obj: Any) -> bool:
            return True

        def iter(self, obj: Any) -> Any:
            return iter([obj[0], obj[1]])

        def keys(self, obj: Any) -> Any:
            return ["a", "b"]

    return Knowing()


def answered(x: Any, **kwargs: Any) -> Any:
    if x > 0:
        x = x + 1
    for row in x:
        x = x + row
    return x + dict(**kwargs)["a"]


def index_of(x: Any) -> Any:
    return operator.index(x)


def flags(x: Any, flag: bool, other: Any = None) -> Any:
    return x + 1 if flag else x - 1


def pytree_inputs(x: Any, pair: Any) -> Any:
    out = 0
    for value in x.values():
        out = out + value
    return out * pair[0] + pair[1][0], {"sum": out}


def _torch_input(*shape: int) -> Callable[[], tuple[Any, ...]]:
    return lambda: (torch.arange(float(math.prod(shape))).reshape(shape) / 7,)


_MATRIX = _torch_input(4, 4)

CASES = [
    Case("stack", Stack, _MATRIX),
    Case("parameters", Parameters, _MATRIX),
    Case("a module called twice", ReusedModule, _MATRIX),
    Case("attribute false", lambda: BranchOnAttribute(False), _MATRIX),
    Case("attribute true", lambda: BranchOnAttribute(True), _MATRIX),
    Case("attention", lambda: Attention().eval(), _torch_input(2, 3, 4)),
    Case("scripted submodule", Scripted),
    Case("annotations", Annotated, _MATRIX),
    Case("variadic", Variadic),
    Case("keyword-only", KeywordOnly, _MATRIX),
    Case("decorated", Decorated),
    Case("decorated, too few variables", DecoratedWithKeywords),
    Case("leaf of a buffer", LeafOfBuffer),
    Case("hooks", Hooked, _MATRIX),
    Case("checkpoint", Checkpointed),
    Case("iteration", Iterated),
    Case("named tuple", Named, _MATRIX),
    Case("side effects", SideEffects),
    Case("outside module", OutsideModule),
    Case("hidden module", HiddenModule),
    Case("outside parameter", OutsideParameter),
    Case("module as argument", ModuleAsArgument),
    Case("self as part of *args", SelfAsVariadic),
    Case("sliced buffer", SlicedBuffer),
    Case("recursion", RecursiveForward),
    Case("sequential root", lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU()), _MATRIX),
    Case("torch module root", lambda: nn.Linear(4, 4), _MATRIX),
    Case("transformer root", lambda: nn.TransformerEncoderLayer(4, 2, batch_first=True).eval()),
    Case("lstm root", lambda: nn.LSTM(4, 4)),
    Case("attention root", lambda: nn.MultiheadAttention(4, 2)),
    Case("unusual arguments", lambda: unusual_arguments),
    Case("operators", lambda: operators),
    Case("methods", lambda: methods),
    Case("tensor functions", lambda: tensor_functions, _MATRIX),
    Case("math functions", lambda: math_functions, _MATRIX),
    Case("nested outputs", lambda: nested_outputs, _MATRIX),
    Case("constant output", lambda: constant_output, _MATRIX),
    Case("default arguments", lambda: default_arguments, _MATRIX),
    Case("unpacking", lambda: unpacking),
    Case("lambda", lambda: lambda x: x + 1, _MATRIX),
    Case("decorated leaf", lambda: lambda x: decorated_leaf(x) + leaf(x, 1) + leaf(1, 2), _MATRIX),
    Case("no function", lambda: 3),
    Case("builtin", lambda: torch.relu),
    Case("bound method", lambda: Block().forward),
    Case("flag fixed", lambda: flags, _MATRIX, lambda engine: {"flag": True}),
    Case("flag fixed to None", lambda: flags, _MATRIX, lambda engine: {"flag": False, "other": None}),
    Case("tuple of concrete arguments", lambda: flags, None, lambda engine: (_ph(engine), True, "text")),
    Case("too few concrete arguments", lambda: flags, None, lambda engine: (True,)),
    Case(
        "pytree inputs",
        lambda: pytree_inputs,
        None,
        lambda engine: {
            "x": {"a": _ph(engine), "b": _ph(engine)},
            "pair": (_ph(engine), [_ph(engine), 3]),
        },
    ),
    Case("flat concrete arguments", Variadic, None, lambda engine: (_ph(engine), _ph(engine))),
    Case("leaf modules", Stack, _MATRIX, tracer=_leaf_blocks),
    Case("a tracer that answers", lambda: answered, tracer=_knowing),
    Case(
        "autowrapped function",
        lambda: index_of,
        tracer=_tracer(autowrap_functions=(operator.index,)),
    ),
    Case("autowrapped module", lambda: math_functions, tracer=_tracer(autowrap_modules=(math, functools))),
    Case("constant shapes", Parameters, _MATRIX, tracer=_tracer(param_shapes_constant=True)),
    Case("buffers as proxies", Parameters, _MATRIX, settings={"proxy_buffer_attributes": True}),
    Case("mutable operations", lambda: lambda x: torch.sigmoid(x, out=x), settings={"check_mutable_operations": True}),
    Case("immutable operations", Stack, _MATRIX, settings={"check_mutable_operations": True}),
    Case("another method", Stack, settings={"traced_func_name": "extra_repr"}),
    Case("no such method", Stack, settings={"traced_func_name": "backwards"}),
    *(Case(f"fails: {source}", _failing(source)) for source in FAILURES),
]


def _ph(engine: ModuleType) -> Any:
    return fxengine.PH if engine is fxengine else torch.fx._symbolic_trace.PH


def counted() -> collections.Counter[str]:
    """How often each name occurs among the cases; every one must occur once."""
    return collections.Counter(case.name for case in CASES)
