"""What the name of a parameter tells, whatever the model: how people in this field call their inputs."""

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import torch

from fxengine.inputs.clues import BATCH, EDGES, NODES, Clues
from fxengine.inputs.recipes import Constant, Recipe, TensorRecipe, Verbatim

__all__ = ["MAPS", "NAME_RULES", "OF_MEASUREMENTS", "features", "image", "is_of_graph", "of_layer"]

_Maker: TypeAlias = Callable[[Clues], list[Recipe]]

MAPS = re.compile(r"^(res_)?hidden(_states?)?(_(lists?|tuple|input))?$|^feat(ure)?(_?maps?)?s?$")
_MAP = 32
"""What is called so may be pictures of features; the side of these."""

OF_MEASUREMENTS = re.compile(r"(^|_)(missing|observed|observations?|indicating|imput(ed|ation)|nan)_?masks?$")
"""What is called so says of each number that was measured whether it is there."""

_JOINS = re.compile(r"\w*edge_?(index|indices|idx|list)(_\w+|\d+)?$|e_?idx$|edges$|adj(_t|acency)?(_?mat(rix)?)?$")
"""What says how the nodes of a graph are joined."""

_PLACES = "pos"
_KINDS_OF_NODES = re.compile(r"z$|species$|(atomic_numbers?|atom_types?|batch)$")
"""How it is called where atoms lie, or points, that have a row each in one table, and what else is known of them."""


def is_of_graph(names: Collection[str]) -> bool:
    """Whether things that are called so, taken together, are a graph, and what it has of each node."""
    return any(map(_JOINS.match, names)) or (_PLACES in names and any(map(_KINDS_OF_NODES.match, names)))


class _NameRule(NamedTuple):
    pattern: re.Pattern[str]
    make: _Maker


def _integers(shape: tuple[int, ...], high: int) -> TensorRecipe:
    return TensorRecipe(shape, "integers", torch.int64, high)


def image(clues: Clues) -> list[Recipe]:
    """Return a batch of pictures."""
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


def _positions(clues: Clues) -> list[Recipe]:
    return [_integers((BATCH, clues.lengths[0]), clues.lengths[0]), _integers((clues.lengths[0], 3), clues.lengths[0])]


def _axes(clues: Clues) -> list[Recipe]:
    """Positions along several axes for each token."""
    length = clues.lengths[0]
    return [_integers((length, 3), length), _integers((BATCH, length, 3), length), _integers((BATCH, length), length)]


def features(clues: Clues) -> list[Recipe]:
    """Return a batch of vectors, and one of sequences of them, in the order of what fits the model."""
    width = clues.widths[0]
    shapes = [(BATCH, clues.lengths[0], width), (BATCH, width)]
    return [TensorRecipe(shape) for shape in (shapes if clues.is_sequential_model else reversed(shapes))]


def of_layer(clues: Clues) -> dict[str, Recipe]:
    """Return what a layer has that is handed in for its weights."""
    width, because = clues.widths[0], "a layer has a matrix"
    return {"weight": TensorRecipe((width, width), because=because), "bias": TensorRecipe((width,), because=because)}


def _maps(clues: Clues) -> list[Recipe]:
    """Pictures of features where the first layer takes such, else sequences of them."""
    first = next((wish.recipes[0] for wish in clues.wishes), None)
    if first is None or len(first.shape) != 4:
        return features(clues)
    return [first.with_shape((*first.shape[:2], _MAP, _MAP)), *features(clues)]


def _pooled(clues: Clues) -> list[Recipe]:
    return [TensorRecipe((BATCH, clues.widths[0]))]


def _embedded(clues: Clues) -> list[Recipe]:
    return [*_pooled(clues), *features(clues)]


def _segments(clues: Clues) -> list[Recipe]:
    return [_integers((BATCH, clues.lengths[0]), 2)]


def _mask(clues: Clues) -> list[Recipe]:
    length = clues.lengths[0]
    return [
        TensorRecipe((BATCH, length), "ones", torch.bool),
        TensorRecipe((BATCH, length), "ones"),
        TensorRecipe((length, length), "ones", torch.bool),
    ]


def _padding(clues: Clues) -> list[Recipe]:
    """Nothing left out, of keys that layers leave out where it is true."""
    return [TensorRecipe((BATCH, clues.lengths[0]), "zeros", torch.bool)]


def _measured(clues: Clues) -> list[Recipe]:
    """A one for each number of a batch of features."""
    return [replace(each, fill="ones") for each in features(clues) if isinstance(each, TensorRecipe)]


