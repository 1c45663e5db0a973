"""One trial run of a model on proposed inputs, without data, and what can be learned from its failure.

A trial leaves the module as it was: attributes that user code sets while it runs (caches, counters) are put back.
It runs in evaluation mode, as a profile does, so that models do not ask for labels.
"""

import itertools
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it.
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from fxengine.classification import Moment, moments_of
from fxengine.errors import text_of
from fxengine.evaluation import evaluate
from fxengine.inputs.accounts import Accounts, Operation, Sources
from fxengine.inputs.indices import Indices
from fxengine.inputs.recipes import Recipe, call_arguments
from fxengine.lazy_modules import lazy_among
from fxengine.module_snapshot import fill
from fxengine.patching import Patches
from fxengine.shapes_only import ShapesOnly, needs_data
from fxengine.source import is_user_file

__all__ = [
    "REAL_LIMIT",
    "SPATIAL",
    "TRANSPOSED",
    "OutOfTime",
    "Outcome",
    "UntilDeadline",
    "first_line",
    "module_of",
    "moments_outside",
    "preserved",
    "preserved_state",
    "probe",
]

REAL_LIMIT = 1 << 20
"""The most elements of a tensor that is kept real where inputs have values: those of a few pictures."""

_META = torch.device("meta")
_CONTAINERS = frozenset({dict, list, OrderedDict})
_CPU = torch.device("cpu")
_SLIGHT = 3
"""How many calls more or less say nothing of how far a run came."""

_EMBEDDING = frozenset({F.embedding, torch.embedding})
_LOOKUPS = frozenset({
    torch.gather, Tensor.gather, torch.index_select, Tensor.index_select, torch.take_along_dim, Tensor.take_along_dim,
    torch.take, Tensor.take, Tensor.scatter, Tensor.scatter_, Tensor.index_add, Tensor.index_add_, F.one_hot,
    F.cross_entropy, F.nll_loss, F.binary_cross_entropy, F.embedding_bag,
})  # fmt: skip
"""What fails on integers that are too large, or numbers of another range, which only data can tell."""

_SELECTING = frozenset({
    torch.gather, Tensor.gather, torch.index_select, Tensor.index_select, torch.take_along_dim, Tensor.take_along_dim,
})  # fmt: skip
"""What takes numbers of parts, and says only on real data that they are to be whole ones."""

_ASKED = frozenset({Tensor.__bool__, torch.equal, Tensor.equal, torch.allclose, Tensor.allclose})
"""What says of tensors whether something holds, which only data can tell."""

_WEIGHED = frozenset({torch.conv1d, torch.conv2d, torch.conv3d, F.conv1d, F.conv2d, F.conv3d, F.linear})
"""What sums for each element of its result as many products as the second argument has weights for it."""

TRANSPOSED = frozenset({F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d})
SPATIAL = {
    F.conv1d: 1,
    F.conv2d: 2,
    F.conv3d: 3,
    F.conv_transpose1d: 1,
    F.conv_transpose2d: 2,
    F.conv_transpose3d: 3,
}
"""Convolutions, with how many dimensions the pictures have that they take."""

_MULTIPLIED = frozenset({torch.matmul, torch.bmm, torch.mm, Tensor.matmul, Tensor.__matmul__, Tensor.bmm, Tensor.mm})
_ATTENDED = F.scaled_dot_product_attention
_ATTENDED_BY_HEADS: Callable[..., Any] = F.multi_head_attention_forward

