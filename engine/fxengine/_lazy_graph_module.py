"""``_LazyGraphModule``: a graph module that generates code only when somebody looks at it or calls it.

A ``GraphModule`` generates its code whenever it is recompiled. Compilers that edit graphs a thousand times and never
look at the code have use for the lazy kind. Which kind ``_make_graph_module`` makes is a matter of the calling context.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from fxengine.codegen import PythonCode
from fxengine.graph_module import GraphModule, class_in_use

__all__ = [
    "_LazyGraphModule",
    "_force_skip_lazy_graph_module",
    "_get_graph_module_cls",
    "_make_graph_module",
    "_use_lazy_graph_module",
]

_never_lazy: ContextVar[bool] = ContextVar("_never_lazy", default=False)


def __getattr__(name: str) -> bool:
    """Return torch.fx's flags, which say what is in use in this context."""
    if name == "_use_lazy_graph_module_flag":
        return class_in_use.get() is _LazyGraphModule
    if name == "_force_skip_lazy_graph_module_flag":
        return _never_lazy.get()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@contextmanager
def _use_lazy_graph_module(should_use: bool) -> Generator[None]:
    """Make ``_make_graph_module`` choose the lazy kind, or the other, within the ``with`` statement."""
    token = class_in_use.set(_LazyGraphModule if should_use and not _never_lazy.get() else None)
    try:
        yield
    finally:
        class_in_use.reset(token)


@contextmanager
def _force_skip_lazy_graph_module() -> Generator[None]:
    """Make ``_use_lazy_graph_module`` have no effect within the ``with`` statement: TorchScript needs code at once."""
    token = _never_lazy.set(True)
    try:
        yield
    finally:
        _never_lazy.reset(token)


def _get_graph_module_cls() -> type[GraphModule]:
    """Return the class that ``_make_graph_module`` makes an instance of."""
    return class_in_use.get() or GraphModule


def _make_graph_module(*args: Any, graph_module_cls: type[GraphModule] | None = None, **kwargs: Any) -> GraphModule:
    """Return a graph module of the class that is given, else of the one that is in use."""
    return (graph_module_cls or _get_graph_module_cls())(*args, **kwargs)


class _LazyGraphModule(GraphModule):
    """A graph module whose ``recompile`` does nothing but note that the code is out of date."""

    @classmethod
    def from_graphmodule(cls, gm: GraphModule) -> GraphModule:
        """Return a lazy module with the graph and attributes of ``gm``; ``gm`` itself if it is one."""
        return gm if isinstance(gm, _LazyGraphModule) else _LazyGraphModule(gm, gm.graph)

    @staticmethod
    def force_recompile(gm: GraphModule) -> None:
        """Generate the code of ``gm`` now, if it is a lazy module and its code is out of date."""
        if isinstance(gm, _LazyGraphModule):
            gm.real_recompile()

    def real_recompile(self) -> None:
        """Generate the code if it is out of date."""
        if self._needs_recompile():
            self._real_recompile()

    def _lazy_forward(self, *args: Any, **kwargs: Any) -> Any:
        """Generate the code and call the module again; whoever kept this method may call it often."""
        self.real_recompile()
        assert not self._needs_recompile(), "Recompilation required after real_recompile()"
        return self(*args, **kwargs)

    forward = _lazy_forward

    @classmethod
    def _needs_recompile(cls) -> bool:
        return cls.forward is cls._lazy_forward

    def _real_recompile(self) -> PythonCode:
        return super().recompile()

    def _up_to_date_code(self) -> PythonCode:
        return self._real_recompile()

    @classmethod
    def recompile(cls) -> None:  # type: ignore[override] - there is no code to return.
        """Note that the code is out of date. The class is the instance's own."""
        cls.forward = cls._lazy_forward

    @property
    def code(self) -> str:
        """The source of ``forward``, generated now if it is out of date."""
        self.real_recompile()
        return super().code

    def __str__(self) -> str:
        self.real_recompile()
        return super().__str__()