def _times(_clues: Clues) -> list[Recipe]:
    return [
        _integers((BATCH,), 1000), TensorRecipe((BATCH,), "uniform"), TensorRecipe((BATCH, 1), "uniform"),
        _integers((), 1000),
    ]  # fmt: skip


def _labels(clues: Clues) -> list[Recipe]:
    return [_integers((BATCH,), clues.classes), _integers((BATCH, clues.lengths[0]), clues.classes)]


def _scores(clues: Clues) -> list[Recipe]:
    """A number for each class."""
    return [TensorRecipe((BATCH, clues.classes))]


def _lengths(clues: Clues) -> list[Recipe]:
    return [TensorRecipe((BATCH,), "full", torch.int64, clues.lengths[0])]


def _audio(_clues: Clues) -> list[Recipe]:
    return [TensorRecipe((BATCH, 16000)), TensorRecipe((BATCH, 1, 16000))]


def _spectrogram(clues: Clues) -> list[Recipe]:
    width = clues.widths[0]
    return [TensorRecipe((BATCH, width, 128)), TensorRecipe((BATCH, 128, width)), TensorRecipe((BATCH, 1, 128, 128))]


def _key_points(_clues: Clues) -> list[Recipe]:
    """Places in a picture."""
    return [TensorRecipe((BATCH, 128, 2), "uniform"), TensorRecipe((BATCH, 128, 3))]


def _points(_clues: Clues) -> list[Recipe]:
    return [TensorRecipe((BATCH, 128, 3)), TensorRecipe((BATCH, 3, 128))]


def _edges(_clues: Clues) -> list[Recipe]:
    return [_integers((2, EDGES), NODES)]


def _edge_attributes(clues: Clues) -> list[Recipe]:
    return [TensorRecipe((EDGES, clues.widths[0])), TensorRecipe((EDGES,), "uniform")]


def _edge_weights(_clues: Clues) -> list[Recipe]:
    return [TensorRecipe((EDGES,), "uniform"), TensorRecipe((EDGES, 1), "uniform")]


def _graph_index(_clues: Clues) -> list[Recipe]:
    """Which graph each node is of."""
    return [TensorRecipe((NODES,), "zeros", torch.int64)]


