"""Temporary replacements of attributes and globals, shared by all the traces that need them at the same time.

Tracing has to stand between the user's code and a few things that it calls: `nn.Module.__call__`, parameters read from
a module, functions registered with `wrap`. Those belong to the whole process, so a replacement has holders: the first
trace that needs it puts it in place, the last one to finish takes it away, and traces in other threads in between are
not disturbed. A replacement must therefore serve every trace and none: it finds out by itself whose call it sees.
"""

import threading
from collections.abc import Callable
from typing import Any, Final

_MISSING: Final = object()


class _Replacement:
    """What stands in one place instead of the original, and how many traces need it there."""

    __slots__ = ("holders", "original", "restore")

    def __init__(self, original: Any, restore: Callable[[Any], None]) -> None:
        self.original = original
        self.restore = restore
        self.holders = 1


class _Places:
    """The places of the process that are patched now, by owner and name. The lock guards the table."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.replacements: dict[tuple[int, str], _Replacement] = {}


_PLACES: Final = _Places()


class Patches:
    """The replacements that one trace holds; all are let go when the `with` block ends."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, str], Any] = {}
        self._searched: set[int] = set()

    def __enter__(self) -> "Patches":
        return self

    def __exit__(self, *_: object) -> None:
        with _PLACES.lock:
            for key in reversed(self._held):
                replacement = _PLACES.replacements[key]
                replacement.holders -= 1
                if replacement.holders == 0:
                    del _PLACES.replacements[key]
                    replacement.restore(replacement.original)
        self._held.clear()

    def attribute(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace `owner.name`, a class's or a module's, by what `make` returns for the present value."""

        def put(value: Any) -> None:
            setattr(owner, name, value)

        self._hold(owner, name, lambda: getattr(owner, name), put, make)

    def item(self, namespace: dict[str, Any], name: str, original: Any, make: Callable[[Any], Any]) -> None:
        """Replace `namespace[name]` by `make(original)`; a name that was not there is deleted in the end."""

        def put(value: Any) -> None:
            if value is _MISSING:
                del namespace[name]
            else:
                namespace[name] = value

        self._hold(namespace, name, lambda: namespace.get(name, _MISSING), put, lambda _: make(original))

    def first_visit(self, namespace: dict[str, Any]) -> bool:
        """Whether this trace asks for this namespace for the first time."""
        if id(namespace) in self._searched:
            return False
        self._searched.add(id(namespace))
        return True

    def _hold(
        self,
        owner: Any,
        name: str,
        get: Callable[[], Any],
        put: Callable[[Any], None],
        make: Callable[[Any], Any],
    ) -> None:
        key = (id(owner), name)
        if key in self._held:
            return
        with _PLACES.lock:
            replacement = _PLACES.replacements.get(key)
            if replacement is None:
                original = get()
                put(make(original))
                _PLACES.replacements[key] = _Replacement(original, put)
            else:
                replacement.holders += 1
            # The owner is kept so that no other object takes its id while we hold it.
            self._held[key] = owner
