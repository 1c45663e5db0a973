"""What a built model says about the sizes of its inputs, before it is run.

Two sources: numbers that the model keeps (``self.img_size``, ``config.vocab_size``) under the names that the field
uses for them, and the layers, each of which states what it takes. Nothing here decides; it collects what
``proposals`` puts together.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import nn

from fxengine.inputs.recipes import TensorRecipe

__all__ = ["BATCH", "COORDINATES", "EDGES", "NODES", "Clues", "LayerWish"]

BATCH = 2
"""Examples in a batch: the smallest number that tells a batch from a single example."""

NODES = 16
"""Nodes of a graph."""

EDGES = 32
"""Edges of a graph."""

COORDINATES = 4
"""The most numbers that say where something is: of a point, a ray, a box."""

_LENGTH = 16
_IMAGE = 224
_FRAMES = 8
_WIDTH = 64
_VOLUME = 64
_SIGNAL = 1024
_RANK_OF_SOUND, _STEREO = 3, 2
_LONGEST_OWN = 1024
_TELLING, _LONGEST = 3, 1 << 14
"""The fewest letters of a name that says something by itself; the largest size that is believed."""

_RATE = 16000

_IMAGE_SIZE_NAMES = (
    "image_size", "img_size", "input_size", "input_resolution", "img_resolution", "image_resolution", "resolution",
    "crop_size", "sample_size",
)  # fmt: skip
_HEIGHT_NAMES = ("image_height", "img_height", "sample_height", "input_height", "img_h", "image_h", "height")
_WIDTH_OF_IMAGE_NAMES = ("image_width", "img_width", "sample_width", "input_width", "img_w", "image_w", "width")
_LENGTH_NAMES = (
    "max_position_embeddings", "max_seq_len", "max_seq_length", "max_sequence_length", "seq_len", "seq_length",
    "sequence_length", "max_len", "max_length", "block_size", "context_length", "context_size", "n_positions", "n_ctx",
    "num_patches", "num_frames", "max_positions", "context_window", "input_chunk_length", "input_length", "input_len",
    "lookback", "lookback_window", "look_back", "history_length", "backcast_length", "encoder_length",
    "max_encoder_length", "input_window", "window_length",
)  # fmt: skip
_OWN_LENGTH_NAMES = (
    "seq_len", "seq_length", "sequence_length", "input_chunk_length", "input_length", "input_len", "lookback",
    "lookback_window", "look_back", "history_length", "backcast_length", "encoder_length", "input_window",
    "window_length",
)  # fmt: skip
"""Of these, what is called so is how long sequences are, and not how long they may be."""

_VOCABULARY_NAMES = ("vocab_size", "num_tokens", "n_vocab", "vocabulary_size", "num_embeddings", "n_tokens", "ntoken")
_CHANNEL_NAMES = (
    "in_channels", "in_chans", "num_channels", "n_channels", "input_channels", "in_ch", "img_channels", "channels",
    "image_channels", "in_dim_channels",
)  # fmt: skip
_WIDTH_NAMES = (
    "hidden_size", "d_model", "embed_dim", "dim", "n_embd", "hidden_dim", "model_dim", "in_features", "input_dim",
    "in_dim", "input_size", "emb_dim", "embedding_dim", "width",
)  # fmt: skip
_DIMENSIONS = (1, 2, 3)
"""Which dimension something is along, or how many there are."""

_LEVEL_NAMES = ("num_levels", "n_levels", "num_feature_levels")
_MOST_LEVELS = 8
_FRAME_NAMES = ("num_frames", "frames", "n_frames", "clip_len", "frame_size", "sample_frames", "max_frames")
_RATE_NAMES = ("sample_rate", "sampling_rate", "sr", "fs", "target_sample_rate", "input_sample_rate")
_CLASS_NAMES = ("num_classes", "n_classes", "num_labels", "class_dropout_prob", "classes")
_CONFIGURATION_NAMES = ("config", "cfg", "hparams", "args", "opt", "options", "params", "pretrained_cfg", "default_cfg")

_TRANSPARENT = (
    nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid,
    nn.LeakyReLU, nn.ELU, nn.Softmax, nn.Hardswish,
)  # fmt: skip
"""Layers that take any shape."""

_ANY_RANK = (nn.Linear, nn.Embedding, nn.LayerNorm)
"""Layers that care at most for the last size."""


@dataclass(frozen=True, slots=True)
class LayerWish:
    """What one layer wants as its input.

    Attributes:
        path: The layer's path in the model.
        recipes: What it wants, best first.
        any_rank: Whether it takes tensors of any rank, so that only the last size of the recipes says something, or
            nothing where they are integers.
    """

    path: str
    recipes: tuple[TensorRecipe, ...]
    any_rank: bool = False

    def lowered(self) -> "LayerWish":
        """Return what it wants to be given before a dimension of one is put in front."""
        kept = [recipe.shape[-1:] if recipe.dtype.is_floating_point else () for recipe in self.recipes]
        shapes = [
            (*recipe.shape[: -1 - len(last)], *last) if self.any_rank else recipe.shape[1:]
            for recipe, last in zip(self.recipes, kept, strict=True)
        ]
        recipes = [recipe.with_shape(shape) for recipe, shape in zip(self.recipes, shapes, strict=True)]
        return replace(self, recipes=tuple(recipes))


class Clues:
    """The sizes that a model speaks of. Every property is a list of candidates, the most specific first."""

    def __init__(self, root: nn.Module) -> None:
        self.root = root
        self.modules: dict[str, nn.Module] = dict(root.named_modules())

    @cached_property
    def image_sizes(self) -> list[tuple[int, int]]:
        """Heights and widths of images that the model names, then those that are usual."""
        named = [size for value in self._named(_IMAGE_SIZE_NAMES) if (size := _height_and_width(value))]
        sides = zip(self._named(_HEIGHT_NAMES), self._named(_WIDTH_OF_IMAGE_NAMES), strict=False)
        named += [size for pair in sides if (size := _height_and_width(pair))]
        usual = [(size, size) for size in (_IMAGE, 256, 32, 64, 28, 128, 96, 299, 384, 512, 112, 448)]
        return list(dict.fromkeys([*named, *usual]))

    @cached_property
    def lengths(self) -> list[int]:
        """Lengths of sequences: what is said to be the length of vectors, short ones, the model's (largest) length."""
        shortest = min(self.named_lengths, default=_LENGTH)
        usual = [_LENGTH, 32, 64, 128, 256, 512, 1024]
        return list(dict.fromkeys([*self._own_length, min(_LENGTH, shortest), *self.named_lengths, *usual]))

    @cached_property
    def _own_length(self) -> list[int]:
        """The length that the model says its sequences have, unless they are of tokens, of which it says the most."""
        if any(isinstance(module, nn.Embedding) for module in self.modules.values()):
            return []
        named = [each for each in self._named(_OWN_LENGTH_NAMES, self._settings) if type(each) is int]
        return [each for each in named[:1] if 1 < each <= _LONGEST_OWN]

    @cached_property
    def named_lengths(self) -> list[int]:
        """Lengths of sequences that the model names."""
        named = [value for value in self._named(_LENGTH_NAMES) if type(value) is int and 0 < value <= 1 << 16]
        return list(dict.fromkeys(named))

    @cached_property
    def vocabulary(self) -> int:
        """One more than the largest token that the model takes."""
        tables = [module.num_embeddings for module in self.modules.values() if isinstance(module, nn.Embedding)]
        named = [value for value in self._named(_VOCABULARY_NAMES) if isinstance(value, int) and value > 0]
        if tables:
            fitting = [value for value in named if value in tables]
            return fitting[0] if fitting else tables[0]
        return named[0] if named else 100

    @cached_property
    def channels(self) -> list[int]:
        """Numbers of channels of images."""
        settings, parts = (
            [each for each in self._named(_CHANNEL_NAMES, owners) if isinstance(each, int) and 0 < each <= 4096]
            for owners in (self._settings, self._parts)
        )
        first = [module.in_channels for module in self.modules.values() if isinstance(module, nn.Conv2d)][:1]
        return list(dict.fromkeys([*settings, *filter(None, first), *parts, 3, 1, 4]))

    @cached_property
    def widths(self) -> list[int]:
        """Sizes of feature vectors: what the first layers take, then what the model names."""
        layers = [wish.recipes[0].shape[-1] for wish in self.wishes if len(wish.recipes[0].shape) == 3][:1]
        return list(dict.fromkeys([*layers, *self._named_widths]))

    @property
    def lazy_width(self) -> int:
        """The size of feature vectors for a layer that takes what it is given first."""
        return self._named_widths[0]

    @cached_property
    def _named_widths(self) -> list[int]:
        named = [value for value in self._named(_WIDTH_NAMES) if isinstance(value, int) and 0 < value <= 1 << 16]
        # What is called `dim` may be a dimension, and no size of one.
        small = [value for value in self._named(("dim",)) if value in _DIMENSIONS]
        return [*(each for each in named if each not in small), _WIDTH]

    @cached_property
    def frames(self) -> int:
        """Frames of a video."""
        named = [value for value in self._named(_FRAME_NAMES) if isinstance(value, int) and 0 < value <= 1024]
        return named[0] if named else _FRAMES

    @cached_property
    def sample_rate(self) -> int:
        """Samples of sound in a second."""
        named = [value for value in self._named(_RATE_NAMES) if type(value) is int and value > 0]
        return named[0] if named else _RATE

    @cached_property
    def patch(self) -> int:
        """The side of the patches that the first convolution cuts pictures into, 1 if it does not."""
        first = next((module for module in self.modules.values() if isinstance(module, nn.Conv2d)), None)
        return first.stride[0] if first is not None and first.stride == first.kernel_size else 1

    @cached_property
    def patch_sides(self) -> tuple[int, ...]:
        """The sides of the patches that the first layer takes or cuts whose steps are as long as it is wide."""
        layers = (module for module in self.modules.values() if isinstance(module, nn.Conv2d | nn.Conv3d))
        return next((layer.kernel_size for layer in layers if layer.stride == layer.kernel_size), (1,))

    @cached_property
    def classes(self) -> int:
        """Classes that labels may name."""
        named = [value for value in self._named(_CLASS_NAMES) if type(value) is int and value > 0]
        return named[0] if named else 10

    @cached_property
    def is_of_predictions(self) -> bool:
        """Whether the model compares what was predicted with what is true."""
        return _OF_PREDICTIONS.search(type(self.root).__name__) is not None

    @cached_property
    def is_sequential_model(self) -> bool:
        """Whether the model works on sequences of vectors rather than on single ones."""
        return any(
            isinstance(module, nn.RNNBase | nn.MultiheadAttention | nn.Embedding | nn.LayerNorm)
            or _SEQUENCE_CLASS.search(type(module).__name__)
            for module in self.modules.values()
        )

    @cached_property
    def wishes(self) -> list[LayerWish]:
        """What the layers want, in the order in which the model defines them."""
        found = (self.wish(path) for path in self.modules)
        return list(itertools.islice((wish for wish in found if wish is not None), 8))

    def wish(self, path: str) -> LayerWish | None:
        """Return what the module at ``path`` wants, if it is a layer that says so."""
        module = self.modules.get(path)
        if module is None or isinstance(module, _TRANSPARENT):
            return None
        recipes = tuple(self._recipes_of(module))
        if not recipes:
            return None
        because = f"{path} ({_summary(module)})" if path else _summary(module)
        explained = tuple(recipe.with_shape(tuple(map(int, recipe.shape)), because) for recipe in recipes)
        return LayerWish(path, explained, isinstance(module, _ANY_RANK))

    def first_wish(self, path: str) -> LayerWish | None:
        """Return what the first layer wants of those that are at ``path`` or in it."""
        inside = (each for each in self.modules if each == path or each.startswith(f"{path}."))
        return next((wish for each in inside if (wish := self.wish(each)) is not None), None)

    def pattern_wish(self, pattern: str) -> LayerWish:
        """Return what an einops pattern wants on its left side."""
        because = f"the pattern {pattern!r}"
        return LayerWish("", (TensorRecipe(self.shape_of_pattern(pattern.partition("->")[0]), because=because),))

    def is_transparent(self, path: str) -> bool:
        """Whether the module at ``path`` takes any shape and returns the same."""
        return isinstance(self.modules.get(path), _TRANSPARENT)

    def _recipes_of(self, module: nn.Module) -> Iterator[TensorRecipe]:
        for types, wish in _LAYERS:
            if isinstance(module, types):
                if isinstance(getattr(module, "num_features", 0), tuple):  # As careless code builds a norm.
                    return
                yield from wish(self, module)
                return
        pattern = getattr(module, "pattern", None)  # An einops layer.
        if isinstance(pattern, str) and "->" in pattern:
            yield TensorRecipe(self.shape_of_pattern(pattern.partition("->")[0]))

    def image(self, channels: int) -> list[TensorRecipe]:
        """Return a batch of images with so many channels."""
        return [TensorRecipe((BATCH, channels, *self.image_sizes[0]))]

    def volume(self, channels: int) -> list[TensorRecipe]:
        """Return a batch of videos, and a batch of cubes, with so many channels."""
        video = TensorRecipe((BATCH, channels, self.frames, *self._video_size()))
        return [video, TensorRecipe((BATCH, channels, _VOLUME, _VOLUME, _VOLUME))]

    def enlarged(self, layer: nn.ConvTranspose2d | nn.ConvTranspose3d) -> list[TensorRecipe]:
        """Return a batch of what a transposed convolution enlarges: pictures, or mere points where it begins one."""
        channels = layer.in_channels or self.channels[0]
        if set(layer.stride) == {1} and set(layer.padding) == {0}:
            return [TensorRecipe((BATCH, channels, *(1 for _ in layer.stride)))]
        return self.image(channels) if isinstance(layer, nn.ConvTranspose2d) else self.volume(channels)

    def signal(self, channels: int) -> list[TensorRecipe]:
        """Return a batch of sequences, channels first: long ones if they look like sound."""
        return [TensorRecipe((BATCH, channels, _SIGNAL if channels <= _STEREO else self.lengths[0] * 4))]

    def sequence(self, width: int) -> list[TensorRecipe]:
        """Return a batch of sequences of vectors, channels last."""
        return [TensorRecipe((BATCH, self.lengths[0], width))]

    def vectors(self, width: int) -> list[TensorRecipe]:
        """Return a batch of vectors, and one of sequences of vectors, in the order of what fits the model."""
        both = [*self.sequence(width), TensorRecipe((BATCH, width))]
        return both if self.is_sequential_model else both[::-1]

    def tokens(self, high: int) -> list[TensorRecipe]:
        """Return a batch of sequences of integers below ``high``."""
        return [TensorRecipe((BATCH, self.lengths[0]), "integers", torch.int64, high)]

    def is_of_features(self, pattern: str) -> bool:
        """Whether the last axis of a pattern is that of feature vectors, or one is that of a picture's channels."""
        *others, last = pattern.lower().split() or [""]
        is_picture = len(others) >= _RANK_OF_SOUND and not _CHANNELS.isdisjoint(others)
        return is_picture or (bool(others) and last in _FEATURES - {"k"})

    def shape_of_pattern(self, left: str, features: int | None = None) -> tuple[int, ...]:
        """Return sizes for a list of axis names as ``b c (h p1) (w p2)``; groups stand for the whole they divide.

        Args:
            left: The axes.
            features: The size of a feature vector, where more is known of it than what the model names.
        """
        axes = re.findall(r"\([^)]*\)|\S+", left)
        names = [_axis_name(axis) for axis in axes]
        has_sides = any(name in _HEIGHTS for name in names) and any(name in _WIDTHS for name in names)
        has_sides = has_sides or len([name for name in names if name in _IMAGE_SIZE_NAMES]) > 1
        batch = next((place for place, name in enumerate(names) if name == "b" or _OF_BATCH.search(name)), 0)
        shape = tuple(
            BATCH
            if place == batch > 0
            else self._size_called(axis)
            or self._size_of_axis(
                axis,
                name,
                place,
                features or self._named_widths[0],
                is_first=place == batch and (axis in _UNNAMED or axes.count(axis) == 1),  # No square is of examples.
                is_last=place == len(axes) - 1,
                has_sides=has_sides,
            )
            for place, (axis, name) in enumerate(zip(axes, names, strict=True))
        )
        is_sound = len(names) == _RANK_OF_SOUND and names[1] in _CHANNELS and names[2] in _STEPS and shape[1] <= _STEREO
        return (*shape[:2], max(shape[2], _SIGNAL)) if is_sound else shape

    def _size_called(self, axis: str) -> int:
        """Return the number that the model or its configuration keeps under the name of an axis, 0 if there is none."""
        name = axis.lower()
        if len(name) < _TELLING or not name.isidentifier() or _OF_BATCH.search(name):
            return 0
        forms = (name, *(f"{prefix}_{name}" for prefix in ("num", "n") if name not in _OTHERWISE_COUNTED))
        kept = self._named(forms, self._settings)
        return next((size for size in kept if type(size) is int and 0 < size <= _LONGEST), 0)

    def _size_of_axis(  # noqa: C901, PLR0911 - a table of names.
        self, axis: str, name: str, place: int, features: int, *, is_first: bool, is_last: bool, has_sides: bool
    ) -> int:
        height, width = self.image_sizes[0]
        if axis.isdigit():
            return int(axis)
        if name == axis.lower() and _PATCH_SIDE.fullmatch(name):
            sides = self.patch_sides
            return sides[0] if name[-1] in "td" else sides[-2:][0] if name[-1] in "h1" else sides[-1]
        if has_sides and (name in _HEIGHTS or (name in _IMAGE_SIZE_NAMES and not is_last)):
            return height
        if has_sides and name in _IMAGE_SIZE_NAMES:
            return width
        if has_sides and name in _WIDTHS:
            return width
        if name in _CHANNELS:
            return self.channels[0] if has_sides else features if is_last else self._first_channels
        if name in {"f", "frames", "t", "frame", "time"} and place > 0 and (has_sides or name != "t"):
            return self.frames
        if name in {"d", "depth"} and has_sides and not is_last:
            return self.frames
        if _OF_NODES.search(name):
            return NODES
        if _OF_EDGES.search(name):
            return EDGES
        if place and (
            name in _FEATURES
            or _OF_FEATURES.search(name)
            or (is_last and name.endswith(("dim", "dims", "size", "features", "hidden", "embed")))
        ):
            return features if len(re.findall(r"[A-Za-z_]+", axis)) == 1 else _VOLUME
        if place and re.search(r"class|vocab", name):
            return self.classes
        return BATCH if is_first else self.lengths[0]

    @cached_property
    def levels(self) -> int:
        """How many pictures of features there are, each of another size."""
        named = [value for value in self._named(_LEVEL_NAMES) if type(value) is int and 0 < value <= _MOST_LEVELS]
        return next(iter(named), 2)

    @cached_property
    def _first_channels(self) -> int:
        """Channels of a signal, channels first."""
        convolutions = (
            module for module in self.modules.values() if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d)
        )
        return next((module.in_channels for module in convolutions if module.in_channels), self.channels[0])

    def _video_size(self) -> tuple[int, int]:
        height, width = self.image_sizes[0]
        return (height, width) if self._named(_IMAGE_SIZE_NAMES) else (112, 112)

    def _named(self, names: Sequence[str], owners: Sequence[Mapping[str, Any]] | None = None) -> list[Any]:
        """Return the values that the model, its configurations or its submodules keep under one of ``names``."""
        owners = [*self._settings, *self._parts] if owners is None else owners
        return [owner[name] for owner in owners for name in names if owner.get(name) is not None]

    @cached_property
    def _settings(self) -> list[Mapping[str, Any]]:
        """Where numbers are kept that are about the whole model: the root and its configurations."""
        found = [getattr(self.root, name, None) for name in _CONFIGURATION_NAMES]
        configurations = [_as_mapping(each) for each in found if each is not None]
        nested = [
            _as_mapping(value) for owner in configurations for value in owner.values() if _is_configuration(value)
        ]
        return [vars(self.root), *configurations, *nested]

    @cached_property
    def _parts(self) -> list[Mapping[str, Any]]:
        """Where numbers are kept that are about a part of the model: the other modules in order."""
        return [vars(module) for module in self.modules.values()]


