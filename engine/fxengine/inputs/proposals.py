"""What a parameter might want, judged by its annotation, its name and the layer that takes it.

Proposals are ordered by how often they are right. They need not be right: the search runs the model on them and
mends what the model complains about. A rule here is about how people name things in this field, never about one
model.
"""

import collections.abc
import re
import typing
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import torch

from fxengine.inputs.clues import BATCH, Clues, LayerWish
from fxengine.inputs.recipes import Constant, Listing, Recipe, Record, TensorRecipe
from fxengine.inputs.signature import Parameter, without_none

__all__ = ["propose"]

_Maker: TypeAlias = Callable[[Clues], list[Recipe]]

_SCALARS: dict[type, Any] = {int: 1, float: 1.0, bool: False, str: ""}


class _NameRule(NamedTuple):
    pattern: re.Pattern[str]
    make: _Maker


def propose(parameter: Parameter, clues: Clues, wish: LayerWish | None, *, is_first: bool) -> list[Recipe]:
    """Return recipes for one parameter, best first; never empty.

    Args:
        parameter: The parameter.
        clues: What the model says of sizes.
        wish: What the layer that takes the parameter wants, if that is known from a graph.
        is_first: Whether it is the first one: what no rule knows is then taken for the model's main input.
    """
    recipes: list[Recipe] = [*_by_annotation(parameter, clues), *(wish.recipes if wish else ())]
    name = parameter.name.lower()
    recipes += [
        recipe for rule in _NAME_RULES if rule.pattern.search(name) for recipe in _explain(rule.make(clues), parameter)
    ]
    if is_first or not recipes:
        recipes += [recipe for other in clues.wishes[:2] for recipe in other.recipes]
    recipes += [*_image(clues), *_features(clues)] if is_first else _features(clues)
    return list(dict.fromkeys(recipes))


def _explain(recipes: list[Recipe], parameter: Parameter) -> Iterator[Recipe]:
    because = f"the name `{parameter.name}`"
    for recipe in recipes:
        yield recipe.with_shape(recipe.shape, because) if isinstance(recipe, TensorRecipe) else recipe


def _by_annotation(parameter: Parameter, clues: Clues) -> list[Recipe]:
    """Return what the annotation alone decides: numbers, containers of tensors, shapes written out."""
    annotation = without_none(parameter.annotation)
    dimensions = getattr(annotation, "dim_str", None)
    if isinstance(dimensions, str):
        return [_jaxtyped(annotation, dimensions, clues, parameter)]
    if annotation in _SCALARS:
        return [Constant(_SCALARS[annotation], f"the annotation of `{parameter.name}`")]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in {list, collections.abc.Sequence, tuple} and arguments and _holds_tensors(arguments[0]):
        inner = Parameter(parameter.name, arguments[0], required=True, keyword_only=False)
        item = propose(inner, clues, None, is_first=True)[0]
        if origin is tuple:
            count = 2 if Ellipsis in arguments else len(arguments)
            return [Listing((item,) * count, tuple)]
        if isinstance(item, TensorRecipe) and len(item.shape) == 4:  # A list of images has no batch dimension.
            item = item.with_shape(item.shape[1:])
        return [Listing((item, item))]
    if origin in {dict, collections.abc.Mapping} and _holds_tensors(arguments[-1]):
        return [Record(())]
    return []


def _holds_tensors(annotation: Any) -> bool:
    annotation = without_none(annotation)
    return annotation is torch.Tensor or any(map(_holds_tensors, typing.get_args(annotation)))


def _jaxtyped(annotation: Any, dimensions: str, clues: Clues, parameter: Parameter) -> TensorRecipe:
    """Return the tensor of a jaxtyping annotation such as ``Float[Tensor, "b c h w"]``."""
    axes = [axis.lstrip("#*?_") for axis in dimensions.split() if axis != "..."]
    shape = clues.shape_of_pattern(" ".join(axis.partition("=")[2] or axis for axis in axes))
    because = f"the annotation of `{parameter.name}`"
    kinds = "".join(map(str, getattr(annotation, "dtypes", ())))
    if "bool" in kinds and "float" not in kinds:
        return TensorRecipe(shape, "ones", torch.bool, because=because)
    if "int" in kinds and "float" not in kinds:
        return TensorRecipe(shape, "integers", torch.int64, clues.vocabulary, because)
    return TensorRecipe(shape, because=because)


def _integers(shape: tuple[int, ...], high: int) -> TensorRecipe:
    return TensorRecipe(shape, "integers", torch.int64, high)


def _image(clues: Clues) -> list[Recipe]:
    height, width = clues.image_sizes[0]
    return [TensorRecipe((BATCH, clues.channels[0], height, width))]


def _video(clues: Clues) -> list[Recipe]:
    height, width = clues.image_sizes[0]
    channels, frames = clues.channels[0], clues.frames
    return [
        TensorRecipe((BATCH, channels, frames, height, width)),
        TensorRecipe((BATCH, frames, channels, height, width)),
    ]