_uncompiled = torch.jit.optimized_execution  # pyright: ignore[reportPrivateImportUsage] - torch documents it there.


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a trial ended.

    Attributes:
        calls: How many torch functions ran: the further a trial came, the better its inputs.
        elements: How many elements the tensors have together that these functions returned.
        largest: How many elements the largest tensor has that was made.
        products: How many products these elements are sums of, where that is known.
        looks_up: Whether values matter, as of integers that say which part of a tensor is wanted.
        error: What was raised, or None if the model ran through.
        operation: The call that raised, if it was one of a torch function.
        module: The path of the innermost module that was running.
        moments: The frames of the error that are neither torch's nor a helper's, innermost first.
        account: Says of a value which parts of the inputs it is or was computed from.
        rounded: The first call that looked up in a table what numbers of any size were rounded to, if there was one.
    """

    calls: int
    elements: int = 0
    largest: int = 0
    products: int = 0
    looks_up: bool = False
    error: Exception | None = None
    operation: Operation | None = None
    module: str = ""
    moments: tuple[Moment, ...] = ()
    account: Callable[[Any], Sources] = lambda _value: frozenset()
    rounded: Operation | None = None

    @property
    def line(self) -> int:
        """The line that the model's own forward had come to, 0 where that is not known."""
        return self.moments[-1].source.line if self.moments else 0

    @property
    def where(self) -> str:
        """The module and the line that raised, and the line that the model's own forward had come to."""
        where = self.moments[0].source if self.moments else None
        return f"{self.module} {where.path if where else ''} {where.line if where else 0} {self.line}"

    @property
    def complaint(self) -> str:
        """What the model complained about, numbers apart, and where."""
        return f"{re.sub(r'[0-9]+', '', first_line(self.error))} {self.where}"

    def is_beyond(self, other: "Outcome") -> bool:
        """Whether this run came further than another: by calls, or by lines where these are nearly as many.

        What writes a message about inputs that it refuses calls more than what passes on such as it likes.
        """
        if abs(self.calls - other.calls) <= _SLIGHT:
            for one, same in zip(reversed(self.moments), reversed(other.moments), strict=False):
                if one.frame.f_code is not same.frame.f_code:
                    break
                if one.source.line != same.source.line:
                    return one.source.line > same.source.line
        return self.calls > other.calls

    @property
    def said(self) -> str:
        """What the error says, "" where there is none."""
        return text_of(self.error) if self.error is not None else ""

    @property
    def accepted(self) -> bool:
        """Whether the inputs fit as far as can be known: the model ran, or stopped only as it wanted to read data."""
        return self.error is None or (needs_data(self.error) and not self._lacks_a_number)

    @property
    def _lacks_a_number(self) -> bool:
        """Whether something was asked for as a number that no data would make one."""
        asked = self.operation.tensors if self.operation is not None else []
        if self.operation is not None and isinstance(next(iter(self.operation.args), None), Tensor):
            asked = asked[1:]  # The first is what gets the size.
        message = str(self.error)
        is_size = "failed to unpack the object at pos" in message
        is_tensor = "got Tensor" in message
        return is_size and (not is_tensor or any(each.numel() != 1 or each.is_floating_point() for each in asked))