_LAYERS: tuple[tuple[tuple[type[nn.Module], ...], Callable[[Clues, Any], list[TensorRecipe]]], ...] = (
    ((nn.Conv1d, nn.ConvTranspose1d), lambda clues, layer: clues.signal(layer.in_channels or clues.channels[0])),
    ((nn.Conv2d,), lambda clues, layer: clues.image(layer.in_channels or clues.channels[0])),
    ((nn.Conv3d,), lambda clues, layer: clues.volume(layer.in_channels or clues.channels[0])),
    ((nn.ConvTranspose2d, nn.ConvTranspose3d), lambda clues, layer: clues.enlarged(layer)),
    ((nn.Linear,), lambda clues, layer: clues.vectors(layer.in_features or clues.lazy_width)),
    ((nn.Embedding, nn.EmbeddingBag), lambda clues, layer: clues.tokens(layer.num_embeddings)),
    (
        (nn.LayerNorm,),
        lambda clues, layer: [TensorRecipe((BATCH, clues.lengths[0], *layer.normalized_shape))],
    ),
    (
        (nn.BatchNorm1d, nn.InstanceNorm1d),
        lambda clues, layer: [TensorRecipe((BATCH, layer.num_features)), *clues.signal(layer.num_features)],
    ),
    ((nn.BatchNorm2d, nn.InstanceNorm2d), lambda clues, layer: clues.image(layer.num_features)),
    ((nn.BatchNorm3d, nn.InstanceNorm3d), lambda clues, layer: clues.volume(layer.num_features)),
    ((nn.GroupNorm,), lambda clues, layer: clues.image(layer.num_channels)),
    ((nn.RNNBase,), lambda clues, layer: clues.sequence(layer.input_size)),
    ((nn.RNNCellBase,), lambda _clues, layer: [TensorRecipe((BATCH, layer.input_size))]),
    ((nn.MultiheadAttention,), lambda clues, layer: clues.sequence(layer.embed_dim)),
    ((nn.Transformer,), lambda clues, layer: clues.sequence(layer.d_model)),
)
"""What the layers of ``torch.nn`` take."""

