"""What a model consists of at one moment: to see what code that ran has changed in it, and to put it back.

Kept are the attributes of every module, parameters, buffers and submodules included, and what is in the dicts, lists
and sets among them, however deep: the same objects come back in the same places. The state of the random generators of
torch, Python and numpy belongs to it too. The data of small buffers are kept, but for those of torch's own modules,
which only foreign code would change while it is traced; of all other tensors it is noticed that they were changed.
"""

import random
import re
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import is_
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import torch
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import is_lazy

from fxengine.hierarchy import modules_of, survey

_SEED: Final = 0

_MOST_KEPT: Final = 1 << 16
"""The most elements that a buffer has whose data are kept."""

_FRESH: Final = 623
"""Where numpy's generator is that nobody has drawn from yet."""

MISSING: Final = object()
"""Stands for the value of an attribute that does not exist."""

CONTAINERS: Final = frozenset({dict, list, set, OrderedDict, defaultdict, deque})
"""The types of what holds things, and of which there can be a copy."""

_OF_A_TRACER: Final = re.compile(
    r"_(?:tensor_constant|object_constant|torchbind_obj|tree_spec_constant|opaque_obj|\w+_constant_)\d+"
)
"""The names that a tracer gives to the constants that it puts into the root."""


@dataclass(frozen=True, slots=True)
class Change:
    """One thing in a model that is not what it was.

    Attributes:
        module_path: The path of the module.
        module: The module.
        name: The name of its attribute, parameter, buffer or submodule.
        before: What that was: `MISSING` if there was none, the tensor or a copy of the container if it is the same.
        after: What it is now, likewise.
        kind: Whether the name means something else, a container has other contents, or a tensor other data.
    """

    module_path: str
    module: nn.Module
    name: str
    before: Any
    after: Any
    kind: Literal["attribute", "contents", "data"]


class Snapshot:
    """What a model was when the snapshot was made; for a function, the random generators alone.

    Attributes:
        survey: What a walk through the model finds, for those who need it again and again; None for a function.
    """

    def __init__(self, root: nn.Module | Callable[..., Any]) -> None:
        modules = modules_of(root) if isinstance(root, nn.Module) else ()
        self.survey = survey(root) if isinstance(root, nn.Module) else None
        self._modules = {module: _Kept(module) for module in modules}
        self._random = _random_state()
        self._root = root

    def restore(self, changed: "Sequence[Changed] | None" = None) -> None:
        """Put everything back; `changed` are the modules that differ, the root apart, if that is known."""
        for module, kept in self.changed() if changed is None else changed:
            kept.restore(module)
        if changed is not None and isinstance(self._root, nn.Module):
            self._modules[self._root].restore(self._root)
        _restore_random_state(self._random)

    @contextmanager
    def put_back(self) -> Generator[None]:
        """Let the model be in the body what it was, a tracer's own constants apart; afterwards it is what it is now."""
        changed = self.changed()
        if not self.changes(changed):
            yield
            return
        assert isinstance(self._root, nn.Module)
        now, own = Snapshot(self._root), vars(self._root)
        constants = {name: value for name, value in own.items() if _OF_A_TRACER.fullmatch(name)}
        self.restore(changed)
        own.update(constants)
        try:
            yield
        finally:
            now.restore()

    def changed(self) -> "list[Changed]":
        """The modules in which anything is different now."""
        return [(module, kept) for module, kept in self._modules.items() if kept.has_changed(module)]

    def tensors(self) -> Iterator[torch.Tensor]:
        """Yield the tensors that the model had: parameters, buffers, and those in attributes and containers."""
        for kept in self._modules.values():
            yield from kept.tensors()

    def has_drawn(self) -> bool:
        """Whether a random generator of torch's, Python's or numpy's is not where it was."""
        return not _is_same_state(self._random, _random_state())

    def drawn(self) -> tuple[bool, bool]:
        """Whether torch's random generator is not where it was, and whether Python's or numpy's is not."""
        ours_before, python_before, numpys_before = self._random
        ours, python, numpys = now = _random_state()
        if numpys_before is None and numpys is not None:
            # Meanwhile numpy has made its generator, which is where no number was drawn of it yet, or beyond.
            elsewhere = python != python_before or numpys[2] != _FRESH
        else:
            elsewhere = not _is_same_state(self._random, (ours_before, *now[1:]))
        return not torch.equal(ours, ours_before), elsewhere

    def changes(self, changed: "Sequence[Changed]") -> tuple[Change, ...]:
        """What is different in modules, in no particular order. A tracer's own constants in the root do not count."""
        if not changed or self.survey is None:
            return ()
        paths = self.survey.paths
        return tuple(
            change
            for module, kept in changed
            for change in kept.changes(module, paths.get(module, ""))
            if module is not self._root or change.before is not MISSING or not _OF_A_TRACER.fullmatch(change.name)
        )


