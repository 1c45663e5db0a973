"""`_Patcher`: replacements of functions in namespaces and classes that last as long as a `with` statement.

This is torch.fx's tool for those who trace with means of their own. The engine's tracers do not use it, since its
replacements are for everybody at once; theirs are shared and told apart (`patching`).
"""

import builtins
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, Self

from fxengine.running import running_tracer
from fxengine.wrapping import (
    _create_wrapped_func,
    _create_wrapped_method,
    registered_functions,
    registered_methods,
)

__all__ = [
    "_Patcher",
    "_autowrap_check",
    "_maybe_revert_all_patches",
    "_new_patcher",
    "_patch_wrapped_functions",
    "current_patcher",
]

current_patcher: ContextVar["_Patcher | None"] = ContextVar("fxengine_current_patcher", default=None)
"""The innermost patcher that `_new_patcher` made in this context."""


class _PatchedFn(NamedTuple):
    """One replacement: where, under which name, what was there, and what takes its place."""

    frame_dict: Any
    fn_name: str
    orig_fn: Callable[..., Any] | None
    new_fn: Callable[..., Any]

    def revert(self) -> None:
        """Put the original back."""
        raise NotImplementedError

    def patch(self) -> None:
        """Put the replacement in place."""
        raise NotImplementedError


class _PatchedFnSetItem(_PatchedFn):
    """The replacement of a function in a namespace."""

    def revert(self) -> None:
        self.frame_dict[self.fn_name] = self.orig_fn

    def patch(self) -> None:
        self.frame_dict[self.fn_name] = self.new_fn


class _PatchedFnDel(_PatchedFn):
    """The replacement of a builtin function, under a name that the namespace did not have."""

    def revert(self) -> None:
        del self.frame_dict[self.fn_name]

    def patch(self) -> None:
        self.frame_dict[self.fn_name] = self.new_fn


class _PatchedFnSetAttr(_PatchedFn):
    """The replacement of a method of a class."""

    def revert(self) -> None:
        setattr(self.frame_dict, self.fn_name, self.orig_fn)

    def patch(self) -> None:
        setattr(self.frame_dict, self.fn_name, self.new_fn)


class _Patcher:
    """Makes replacements and takes all of them back when its `with` statement ends.

    A function that has a true attribute `__fx_already_patched` is left where it is.

    Attributes:
        patches_made: The replacements, in the order in which they were made.
        visited: The ids of what `visit_once` has seen.
    """

    def __init__(self) -> None:
        self.patches_made: list[_PatchedFn] = []
        self.visited: set[int] = set()

    def patch(
        self,
        frame_dict: dict[str, Any],
        name: str,
        new_fn: Callable[..., Any],
        deduplicate: bool = True,  # noqa: ARG002 - in torch.fx too the mark that it sets is read nowhere.
    ) -> None:
        """Replace the function `name` of a namespace, or the builtin function that it means there.

        Raises:
            KeyError: The name means nothing there.
        """
        if name not in frame_dict and hasattr(builtins, name):
            self._make(_PatchedFnDel(frame_dict, name, None, new_fn))
        elif not _is_patched(frame_dict[name]):
            self._make(_PatchedFnSetItem(frame_dict, name, frame_dict[name], new_fn))

    def patch_method(
        self,
        cls: type,
        name: str,
        new_fn: Callable[..., Any],
        deduplicate: bool = True,  # noqa: ARG002 - likewise.
    ) -> None:
        """Replace a method of a class."""
        original = getattr(cls, name)
        if not _is_patched(original):
            self._make(_PatchedFnSetAttr(cls, name, original, new_fn))

    def visit_once(self, thing: object) -> bool:
        """Return whether this is the first call with `thing`."""
        if id(thing) in self.visited:
            return False
        self.visited.add(id(thing))
        return True

    def revert_all_patches(self) -> list[_PatchedFn]:
        """Put all originals back, and return the replacements, which can be applied again."""
        for patched in self.patches_made:
            patched.revert()
        return self.patches_made

    def reapply_all_patches(self) -> list[_PatchedFn]:
        """Put all replacements in place again, and return them."""
        for patched in self.patches_made:
            patched.patch()
        return self.patches_made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self.patches_made:
            # Last first: a name may have been replaced twice.
            self.patches_made.pop().revert()
        self.visited.clear()

    def _make(self, patched: _PatchedFn) -> None:
        self.patches_made.append(patched)
        patched.patch()


@contextmanager
def _new_patcher() -> Generator[_Patcher]:
    """Make a patcher that is the current one within the `with` statement, and whose replacements end with it."""
    patcher = _Patcher()
    token = current_patcher.set(patcher)
    try:
        yield patcher
    finally:
        patcher.revert_all_patches()
        current_patcher.reset(token)


@contextmanager
def _maybe_revert_all_patches() -> Generator[None]:
    """Let functions and modules be what they are when nothing is traced, within the `with` statement.

    Replacements of the current patcher are taken back; a trace that is running in this context does not see what is
    called there.
    """
    token = running_tracer.set(None)
    patcher = current_patcher.get()
    removed = patcher.revert_all_patches() if patcher is not None else None
    try:
        yield
    finally:
        made = patcher.reapply_all_patches() if patcher is not None else None
        running_tracer.reset(token)
        assert made == removed, "CURRENT_PATCHER was changed during a revert_all_patches"


def _patch_wrapped_functions(patcher: _Patcher) -> None:
    """Replace every function and method that is registered with `wrap` by one that records calls with proxies."""
    for name, namespace in registered_functions():
        missing = name not in namespace and hasattr(builtins, name)
        original = getattr(builtins, name) if missing else namespace[name]
        patcher.patch(namespace, name, _create_wrapped_func(original))
    for cls, name in registered_methods():
        patcher.patch_method(cls, name, _create_wrapped_method(cls, name))


def _autowrap_check(patcher: _Patcher, frame_dict: dict[str, Any], function_ids: Collection[int]) -> None:
    """Replace the public functions of a namespace that have one of these ids, once for each patcher."""
    if not patcher.visit_once(frame_dict):
        return
    found = {
        name: value
        for name, value in frame_dict.items()
        if not name.startswith("_") and callable(value) and id(value) in function_ids
    }
    for name, function in found.items():
        patcher.patch(frame_dict, name, _create_wrapped_func(function))


def _is_patched(function: object) -> bool:
    return bool(getattr(function, "__fx_already_patched", False))