_HEIGHTS = frozenset({"h", "height", "rows", "h_in", "img_h"})
_WIDTHS = frozenset({"w", "width", "cols", "w_in", "img_w"})
_PATCH_SIDE = re.compile(r"p(atch)?_?([tdhw12]|size|height|width)")
_CHANNELS = frozenset(
    {"c", "ch", "channels", "channel", "in_channels", "num_channels", "c_in", "cin", "in_chans", "ic"}
)
_STEPS = frozenset({"t", "l", "time", "length", "samples", "seq_len"})
_FEATURES = frozenset({
    "d", "dim", "e", "emb", "features", "embed_dim", "hidden", "hidden_dim", "hidden_size", "d_model", "embedding_dim",
    "n_embd", "feature_dim", "feat_dim", "model_dim", "in_features", "in_dim", "input_dim", "k", "width",
})  # fmt: skip
_UNNAMED = frozenset({"n", "_"})
"""What stands for axes that have no name, however many there are."""

_OF_BATCH = re.compile(r"batch|^bsz?$|^bs$")
_OTHERWISE_COUNTED = frozenset({"tokens", "steps", "layers"})
"""What models count under such names is no size of theirs: a vocabulary, steps of a diffusion."""

_OF_EDGES = re.compile(r"(^|_)edges?$")
_OF_NODES = re.compile(r"(^|_)(nodes?|vertices|vertexes)$")
_OF_FEATURES = re.compile(r"^(n|num)_(of_)?(features|feats)$|^f_?in$|^in_?f$")
"""How people call the axes of their tensors."""

