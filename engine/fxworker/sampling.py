"""What models give for some inputs, in short: for a comparison of a model before and after a change of its text.

Nothing is traced. Each model is built for real, its parameters get values that follow from their names alone, so that a
change that draws more or fewer random numbers while it builds compares all the same, and it is run on several variants
of its inputs, which are to lead it through its branches in different ways. What it gives, and what its arguments and
buffers hold then, goes into the report as a few numbers for each tensor. It judges nothing: the server compares.
"""

import builtins
import contextlib
import copy
import dataclasses
import random
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeAlias

import torch
from torch import nn
from torch.utils import _pytree as pytree

from fxengine.errors import text_of
from fxworker.argument_lists import Arguments, arguments_of
from fxworker.building import Unbuilt, build, scope_of
from fxworker.compiling import eagerly
from fxworker.loading import Document, Loaded, load
from fxworker.patience import OutOfPatience, patience
from fxworker.reporting import Reporter
from fxworker.texts import digest
from fxworker.wire import MET, Digest, Sample, TargetReport, TraceReport, TraceRequest, TraceTarget

_PATIENCE: Final = 3.0
"""Seconds after which no further variant of one model's inputs is run."""

_SEED: Final = 20260
_MOST_DIGESTS: Final = 64
_MOST_NUMBERS: Final = 24

_Change: TypeAlias = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class _Variant:
    """A way to call a model: what becomes of the tensors that it is fed, in which mode, with which seed."""

    name: str
    change: _Change
    training: bool = False
    seed: int = _SEED


def sample(request: TraceRequest, document: Document) -> TraceReport:
    """Return a report that has the samples of each target that could be built and fed, and nothing else."""
    loaded = load(request, document)
    reporter = Reporter(document.path, request.text)
    targets = tuple(_sampled(each, loaded, reporter) for each in request.targets)
    return TraceReport(request.id, request.path, digest(request.text), "not traced", targets)


def _sampled(target: TraceTarget, loaded: Loaded, reporter: Reporter) -> TargetReport:
    """Return the report of a target: one sample for each variant that was run before time was up. Never raises."""
    report = reporter.untraced(target)
    samples: list[Sample] = []
    # What user code raises ends it: what was sampled by then is the answer.
    with contextlib.suppress(Exception, OutOfPatience), patience(_PATIENCE), eagerly():
        _seed(_SEED)
        built = build(target, loaded, real=True)
        if not isinstance(built, Unbuilt):
            for each in _samples(built.root, target, loaded):
                samples.append(each)  # noqa: PERF402 — Those before time is up stay.
    return replace(report, samples=tuple(samples))


def _samples(root: Any, target: TraceTarget, loaded: Loaded) -> Iterator[Sample]:
    if isinstance(root, nn.Module):
        _fill(root)
    scope = scope_of(loaded, target.qualname)
    for inputs in target.inputs[:1]:
        fed = partial(arguments_of, inputs.expression, scope)
        for variant in _VARIANTS:
            yield _run(root, variant, fed)


