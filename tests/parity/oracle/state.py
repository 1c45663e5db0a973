"""What a trace may leave behind in a model, kept before it and put back after it."""

import random
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import nn

_DEEPEST = 3
_MOST_COPIED = 1 << 12
_Containers = list | dict | set


class Snapshot:
    """The attributes of all modules and of objects that they have, containers, small buffers, and random states.

    Objects keep their identity: what is put back are the contents of the very same dictionaries and lists.
    """

    def __init__(self, root: Any) -> None:
        """Remember the state of `root`; of a function that is the random state alone."""
        self._contents: dict[int, tuple[Any, Any]] = {}
        self._tensors: list[tuple[torch.Tensor, int, torch.Tensor]] = []
        self._random = random.getstate()
        self._torch_random = torch.get_rng_state()
        if not isinstance(root, nn.Module):
            return
        for module in root.modules():
            self._keep(vars(module), 0)
        for buffer in root.buffers():
            if not buffer.is_meta and buffer.numel() <= _MOST_COPIED:
                self._tensors.append((buffer, buffer._version, buffer.detach().clone()))

    def restore(self) -> None:
        """Put everything back."""
        for container, contents in self._contents.values():
            if container != contents if type(container) is set else not _same(container, contents):
                container.clear()
                (container.extend if isinstance(container, list) else container.update)(contents)
        for tensor, version, values in self._tensors:
            if tensor._version != version:
                with torch.no_grad():
                    tensor.copy_(values)
        random.setstate(self._random)
        torch.set_rng_state(self._torch_random)

    def _keep(self, container: Any, depth: int) -> None:
        if id(container) in self._contents:
            return
        self._contents[id(container)] = (container, container.copy())
        for item in list(container.values() if isinstance(container, dict) else container):
            if isinstance(item, _Containers) and hasattr(item, "clear"):
                self._keep(item, depth)
            elif depth < _DEEPEST and _is_plain(item):
                self._keep(vars(item), depth + 1)


def _is_plain(item: Any) -> bool:
    """Whether something is an object with attributes of its own, such as a model's configuration."""
    others = nn.Module | torch.Tensor | type | FunctionType | ModuleType | MethodType
    return not isinstance(item, others) and type(getattr(item, "__dict__", None)) is dict


def _same(container: Any, contents: Any) -> bool:
    """Whether two lists or dictionaries hold the identical objects in the same order."""
    if len(container) != len(contents):
        return False
    if isinstance(container, list):
        return all(a is b for a, b in zip(container, contents, strict=True))
    pairs = zip(container.items(), contents.items(), strict=True)
    return all(key is other_key and value is other for (key, value), (other_key, other) in pairs)
