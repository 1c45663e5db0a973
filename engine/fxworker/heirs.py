"""A class that leaves its parts, or some of its methods, to subclasses is shown by one that inherits its forward."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from torch import nn

from fxengine.classification import moments_of
from fxengine.errors import kept_in
from fxworker.building import Built, by_heir, class_of
from fxworker.lineages import is_left_out
from fxworker.loading import Loaded
from fxworker.wire import TraceTarget

_NOTHING: Final = object()


def shown_by_heir(
    target: TraceTarget,
    loaded: Loaded,
    root: Any,
    errors: Iterable[BaseException | None],
    on_guess: Callable[[], bool] | None = None,
) -> Built | None:
    """Return an instance of a subclass that has what the forward asked of an instance of a class in vain.

    Args:
        target: What the class is the target of.
        loaded: The file's module.
        root: The instance.
        errors: What its forward raised.
        on_guess: Is told before arguments of a subclass are searched for, and may forbid it by returning False.
    """
    lacking = [name for each in errors if each is not None and (name := _lacked(each, root))]
    if not lacking or type(root) is not class_of(target, loaded) or (on_guess is not None and not on_guess()):
        return None
    heir = by_heir(target, loaded)
    return heir if heir is not None and all(_has_own(heir.root, each, type(root)) for each in lacking) else None


def _lacked(error: BaseException, root: nn.Module) -> str:
    """Return the attribute that a model has not, or its method that does nothing but raise, "" if it is neither."""
    if isinstance(error, AttributeError):
        return str(error.name) if kept_in(error, AttributeError, "obj") is root else ""
    moments = moments_of(error.__traceback__) if isinstance(error, NotImplementedError) else []
    if not moments or moments[-1].value_of("self") is not root:
        return ""
    code = moments[-1].frame.f_code
    return code.co_name if is_left_out(code) else ""


def _has_own(heir: nn.Module, name: str, cls: type) -> bool:
    """Whether an instance of a subclass has an attribute that it does not have of a class."""
    return hasattr(heir, name) and getattr(type(heir), name, None) is not getattr(cls, name, _NOTHING)
