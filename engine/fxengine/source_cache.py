"""Executes generated source so that tracebacks, debuggers and ``inspect`` find its text.

Each piece of source gets a file name of its own, ``<eval_with_key>.N``, under which ``linecache`` knows it.
"""

import itertools
import linecache
import sys
from collections.abc import Callable
from typing import Any


class _EvalCacheLoader:
    """Keeps generated source, as a loader in the sense of PEP 302, which ``linecache`` asks when it needs a line."""

    def __init__(self) -> None:
        self.eval_cache: dict[str, str] = {}
        self._ids = itertools.count()

    def cache(self, src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None) -> str:  # noqa: A002
        """Return the file name under which ``src`` is known from now on.

        Args:
            src: The source.
            globals: The globals of the code; not changed.
            co_fields: File, line and name of the function that was traced, which become part of the file name.
        """
        key = self._key(co_fields or {})
        self.eval_cache[key] = src
        linecache.lazycache(key, {**globals, "__file__": key, "__name__": key, "__loader__": self})
        return key

    def get_source(self, module_name: str) -> str | None:
        """Return the source that is known under this name."""
        return self.eval_cache.get(module_name)

    def _get_key(self) -> str:
        """Return a file name that nobody has yet: where torch.fx is loaded, the next one of its series."""
        theirs = sys.modules.get("torch.fx.graph_module")
        return f"<eval_with_key>.{next(self._ids)}" if theirs is None else theirs._loader._get_key()

    def _key(self, co_fields: dict[str, Any]) -> str:
        file_name = co_fields.get("co_filename")
        if file_name is not None and not co_fields.keys() >= {"co_firstlineno", "co_name"}:
            return file_name
        key = self._get_key()
        if file_name is None:
            return key
        return f"{key} from {file_name}:{co_fields['co_firstlineno']} in {co_fields['co_name']}"


_loader = _EvalCacheLoader()


def _exec_with_source(src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None) -> None:  # noqa: A002
    """Execute ``src`` in ``globals``."""
    key = _loader.cache(src, globals, co_fields)
    # The annotations in the code must be evaluated, whatever this module's future imports are: TorchScript wants types.
    exec(compile(src, key, "exec", dont_inherit=True), globals)  # noqa: S102 - it is what generated code is for.


def _method_from_src(
    method_name: str,
    src: str,
    globals: dict[str, Any],  # noqa: A002
    co_fields: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """Return the function of this name that ``src`` defines; ``globals`` is not changed."""
    namespace = globals.copy()
    _exec_with_source(src, namespace, co_fields)
    return namespace.pop(method_name)


def _forward_from_src(
    src: str,
    globals: dict[str, Any],  # noqa: A002
    co_fields: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """Return the function ``forward`` that ``src`` defines."""
    return _method_from_src("forward", src, globals, co_fields)


class CompiledOnDemand:
    """Stands on a class for the function ``forward`` of generated source, until somebody asks for it.

    Then the source is compiled and the function takes this object's place. Compiling costs more than generating, and a
    module that is only looked at, or edited further, never needs it.
    """

    def __init__(self, src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None) -> None:  # noqa: A002
        self._source = src, globals, co_fields

    def __get__(self, instance: Any, owner: type[Any]) -> Callable[..., Any]:
        function: Any = _forward_from_src(*self._source)
        for cls in owner.__mro__:
            if vars(cls).get("forward") is self:
                cls.forward = function  # type: ignore[attr-defined] - that is where this object stands.
        return function if instance is None else function.__get__(instance, owner)
