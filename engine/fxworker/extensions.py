"""Extensions that code compiles when it is imported, or when a model is made, are stood in for.

Compiling one takes longer than a trace may, and wants compilers that a machine without an accelerator has not. What a
package has compiled that is not installed is stood in for in the same way (`absent`). Torch's own compiler, which is
only loaded, is to find that there is no triton, though one is stood in for.
"""

import contextlib
import functools
import sys
from collections.abc import Callable, Generator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any, Final, cast

from fxworker.absences import ABSENCES, NOWHERE, not_found
from fxworker.absent import AbsentModule
from fxworker.callers import is_constructing
from fxworker.guarded import unguarded

_COMPILER: Final = "torch.utils.cpp_extension"

_ASKING: Final = frozenset({"torch._inductor.runtime.triton_compat", "torch.utils._triton"})
"""Modules of torch's that ask whether there is triton."""


@functools.cache
def without_extensions() -> None:
    """Let torch compile no extensions in this process, for good, whoever imports what it does that with."""
    sys.meta_path.insert(0, _Finder())
    if _COMPILER in sys.modules:
        _stand_in(sys.modules[_COMPILER])
    if "torch.utils._triton" in sys.modules:
        # It remembers the answer.
        sys.modules["torch.utils._triton"].has_triton_package()


class _Finder(MetaPathFinder):
    """Finds the modules of torch's that compile."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of one, None for every other module."""
        is_one = fullname == _COMPILER or fullname in _ASKING
        spec = PathFinder.find_spec(fullname, path, target) if is_one else None
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    """Loads one of these."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute it, and let it compile nothing."""
        with _without_triton():
            super().exec_module(module)
            if module.__name__ == "torch.utils._triton":
                module.has_triton_package()
        if module.__name__ == _COMPILER:
            _stand_in(module)


@contextlib.contextmanager
def _without_triton() -> Generator[None]:
    """Let there be no triton in the body if it is only stood in for."""
    held = {each: sys.modules[each] for each in sys.modules if each.partition(".")[0] == "triton"}
    is_absent = isinstance(held.get("triton"), AbsentModule)
    if is_absent:
        sys.modules.update(dict.fromkeys(held, cast("ModuleType", None)))
    try:
        yield
    finally:
        if is_absent:
            sys.modules.update(held)


def _stand_in(module: Any) -> None:
    """Let the functions of torch's that compile an extension give what stands for one."""
    module.load, module.load_inline = map(_loading, (module.load, module.load_inline))


def _loading(load: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that gives what stands for an extension, unless the code is prepared that there is none."""

    @functools.wraps(load)
    def loaded(name: str, *_args: Any, **options: Any) -> Any:
        # It is called by its name and more, so that it is no module that there is.
        path = f"{name} (an extension that would be compiled)"
        error = not_found(path)
        way = unguarded() if ABSENCES.permissive or is_constructing(sys._getframe(1)) else None
        if way is None:
            raise error
        if path not in ABSENCES.names:
            ABSENCES.names.add(path)
            ABSENCES.found.append(error.with_traceback(way))
        # Of one that only registers operators torch gives the file.
        is_module = options.get("is_python_module", True) and not options.get("is_standalone", False)
        return AbsentModule(path) if is_module else f"{NOWHERE}/{name}"

    return loaded