def first_line(error: Any) -> str:
    """Return the type of an error, and the first line of what it says."""
    text = text_of(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"


class OutOfTime(BaseException):
    """A trial took too long. No ``Exception``: the code that runs must not handle it."""


class _Probe(ShapesOnly):
    """Runs for shapes and keeps account of which parameters each tensor was computed from."""

    def __init__(
        self,
        module: nn.Module | None,
        recipes: Mapping[str, Recipe],
        values: Mapping[str, Any],
        *,
        real: bool,
        answer: bool | None,
    ) -> None:
        super().__init__(module, *((REAL_LIMIT,) if real else ()))
        self._answer = answer
        self.elements = 0
        self.largest = 0
        self.products = 0
        self.looks_up = False
        self.rounded: Operation | None = None
        self.accounts = Accounts()
        self.indices = Indices(self.accounts, recipes, values)

    def outcome(self, **more: Any) -> Outcome:
        """Return what was seen so far, with more that is known of it."""
        seen = self.calls, self.elements, self.largest, self.products, self.looks_up
        return Outcome(*seen, account=self.accounts.of, **more)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if self._answer is not None and func in _ASKED and any(map(_is_without_data, args)):
            return self._answer
        try:
            self._check(func, args, kwargs)
            result = super().__torch_function__(func, types, args, kwargs)
        except Exception as error:  # The user's code may do anything to a tensor; it goes on to that code.
            self.accounts.note_failure(error, func, args, kwargs)
            raise
        made = result[0] if func is _ATTENDED_BY_HEADS else result
        if isinstance(made, Tensor) and not is_lazy(made):
            self._weigh(func, args, made.numel())
        self.looks_up |= func in _LOOKUPS or (func is Tensor.__getitem__ and _is_lookup(args))
        self.accounts.note_result(result, args, kwargs)
        self.indices.note_result(func, args, result)
        return result

    def _check(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raise what a call raises on real data, and not without."""
        if func in _EMBEDDING and len(args) > 1:
            self.looks_up |= not self.indices.are_given(args[1])
            self.indices.look_up(args[0], args[1])
            if self.rounded is None and self.indices.are_rounded(args[0]):
                self.rounded = self.accounts.operation(func, args, kwargs)
        elif func in SPATIAL and len(args) > 1:
            _check_weight(func, args[1])
            if func in TRANSPOSED:
                _check_transposed(*args, **kwargs)
        elif func in _SELECTING:
            _check_index(func, args, kwargs)
        elif func is Tensor.__getitem__:
            self.indices.pick(*args)
            if self.rounded is None and any(map(self.indices.are_rounded, args[1:])):
                self.rounded = self.accounts.operation(func, args, kwargs)
        elif func is Tensor.__setitem__:
            self._check_put(*args)

    def _check_put(self, whole: Tensor, index: Any, value: Any) -> None:
        """Raise what numbers raise on real data that are put at places in a list, and not without.

        Raises:
            RuntimeError: There are not as many of them as places.
        """
        if not isinstance(value, Tensor) or not _is_by_places(index):
            return
        taken = super().__torch_function__(Tensor.__getitem__, (Tensor,), (whole, index)).shape
        sizes = itertools.zip_longest(reversed(value.shape), reversed(taken), fillvalue=1)
        if any(size not in {1, wanted} for size, wanted in sizes):
            raise RuntimeError(
                f"shape mismatch: value tensor of shape {list(value.shape)} cannot be broadcast to indexing result of "
                f"shape {list(taken)}"
            )

    def _weigh(self, func: Callable[..., Any], args: tuple[Any, ...], elements: int) -> None:
        """Note how much was made, and at what cost."""
        self.elements += elements
        made = elements
        tensors = [each for each in args[:2] if isinstance(each, Tensor) and not is_lazy(each) and each.dim()]
        if len(tensors) == 2:
            first, second = tensors
            if func in _WEIGHED:
                self.products += elements * (second.numel() // max(1, second.shape[0]))
            elif func in _MULTIPLIED:
                self.products += elements * first.shape[-1]
            elif func is _ATTENDED:
                made = max(elements, elements // max(1, first.shape[-1]) * second.shape[-2])
                self.products += 2 * elements * second.shape[-2]
            elif func is _ATTENDED_BY_HEADS:  # Steps come first, and each head has a weight for each two of them.
                heads = args[4] if len(args) > 4 else 1
                made = max(elements, elements // max(1, first.shape[-1]) * second.shape[0] * heads)
                self.products += 2 * elements * second.shape[0]
        self.largest = max(self.largest, made)


def _check_index(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raise what a selection raises on real data, and not without.

    Raises:
        RuntimeError: The numbers of the parts that are wanted are no integers.
        IndexError: They are no vector where only such are taken.
    """
    index = kwargs.get("index", next((each for each in args[1:] if isinstance(each, Tensor)), None))
    if not isinstance(index, Tensor):
        return
    if index.is_floating_point() or index.dtype is torch.bool:
        raise RuntimeError(f"{func.__name__}(): Expected dtype int32 or int64 for index")
    if index.dim() > 1 and func.__name__ == "index_select":
        raise IndexError("index_select(): Index is supposed to be a vector")


def _is_without_data(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_meta


def _check_weight(func: Callable[..., Any], weight: Any) -> None:
    """Raise what a convolution raises on real data, and not without.

    Raises:
        RuntimeError: Its weights are for pictures of other dimensions.
    """
    wanted = SPATIAL[func] + 2
    if isinstance(weight, Tensor) and weight.dim() != wanted:
        raise RuntimeError(f"expected {wanted}-dimensional weight, but got one of size {list(weight.shape)}")


def _check_transposed(
    given: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> None:
    """Raise what a transposed convolution raises on real data, and not without.

    Raises:
        RuntimeError: The channels do not fit, or more is to be added at the end than a step is long.
    """
    del bias, padding
    if not isinstance(given, Tensor) or not isinstance(weight, Tensor):
        return
    if weight.shape[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size "
            f"{list(weight.shape)} instead"
        )
    at = given.dim() - weight.dim() + 1  # What is not a batch is one that has no dimension for it.
    if at in {0, 1} and given.shape[at] != weight.shape[0]:
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(weight.shape)}, expected input{list(given.shape)} to have "
            f"{weight.shape[0]} channels, but got {given.shape[at]} channels instead"
        )
    added, *steps = ([each] if isinstance(each, int) else list(each) for each in (output_padding, stride, dilation))
    longest = [max(each) for each in itertools.zip_longest(*steps, fillvalue=1)]
    if any(one >= other for one, other in zip(added * (len(longest) if len(added) == 1 else 1), longest, strict=False)):
        raise RuntimeError("output padding must be smaller than either stride or dilation")


def _is_lookup(args: tuple[Any, ...]) -> bool:
    """Whether a tensor is indexed with tensors of integers."""
    return any(isinstance(part, Tensor) and part.dtype is not torch.bool for part in _parts_of(args[-1]))


def _is_by_places(index: Any) -> bool:
    """Whether an index has lists or tensors of places, and no mask: how many it picks out is known without data."""
    parts = [part for part in _parts_of(index) if isinstance(part, list | Tensor)]
    masks = (part.dtype is torch.bool if isinstance(part, Tensor) else bool in map(type, part) for part in parts)
    return bool(parts) and not any(masks)


def _parts_of(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def probe(
    root: nn.Module | Callable[..., Any],
    recipes: Mapping[str, Recipe],
    positional: int,
    limit: float = math.inf,
    *,
    real: bool = False,
    compiling: bool = False,
    answer: bool | None = None,
) -> Outcome:
    """Run ``root`` once on what the recipes make.

    Args:
        root: The model or function.
        recipes: What to pass, by parameter name, in the order of the signature.
        positional: How many of them to pass by position.
        limit: The processor time of this process at which the trial is broken off.
        real: Whether the inputs have values, so that code can read those that are small.
        compiling: Whether it is told that it is being compiled, so that it looks at no data where it need not.
        answer: What code is told that asks whether tensors are true, or alike, where only data could tell; None where
            the trial ends there.
    """
    module = root if isinstance(root, nn.Module) else None
    device, generator = (_CPU, torch.Generator().manual_seed(0)) if real else (_META, None)
    try:
        values = {name: recipe.make(device, generator) for name, recipe in recipes.items()}
    except Exception as error:  # noqa: BLE001 - too large even without data, or a class that takes something else.
        return Outcome(0, error=error)
    mode = _Probe(module, recipes, values, real=real, answer=answer)
    for name, value in values.items():
        mode.accounts.mark_input(value, (name,))
    args, kwargs = call_arguments(values, positional)
    with preserved_state(module) as parts, Patches() as patches:
        if compiling:
            patches.attribute(torch.compiler, "_is_compiling_flag", lambda _: True)
        evaluate(parts)
        try:
            # What the probe carries out runs under no mode; what is scripted is not compiled: there is no data for it.
            with torch.no_grad(), _uncompiled(False), mode, UntilDeadline(limit):
                root(*args, **kwargs)
        except OutOfTime:
            return Outcome(mode.calls, mode.elements, error=TimeoutError("this trial took too long"))
        except Exception as error:  # noqa: BLE001 - the user's code raises whatever it likes: it is what we want to know.
            return mode.outcome(
                error=error,
                operation=mode.accounts.operation_of(error),
                module=module_of(error, module),
                moments=moments_outside(error),
            )
    return mode.outcome(rounded=mode.rounded)


class UntilDeadline(TorchFunctionMode):
    """Ends a run, on real data or without, when its processor time is over."""

    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit = limit

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if time.process_time() > self.limit:
            raise OutOfTime
        return func(*args, **(kwargs or {}))


def moments_outside(error: BaseException) -> tuple[Moment, ...]:
    """Return the frames of an error, innermost first, but for those of torch and of helpers."""
    return tuple(reversed([each for each in moments_of(error.__traceback__) if is_user_file(each.path)]))


@contextmanager
def preserved_state(module: nn.Module | None) -> Generator[list[nn.Module]]:
    """Yield all modules, and put back at the end every attribute and registered tensor that code inside has changed.

    The contents of dictionaries and lists that are attributes are put back too; what lies deeper is not looked at. Lazy
    modules are as lazy as before.
    """
    parts = list(module.modules()) if module is not None else []
    with preserved(parts):
        yield parts


@contextmanager
def preserved(parts: Collection[nn.Module]) -> Generator[None]:
    """Do what `preserved_state` does for some modules."""
    kept = [_snapshot(part) for part in parts]
    lazy = lazy_among(parts)
    try:
        yield
    finally:
        for each in lazy:
            each.restore()
        for part, (attributes, containers) in zip(parts, kept, strict=True):
            state = vars(part)
            state.clear()
            state.update(attributes)
            for container, content in containers:
                fill(container, content)


def _snapshot(part: nn.Module) -> tuple[dict[str, Any], list[tuple[dict[str, Any] | list[Any], Any]]]:
    """Return the attributes of one module, and its containers with copies of their contents."""
    attributes = dict(vars(part))
    return attributes, [(value, value.copy()) for value in attributes.values() if type(value) in _CONTAINERS]


def module_of(error: BaseException, root: nn.Module | None) -> str:
    """Return the path of the innermost of ``root``'s modules among the frames of ``error``."""
    if root is None:
        return ""
    paths = {id(module): path for path, module in root.named_modules()}
    found = ""
    traceback = error.__traceback__
    while traceback is not None:
        found = paths.get(id(_self_of(traceback.tb_frame)), found)
        traceback = traceback.tb_next
    return found


def _self_of(frame: FrameType) -> Any:
    return frame.f_locals.get("self") if frame.f_code.co_varnames[:1] == ("self",) else None