def _clusters(_clues: Clues) -> list[Recipe]:
    """Which group of nodes each is in that becomes one of a smaller graph."""
    return [_integers((NODES,), NODES // BATCH)]


def _nodes_of_graphs(_clues: Clues) -> list[Recipe]:
    """How many nodes each graph has."""
    return [TensorRecipe((BATCH,), "full", torch.int64, NODES // BATCH)]


def _edges_of_graphs(_clues: Clues) -> list[Recipe]:
    """How many edges each graph has."""
    return [TensorRecipe((BATCH,), "full", torch.int64, EDGES // BATCH)]


def _graph_of_edges(_clues: Clues) -> list[Recipe]:
    """Which graph each edge is of."""
    return [TensorRecipe((EDGES,), "zeros", torch.int64)]


def _atoms(clues: Clues) -> list[Recipe]:
    """Which element each atom is."""
    return [_integers((NODES,), clues.vocabulary), _integers((BATCH, NODES), clues.vocabulary)]


def _lattice(_clues: Clues) -> list[Recipe]:
    """The vectors of a cell that is repeated in space."""
    return [TensorRecipe((3, 3)), TensorRecipe((BATCH, 3, 3))]


def _adjacency(_clues: Clues) -> list[Recipe]:
    return [TensorRecipe((NODES, NODES), "ones"), TensorRecipe((BATCH, NODES, NODES), "ones")]


def _rays(clues: Clues) -> list[Recipe]:
    return [TensorRecipe((clues.lengths[0], 3)), TensorRecipe((BATCH, clues.lengths[0], 3))]


def _boxes(_clues: Clues) -> list[Recipe]:
    """Two corners of each, the lower one first."""
    return [TensorRecipe((BATCH, 8, 4), "sorted"), TensorRecipe((8, 4), "sorted")]


def _noise(clues: Clues) -> list[Recipe]:
    width = clues.widths[0]
    return [TensorRecipe((BATCH, width)), TensorRecipe((BATCH, width, 1, 1))]


def _scalar(_clues: Clues) -> list[Recipe]:
    return [Constant(1.0)]


def _share(_clues: Clues) -> list[Recipe]:
    return [Constant(0.5)]


def _axis(_clues: Clues) -> list[Recipe]:
    """Along which dimension: the first behind the batch, or the last."""
    return [Constant(1), Constant(-1)]


def _indices(clues: Clues) -> list[Recipe]:
    """Which of few things each part belongs to."""
    return [
        _integers((clues.lengths[0],), BATCH),
        _integers((BATCH, clues.lengths[0]), BATCH),
        _integers((BATCH,), BATCH),
    ]


def _pairs(_clues: Clues) -> list[Recipe]:
    """Two numbers for each picture: a size, or where it was cut out."""
    return [TensorRecipe((BATCH, 2), "full", torch.int64, 64)]


def _size(clues: Clues) -> list[Recipe]:
    return [Constant(clues.image_sizes[0]), Constant(clues.image_sizes[0][0])]


def _sample_rate(clues: Clues) -> list[Recipe]:
    return [Constant(clues.sample_rate)]


def _picture_shape(clues: Clues) -> list[Recipe]:
    """Height, width and channels, as those write them down who load pictures."""
    return [Constant((*clues.image_sizes[0], clues.channels[0]))]


def _batch_shape(clues: Clues) -> list[Recipe]:
    return [Constant((BATCH, clues.channels[0], *clues.image_sizes[0]))]


def _grid(_clues: Clues) -> list[Recipe]:
    """Frames, rows and columns of patches, for each picture."""
    return [Verbatim("torch.tensor([[1, 4, 4]])"), Verbatim("torch.tensor([[1, 4, 4], [1, 4, 4]])")]


def _merged(_clues: Clues) -> list[Recipe]:
    """How many patches of `_grid` become one in each direction, for each picture."""
    return [Verbatim("torch.tensor([2])"), Verbatim("torch.tensor([1])")]


def _sides(clues: Clues) -> list[Recipe]:
    """Rows and columns of patches, for each picture or each level."""
    several = [Verbatim(f"torch.tensor({[[4, 4]] * count})") for count in dict.fromkeys([clues.levels, 2, 1])]
    return [*several, *_grid(clues)]


def _starts(clues: Clues) -> list[Recipe]:
    """Where each level begins in a row of all: as `_sides` has them."""
    counts = dict.fromkeys([clues.levels, 2, 1])
    return [Verbatim(f"torch.tensor({[16 * level for level in range(count)]})") for count in counts]


def _references(clues: Clues) -> list[Recipe]:
    """Where each query looks, as a share of the picture, in each level."""
    counts = dict.fromkeys([clues.levels, 2, 1])
    return [TensorRecipe((BATCH, clues.lengths[0], count, 2), "uniform") for count in counts]


def _valid(clues: Clues) -> list[Recipe]:
    """How much of each level is no padding, in both directions."""
    return [TensorRecipe((BATCH, count, 2), "ones") for count in dict.fromkeys([clues.levels, 2, 1])]


def _device(_clues: Clues) -> list[Recipe]:
    return [Verbatim('torch.device("cpu")')]


def _dtype(_clues: Clues) -> list[Recipe]:
    return [Verbatim("torch.float32")]


NAME_RULES = tuple(
    _NameRule(re.compile(pattern), make)
    for pattern, make in (
        (OF_MEASUREMENTS.pattern, _measured),
        (r"(^|_)key_padding_mask$", _padding),
        (r"mask(_\d+)?$|^mask|padding_mask|is_causal_mask|mask_matrix|^is_", _mask),
        (r"^device$", _device),
        (r"(^|_)(sample|sampling)_?rate$|^(sr|fs|orig_sr)$", _sample_rate),
        (r"^(ori|img|image|pad)_shape$", _picture_shape),
        (r"(^|_)(img|image)_sizes$", _pairs),
        (r"^(enc(oder)?|dec(oder)?)_(out(put)?s?|states?|feats?|features)$", features),
        (r"^(noisy|clean|enhanced|mix(ture)?)(_(sig|signals?))?$", _audio),
        (r"^dtype$", _dtype),
        (r"^(dim|axis)$", _axis),
        (r"token_type|segment_ids|type_ids", _segments),
        (r"^(grid_thw|image_grid_thw|video_grid_thw|grid_sizes?)$|_grid_thw$", _grid),
        (r"(^|_)merge_sizes$", _merged),
        (r"(^|_)(spatial|patch|grid|feature|level|value)_(shapes|hws?)$", _sides),
        (r"(^|_)level_start_ind(ex|ices)$", _starts),
        (r"(^|_)valid_ratios?$", _valid),
        (r"(^|_)ref(erence)?_points?$", _references),
        (r"^(img|image|txt|text|latent|vid|video)_ids$", _axes),
        (r"(^|_)(indices|indexes|tags)$|^index$|(?<!edge)(?<!batch)_index$", _indices),
        (r"position_ids|^positions?$|^pos$|pos_ids", _positions),
        (r"(^|_)(cls|class)_?token$", _embedded),
        (r"(^|_)(patch|register|mem|memory)_?tokens$", features),
        (r"^(speaker|spk|singer|lang(uage)?|emotion|accent|dialect)s?(_?(id|idx|label)s?)?$|^sids?$", _labels),
        (r"(^|_)(ids|idx|tokens?|text|texts|captions?|words?|input_seq)$|^(tgt|trg|src)$", _tokens),
        (r"(^|_)([a-z]{0,2}lens?|lengths?)$", _lengths),
        (r"^(img|image|video|audio|text)_(emb(ed(ding)?)?s?|feat(ure)?s?)$", _embedded),
        (r"video|clip|^frames$", _video),
        (
            r"(^|_)(img|imgs|image|images|pixels?|pixel_values|photo|picture|rgb|frame)s?\d*($|_(?!size$))|^sample$",
            image,
        ),
        (
            r"^(?!\w_t$)(\w+_)?(t|ts|time|times|time_?steps?|sigmas?|noise_levels?|log_snr|diffusion_steps?|timestep_cond)$",
            _times,
        ),
        (r"^(y|labels?|targets?|class(es)?|class_(labels?|ids)|cond_class|gt|target_ids)$", _labels),
        (r"logits?$|^(preds?|predictions?)$", _scores),
        (r"pool|^emb$|^(t|time|time_?step|step|noise|class|global)_?emb(ed|edding)?$", _pooled),
        (r"wav|audio|speech|signal|^input_values$", _audio),
        (r"mel|spec(trogram)?s?$|^input_features$", _spectrogram),
        (r"^rays?_|^(ray|view)_?dir(ection)?s?$|^directions?$|^origins?$", _rays),
        (r"(^|_)(key_?points?|kpts|landmarks?)\d*$", _key_points),
        (r"points?\d*$|^points?|xyz|pcd|point_?cloud|^coords?$", _points),
        (r"edge_?(ind(ex|ices)|idx|list)|^e_?idx$|^(\w+_)?edges$|^edge_(in|out)$", _edges),
        (r"^edges?_(weights?|w|norm)(_\w+|\d+)?$", _edge_weights),
        (r"^edges?_(attr|feat|type)", _edge_attributes),
        (r"^((node|atom)s?_)?batch(_index)?$", _graph_index),
        (r"^(edge|bond)s?_batch(_index)?$", _graph_of_edges),
        (r"^clusters?(_ids?|_index)?\d*$", _clusters),
        (r"^(n|num)_?(node|atom)s?$", _nodes_of_graphs),
        (r"^(n|num)_?edges?$", _edges_of_graphs),
        (r"(^|_)(atomic_num(ber)?s?|atom_types?|species)$", _atoms),
        (r"^lattice$|(^|_)(cell|lattice)_?(vectors?|matrix|matrices)$", _lattice),
        (r"^adj", _adjacency),
        (r"box(es)?$|^rois?$", _boxes),
        (r"^(z|noise|latents?|noise_vector)$|^z_?(\d|[ijab])$", _noise),
        (
            r"^(?!\w+_(image|img)_size$)(original|target|crop|aspect)\w*_(size|coords|coordinates|ratio|top_left)s?$",
            _pairs,
        ),
        (r"^crops?_coords|^resolution$", _pairs),
        (r"^(scale|alpha|beta|temperature|tau|weight|guidance_scale|factor)$", _scalar),
        (r"(^|_)(prob(ability)?|rate|ratio)$", _share),
        (r"^(batch|input|data|in)_shape$", _batch_shape),
        (r"^(size|output_size|target_size|shape|hw|hw_shape|x_size|input_size)$|(^|_)(image|img)_size$", _size),
        (MAPS.pattern, _maps),
        (r"_labels?$", _labels),
        (r"(?<!se)cond|context|memory|encoder_hidden|embed|prompt|feat|hidden|query|key|value|^[qkv]$|seq", features),
    )
)
"""How people call their inputs, the more telling names first."""