class _Kept:
    """One module as it was; what a lazy module has become in its first run, it stays."""

    __slots__ = ("attributes", "containers", "data", "empty", "kind", "versions")

    def __init__(self, module: nn.Module) -> None:
        self._keep(module)

    def _keep(self, module: nn.Module) -> None:
        self.kind = type(module)
        self.attributes = module.__dict__.copy()
        containers = [value for value in self.attributes.values() if type(value) in CONTAINERS]
        self.empty = [each for each in containers if not each]
        self.containers = [(each, each.copy()) for each in containers if each]
        for container, _ in self.containers:
            values = container.values() if isinstance(container, dict) else container
            inner = [value for value in values if type(value) in CONTAINERS]
            # The list grows while it is walked: what is in containers in containers is kept too.
            self.containers += [
                (each, each.copy()) for each in inner if all(each is not known for known, _ in self.containers)
            ]
        self.versions = [(tensor, version) for tensor in _tensors(module) if (version := _version(tensor)) is not None]
        # A module of torch's own is a leaf: only code of the user's changes buffers while it is traced.
        kept = () if str(type(module).__module__).startswith("torch.nn") else self.versions
        self.data = [(tensor, tensor.detach().clone()) for tensor, _ in kept if _is_small_and_real(tensor)]

    def restore(self, module: nn.Module) -> None:
        """Put the module back."""
        if self._has_become_another(module):
            self._keep(module)
        state = module.__dict__
        if not _is_same_dict(state, self.attributes):
            state.clear()
            state.update(self.attributes)
        for container, content in self.containers:
            if not has_content(container, content):
                fill(container, content)
        for container in self.empty:
            container.clear()
        if self.data and any(_version(tensor) != version for tensor, version in self.versions):
            self._restore_data()

    def _restore_data(self) -> None:
        """Give the buffers that were changed the data that they had."""
        before = {id(tensor): version for tensor, version in self.versions}
        for tensor, data in self.data:
            if _version(tensor) != before[id(tensor)]:
                with torch.no_grad():
                    tensor.resize_(data.shape).copy_(data)
        self.versions = [(tensor, _version(tensor) or 0) for tensor, _ in self.versions]

    def tensors(self) -> Iterator[torch.Tensor]:
        """Yield the tensors that were there."""
        for content in (self.attributes, *(content for _, content in self.containers)):
            for value in content.values() if isinstance(content, dict) else content:
                if isinstance(value, torch.Tensor):
                    yield value

    def has_changed(self, module: nn.Module) -> bool:
        """Whether anything in the module is different."""
        if self._has_become_another(module):
            self._keep(module)
        if any(self.empty) or not _is_same_dict(module.__dict__, self.attributes):
            return True
        for container, content in self.containers:
            if not has_content(container, content):
                return True
        return any(_version(tensor) != version for tensor, version in self.versions)

    def _has_become_another(self, module: nn.Module) -> bool:
        """Whether a lazy module has got its parameters."""
        return type(module) is not self.kind and issubclass(self.kind, LazyModuleMixin)

    def changes(self, module: nn.Module, path: str) -> Iterator[Change]:
        """What is different in the module, `path` being its place."""
        contents = {id(container): content for container, content in self.containers}
        before, after = self.attributes.copy(), module.__dict__.copy()
        for registry in ("_parameters", "_buffers", "_modules"):
            before |= contents.get(id(before.pop(registry)), {})
            after |= after.pop(registry)
        for name in before | after:
            was, now = before.get(name, MISSING), after.get(name, MISSING)
            if was is not now:
                yield Change(path, module, name, was, now, "attribute")
            elif type(now) in CONTAINERS and (now or id(now) in contents):
                content = contents.get(id(now), type(now)() if type(now) is not defaultdict else {})
                if not has_content(now, content):
                    yield Change(path, module, name, content, now.copy(), "contents")
        for tensor, version in self.versions:
            if _version(tensor) != version:
                name = next((name for name, value in after.items() if value is tensor), None)
                if name is not None:
                    yield Change(path, module, name, tensor, tensor, "data")