_OF_PREDICTIONS = re.compile(r"Loss|Entropy|Criterion|Metric|Accuracy|Score$")
"""What compares predictions is called so."""

_SEQUENCE_CLASS = re.compile(r"Attention|Transformer|(En|De)coderLayer|Mixer|Mamba|SSM", re.IGNORECASE)


def _axis_name(axis: str) -> str:
    words = re.findall(r"[A-Za-z_]\w*", axis)
    return words[0].lower() if words else ""


def _as_mapping(configuration: Any) -> Mapping[str, Any]:
    """Return what a configuration object holds by name."""
    if isinstance(configuration, Mapping):
        return configuration
    return getattr(configuration, "__dict__", {})


def _is_configuration(value: Any) -> bool:
    return isinstance(value, Mapping) or type(value).__name__.endswith(("Config", "Args", "Namespace"))


def _height_and_width(value: Any) -> tuple[int, int] | None:
    """Return the image size that ``value`` stands for: a side, a pair, or channels and a pair."""
    if type(value) is int:
        return (value, value) if 8 <= value <= 4096 else None
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) in {2, 3}:
        height, width = value[-2:]
        if type(height) is int and type(width) is int and 8 <= min(height, width) <= max(height, width) <= 4096:
            return height, width
    return None


def _summary(layer: nn.Module) -> str:
    """Return a layer with its first argument, as ``Conv2d(3, …)``."""
    for name in _FIRST_ARGUMENTS:
        value = getattr(layer, name, None)
        if isinstance(value, int | tuple) and not isinstance(value, bool):
            return f"{type(layer).__name__}({value}, …)"
    return type(layer).__name__


_FIRST_ARGUMENTS = (
    "in_channels", "in_features", "num_embeddings", "input_size", "embed_dim", "num_features", "num_channels",
    "normalized_shape",
)  # fmt: skip