def _run(root: Any, variant: _Variant, fed: Callable[[], Arguments]) -> Sample:
    """Return what a model gives for a variant of its inputs; an exception of its own is an answer, too."""
    met = dict[str, None]()
    try:
        _seed(_SEED)
        args, kwargs = pytree.tree_map_only(torch.Tensor, variant.change, fed())
        model = copy.deepcopy(root)
        if isinstance(model, nn.Module):
            model.train(variant.training)
        _seed(variant.seed)
        with _noting(met), contextlib.nullcontext() if variant.training else torch.no_grad():
            given = model(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 — The user's model runs here.
        return Sample(variant.name, error=f"{type(error).__name__}: {text_of(error)}"[:200])
    left = [*_digests("", [args, kwargs])]
    if isinstance(model, nn.Module):
        left += [digest for name, buffer in model.named_buffers() for digest in _digests(f"buffer {name}", buffer)]
    return Sample(variant.name, tuple(_digests("", given))[:_MOST_DIGESTS], tuple(left[:_MOST_DIGESTS]), tuple(met))


@contextlib.contextmanager
def _noting(met: dict[str, None]) -> Generator[None]:
    """Note the outcomes of the conditions that the text hands to `MET`, which is a name everywhere meanwhile."""

    def note(site: int, value: Any) -> Any:
        with contextlib.suppress(Exception):  # What has no truth value says so where it is asked for.
            met.setdefault(f"{site} {bool(value)}")
        return value

    setattr(builtins, MET, note)
    try:
        yield
    finally:
        delattr(builtins, MET)


def _fill(root: nn.Module) -> None:
    """Give parameters, and buffers without data, values that follow from their names: none are all alike."""
    with torch.no_grad():
        for name, parameter in root.named_parameters():
            if parameter.is_floating_point():
                values = _values(name, parameter.shape) / max(parameter[0].numel() if parameter.dim() else 1, 4) ** 0.5
                # What begins as a constant other than zero is a scale.
                centre = 1.0 if not parameter.is_meta and parameter.numel() and _is_scale(parameter) else 0.0
                _put(root, name, (values + centre).to(parameter.dtype))
        for name, buffer in root.named_buffers():
            if buffer.is_meta:
                real = torch.zeros(buffer.shape, dtype=buffer.dtype)
                _put(root, name, (real + 1 + _values(name, buffer.shape) / 2) if real.is_floating_point() else real)


def _is_scale(parameter: torch.Tensor) -> bool:
    first = parameter.flatten()[0]
    return bool(first != 0) and bool((parameter == first).all())


def _values(name: str, shape: torch.Size) -> torch.Tensor:
    """Return values between -1 and 1 that follow from a name."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    return torch.rand(shape, generator=generator) * 2 - 1


def _put(root: nn.Module, name: str, value: torch.Tensor) -> None:
    path, _, last = name.rpartition(".")
    owner = root.get_submodule(path)
    held = getattr(owner, last)
    if not held.is_meta:
        held.copy_(value)
    elif isinstance(held, nn.Parameter):
        setattr(owner, last, nn.Parameter(value, held.requires_grad))
    else:
        setattr(owner, last, value.to(held.dtype))


def _digests(name: str, value: Any) -> Iterator[Digest]:
    """Yield the parts of a value in short."""
    match value:
        case torch.Tensor():
            yield Digest(name, f"{value.dtype} {list(value.shape)}", _numbers(value))
        case bool() | int() | float() | str() | None:
            yield Digest(name, repr(value)[:200], ())
        case Mapping():
            for key, each in value.items():
                yield from _digests(f"{name}[{key!r}]", each)
        case list() | tuple():
            yield Digest(name, f"{type(value).__name__} of {len(value)}", ())
            for number, each in enumerate(value):
                yield from _digests(f"{name}[{number}]", each)
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            for field in dataclasses.fields(value):
                yield from _digests(f"{name}.{field.name}", getattr(value, field.name))
        case _:
            yield Digest(name, type(value).__qualname__, ())


def _numbers(tensor: torch.Tensor) -> tuple[float, ...]:
    """Return numbers that tell a tensor from another of its shape: how many are finite, two means, some of them."""
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_meta or not tensor.numel():
        return ()
    values = tensor.detach().cpu()
    values = (torch.view_as_real(values.resolve_conj()) if values.is_complex() else values).double().flatten()
    finite = values.isfinite()
    values = values.where(finite, 0.0)
    step = max(values.numel() // _MOST_NUMBERS, 1)
    means = [float(finite.sum()), float(values.mean()), float(values.abs().mean())]
    return (*means, *values[::step][:_MOST_NUMBERS].tolist())


def _seed(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)


def _scaled(tensor: torch.Tensor) -> torch.Tensor:
    return tensor * -3 if tensor.is_floating_point() or tensor.is_complex() else tensor


def _small(tensor: torch.Tensor) -> torch.Tensor:
    return tensor * 0.01 + 0.5 if tensor.is_floating_point() or tensor.is_complex() else tensor


def _twice(tensor: torch.Tensor) -> torch.Tensor:
    return torch.cat([tensor, tensor]) if tensor.dim() else tensor


_VARIANTS: Final = (
    _Variant("given", torch.clone),
    _Variant("scaled", _scaled),
    _Variant("small", _small),
    _Variant("zero", torch.zeros_like),
    _Variant("twice the batch", _twice),
    _Variant("training", torch.clone, training=True),
    _Variant("another seed", torch.clone, seed=_SEED + 1),
)
"""That of another seed tells a model whose outputs are random."""
