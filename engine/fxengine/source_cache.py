"""Executes generated source so that tracebacks, debuggers and ``inspect`` find its text.

Each piece of source gets a file name of its own, ``<eval_with_key>.N``, under which ``linecache`` knows it.
"""

import functools
import itertools
import linecache
import sys
import types
from collections.abc import Callable
from typing import Any

__all__ = [
    "CompiledOnDemand",
    "_EvalCacheLoader",
    "_exec_with_source",
    "_forward_from_src",
    "_loader",
    "_method_from_src",
]


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


def _exec_with_source(
    src: str,
    globals: dict[str, Any],  # noqa: A002
    co_fields: dict[str, Any] | None = None,
    defined: dict[str, Any] | None = None,
) -> None:
    """Execute ``src`` with ``globals``, in which what it defines goes unless there is another place for that."""
    key = _loader.cache(src, globals, co_fields)
    # The annotations in the code must be evaluated, whatever this module's future imports are: TorchScript wants types.
    code = compile(src, key, "exec", dont_inherit=True)
    exec(code, globals, defined)  # noqa: S102 - it is what generated code is for.


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
    module that is only looked at, or edited further, never needs it. Who finds this object in the dict of the class,
    as ``torch.compile`` does, may take it for the function: it is compiled then too.

    What can go wrong must go wrong at once. The head of the code (the registrations of wrapped functions, which a trace
    must know of when it begins, and the signature with annotations and default values) is therefore executed, and if
    the body is not known to be sound, everything is.
    """

    def __init__(
        self,
        cls: type[Any],
        src: str,
        globals: dict[str, Any],  # noqa: A002
        co_fields: dict[str, Any] | None = None,
        head: str | None = None,
    ) -> None:
        """Put a stand-in on ``cls`` for the function ``forward`` that ``src`` defines.

        Args:
            cls: The class of a module.
            src: The source.
            globals: The globals of the code; not changed.
            co_fields: File, line and name of the function that was traced.
            head: What precedes the function's body, if that is known to be sound.
        """
        self._cls: Any = cls
        self._src = src
        self._globals = globals.copy()
        self._co_fields = co_fields
        self._cls.forward = self
        if head is None or not self._executes(f"{head}    pass\n"):
            _ = self._function

    def _executes(self, src: str) -> bool:
        try:
            exec(compile(src, "<head>", "exec", dont_inherit=True), self._globals, {})  # noqa: S102
        except Exception:  # noqa: BLE001 - the user's annotations raise what they like, and the whole code will again.
            return False
        return True

    def __get__(self, instance: Any, owner: type[Any]) -> Callable[..., Any]:
        function: Any = self._function
        return function if instance is None else function.__get__(instance, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self._function(*args, **kwargs)

    @property
    def __class__(self) -> type[Any]:  # pyright: ignore[reportIncompatibleMethodOverride] - what `isinstance` goes by.
        return types.FunctionType

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)

    @functools.cached_property
    def _function(self) -> Callable[..., Any]:
        defined: dict[str, Any] = {}
        _exec_with_source(self._src, self._globals, self._co_fields, defined)
        function = defined.pop("forward")
        self._globals.update(defined)
        if vars(self._cls).get("forward") is self:
            self._cls.forward = function
        return function