def _tokens(clues: Clues) -> list[Recipe]:
    return [_integers((BATCH, clues.lengths[0]), clues.vocabulary)]


def _features(clues: Clues) -> list[Recipe]:
    width = clues.widths[0]
    shapes = [(BATCH, clues.lengths[0], width), (BATCH, width)]
    return [TensorRecipe(shape) for shape in (shapes if clues.is_sequential_model else reversed(shapes))]


def _segments(clues: Clues) -> list[Recipe]:
    return [_integers((BATCH, clues.lengths[0]), 2)]


def _mask(clues: Clues) -> list[Recipe]:
    length = clues.lengths[0]
    return [
        TensorRecipe((BATCH, length), "ones", torch.bool),
        TensorRecipe((BATCH, length), "ones"),
        TensorRecipe((length, length), "ones", torch.bool),
    ]


def _times(_clues: Clues) -> list[Recipe]:
    return [_integers((BATCH,), 1000), TensorRecipe((BATCH,), "uniform"), TensorRecipe((BATCH, 1), "uniform")]


def _labels(clues: Clues) -> list[Recipe]:
    return [_integers((BATCH,), clues.classes), _integers((BATCH, clues.lengths[0]), clues.classes)]


def _lengths(clues: Clues) -> list[Recipe]:
    return [TensorRecipe((BATCH,), "full", torch.int64, clues.lengths[0])]


def _audio(_clues: Clues) -> list[Recipe]:
    return [TensorRecipe((BATCH, 16000)), TensorRecipe((BATCH, 1, 16000))]


def _spectrogram(clues: Clues) -> list[Recipe]:
    width = clues.widths[0]
    return [TensorRecipe((BATCH, width, 128)), TensorRecipe((BATCH, 128, width)), TensorRecipe((BATCH, 1, 128, 128))]


def _points(_clues: Clues) -> list[Recipe]:
    return [TensorRecipe((BATCH, 128, 3)), TensorRecipe((BATCH, 3, 128))]


def _edges(_clues: Clues) -> list[Recipe]:
    return [_integers((2, 32), 16)]


def _adjacency(clues: Clues) -> list[Recipe]:
    length = clues.lengths[0]
    return [TensorRecipe((BATCH, length, length), "ones"), TensorRecipe((length, length), "ones")]


def _boxes(_clues: Clues) -> list[Recipe]:
    return [TensorRecipe((BATCH, 8, 4), "uniform"), TensorRecipe((8, 4), "uniform")]


def _noise(clues: Clues) -> list[Recipe]:
    width = clues.widths[0]
    return [TensorRecipe((BATCH, width)), TensorRecipe((BATCH, width, 1, 1))]


def _scalar(_clues: Clues) -> list[Recipe]:
    return [Constant(1.0)]


def _size(clues: Clues) -> list[Recipe]:
    return [Constant(clues.image_sizes[0])]


_NAME_RULES = tuple(
    _NameRule(re.compile(pattern), make)
    for pattern, make in (
        (r"mask$|^mask|padding_mask|is_causal_mask", _mask),
        (r"token_type|segment_ids|type_ids", _segments),
        (r"(^|_)(ids|idx|tokens?|text|texts|captions?|words?|input_seq)$|^(tgt|trg|src)$", _tokens),
        (r"video|clip|^frames$", _video),
        (r"(^|_)(img|imgs|image|images|pixels?|pixel_values|photo|picture|rgb|frame)s?\d*($|_)|^sample$", _image),
        (r"^(t|ts|time|times|time_?steps?|sigmas?|noise_levels?|log_snr|diffusion_steps?|timestep_cond)$", _times),
        (r"^(y|labels?|targets?|class(es)?|class_(labels?|ids)|cond_class|gt|target_ids)$", _labels),
        (r"(^|_)(lens?|lengths?)$|_lens$", _lengths),
        (r"wav|audio|speech|signal|^input_values$", _audio),
        (r"mel|spec(trogram)?s?$|^input_features$", _spectrogram),
        (r"points?|xyz|pcd|point_?cloud|^coords?$", _points),
        (r"^edge_index$|^edges$", _edges),
        (r"^adj", _adjacency),
        (r"box(es)?$|^rois?$", _boxes),
        (r"^(z|noise|latents?|noise_vector)$", _noise),
        (r"^(scale|alpha|beta|temperature|tau|weight|guidance_scale|factor)$", _scalar),
        (r"^(size|output_size|target_size|image_size|img_size|shape|hw)$", _size),
        (r"cond|context|memory|encoder_hidden|embed|prompt|feat|hidden|query|key|value|^[qkv]$|seq", _features),
    )
)  # fmt: skip
"""How people call their inputs, the more telling names first."""