Changed: TypeAlias = tuple[nn.Module, _Kept]
"""A module in which something changed, and what it was."""


def _tensors(module: nn.Module) -> list[torch.Tensor]:
    """The buffers of a module; reading a parameter gives a symbolic value, so no code changes those while traced."""
    return [value for value in module._buffers.values() if value is not None]


def _is_small_and_real(tensor: torch.Tensor) -> bool:
    is_plain = type(tensor) is torch.Tensor and tensor.layout is torch.strided
    return is_plain and not tensor.is_meta and not tensor.is_quantized and tensor.numel() <= _MOST_KEPT


def _version(tensor: torch.Tensor) -> int | None:
    """How often a tensor was changed in place; None for those that do not count it, and that have no data yet."""
    return None if is_lazy(tensor) or tensor.is_inference() else tensor._version


def _is_same_dict(now: dict[str, Any], before: dict[str, Any]) -> bool:
    return len(now) == len(before) and all(map(is_, now.values(), before.values())) and [*now] == [*before]


def has_content(container: Any, content: Any) -> bool:
    """Whether a container has the same objects as a copy of it, in the same order."""
    kind = type(container)
    if kind not in CONTAINERS and kind is not MappingProxyType:
        container = copied(container)
    if len(container) != len(content):
        return False
    if isinstance(container, dict | MappingProxyType):
        return all(map(is_, container.keys(), content.keys())) and all(map(is_, container.values(), content.values()))
    if isinstance(container, set):
        return container == content
    return all(map(is_, container, content))


def copied(container: Any) -> Any:
    """A copy of a container; of one of somebody's own class, which is asked nothing, as what that is based on."""
    if type(container) in CONTAINERS:
        return container.copy()
    if isinstance(container, dict):
        return dict(zip(dict.keys(container), dict.values(container), strict=True))
    base: Any = next(base for base in (list, set, deque) if isinstance(container, base))
    content: Any = base.__iter__(container)
    return base(content)


def fill(container: Any, content: Any) -> None:
    """Give a container the content of a copy of it, whatever its class makes of such calls."""
    base: Any = next(base for base in (OrderedDict, dict, list, set, deque) if isinstance(container, base))
    base.clear(container)
    if isinstance(container, dict):
        for key, value in content.items():
            base.__setitem__(container, key, value)
    else:
        put: Any = getattr(base, "update", None) or base.extend
        put(container, content)


def seed_everything() -> None:
    """Let the random generators of torch, Python and numpy begin where they always do here."""
    torch.default_generator.manual_seed(_SEED)
    random.seed(_SEED)
    numpys = sys.modules.get("numpy.random")
    if numpys is not None:
        numpys.seed(_SEED)


def _random_state() -> tuple[Any, ...]:
    # Asking numpy itself would import its generators.
    numpys = sys.modules.get("numpy.random")
    return torch.get_rng_state(), random.getstate(), numpys.get_state() if numpys is not None else None


def _is_same_state(before: tuple[Any, ...], now: tuple[Any, ...]) -> bool:
    ours, python, numpys = before
    if numpys is None or now[2] is None:
        same = numpys is now[2]
    else:
        same = numpys[2] == now[2][2] and bool((numpys[1] == now[2][1]).all())
    return same and torch.equal(ours, now[0]) and python == now[1]


def _restore_random_state(state: tuple[Any, ...]) -> None:
    ours, python, numpys = state
    torch.set_rng_state(ours)
    random.setstate(python)
    if numpys is not None:
        sys.modules["numpy.random"].set_state(numpys)
