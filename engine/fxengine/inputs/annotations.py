"""What annotations say, as far as they could be resolved; what one of several is called, and is."""

import inspect
import typing
from typing import Any

from fxengine.inputs.clues import BATCH
from fxengine.inputs.recipes import Recipe, TensorRecipe
from fxengine.inputs.signature import is_tensor_type, without_none

__all__ = ["holds_tensors", "name_of", "of_one", "plain", "resolved", "singular"]


def singular(name: str) -> str:
    """Return what one of several is called: `box` of `boxes`, `index` of `indices`."""
    if name.endswith("indices"):
        return f"{name.removesuffix('indices')}index"
    if name.endswith(("xes", "sses", "ches", "shes")):
        return name.removesuffix("es")
    return name if name.endswith("ss") else name.removesuffix("s")


def of_one(recipe: Recipe) -> Recipe:
    """Return what one example of a batch has: of what each has several of, a few."""
    if isinstance(recipe, TensorRecipe) and recipe.shape[:1] == (BATCH,) and len(recipe.shape) > 2:
        return recipe.with_shape((BATCH, *recipe.shape[2:]))
    return recipe


def resolved(annotation: Any) -> Any:
    """Return an annotation, None where there is none, or one that was not evaluated."""
    return None if annotation is inspect.Parameter.empty or isinstance(annotation, str) else annotation


def name_of(annotation: Any) -> str:
    """Return what a class is called, "" for what has no name."""
    return getattr(annotation, "__name__", "")


def plain(annotation: Any) -> Any:
    """Return the plain type in the innermost container of an annotation."""
    annotation = without_none(annotation)
    return annotation if annotation in {int, float, bool, str} else None


def holds_tensors(annotation: Any) -> bool:
    """Whether an annotation is a tensor, or something that holds such."""
    annotation = without_none(annotation)
    if is_tensor_type(annotation):
        return True
    return hasattr(annotation, "dim_str") or any(map(holds_tensors, typing.get_args(annotation)))
