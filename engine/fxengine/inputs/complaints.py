"""What messages say that torch, libraries or people wrote, and what to do about it.

Each rule is a pattern and what it moves. Numbers in messages are taken for sizes where nothing better is known.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import torch

from fxengine.inputs import kinds
from fxengine.inputs.clues import BATCH
from fxengine.inputs.mentions import by_mention
from fxengine.inputs.moves import Change, Moves
from fxengine.inputs.proposals import Proposer
from fxengine.inputs.recipes import Constant, Fill, Place, Recipe, Record, TensorRecipe

__all__ = ["by_message"]

_Act: TypeAlias = Callable[[Moves, re.Match[str]], Iterator[Change]]


def by_message(moves: Moves, message: str, proposer: Proposer) -> Iterator[Change]:
    """Yield changes for the numbers and names in a message."""
    for pattern, act in _MESSAGES:
        match = pattern.search(message)
        if match is not None:
            yield from act(moves, match)
    yield from by_mention(moves, message, proposer)


def _unpacked(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """``not enough values to unpack (expected 3, got 2)``: a shape was unpacked."""
    wanted, got = (int(match[1]), int(match[2])) if match[2] else (int(match[1]), -1)
    for place, recipe in moves.tensors():
        if len(recipe.shape) == got or got < 0:
            yield from moves.rank(place, recipe, wanted, 0.4)
        elif len(recipe.shape) < got:  # A shape with something else beside it: `b, h, w, heads = *x.shape, self.heads`.
            yield from moves.rank(place, recipe, len(recipe.shape) + wanted - got, 0.5)


def _dimensions(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """Some rank is not the one that was wanted."""
    numbers = [int(number) for number in match.groups() if number is not None]
    ranks = [number for number in numbers if 0 < number <= 6]
    got = {len(recipe.shape) for _, recipe in moves.tensors()}
    if len(got) == 1 < len(moves.tensors()):  # What is wanted of one is mostly wanted of all that are alike.
        for rank in ranks:
            yield from moves.rerank(frozenset(place for place, _ in moves.tensors()), min(got), rank, 0.1)
    for place, recipe in moves.tensors():
        cost = 0.6 if place in moves.suspects else 1.2
        for rank in dict.fromkeys([*ranks, len(recipe.shape) + 1]):
            if rank != len(recipe.shape):
                yield from moves.rank(place, recipe, rank, cost + (0.0 if rank in ranks else _UNSAID))


def _fewer(moves: Moves, _match: re.Match[str]) -> Iterator[Change]:
    """``repeat dims can not be smaller than number of dimensions of tensor``: a rank is too high."""
    for place, recipe in moves.among(moves.suspects):
        yield from moves.rank(place, recipe, len(recipe.shape) - 1, 0.3)


def _off(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """``Wrong shape: expected 4 dims. Received 3-dim tensor``: ranks are off by as much."""
    yield from moves.rerank(moves.suspects, int(match["got"]), int(match["wanted"]), 0.3)


def _at_dimension(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """``Shape mismatch at dimension 1: expected 2, got 224``."""
    dimension, wanted, got = (int(each) for each in match.groups())
    for place, recipe in moves.tensors():
        if dimension < len(recipe.shape) and recipe.shape[dimension] == got:
            yield moves.reshape(place, (*recipe.shape[:dimension], wanted, *recipe.shape[dimension + 1 :]), 0.1)


def _padded_rank(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """``Padding size 2 is not supported for 4D input``: each two numbers are for one dimension behind the channels."""
    yield from moves.rerank(moves.suspects, int(match[2]), int(match[1]) // 2 + 2, 0.3)


def _unequal(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """``Shape mismatch, 16 != 12``: a size was to be another, or the product of others."""
    got, wanted = int(match["got"]), int(match["wanted"])
    yield from moves.resize(moves.suspects, got, wanted, 0.1)
    yield from moves.scale(moves.suspects, got, wanted, 0.6)


def _of_tables(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """``size of tensor a (196) must match the size of tensor b (8192)``: one is what a table of sizes says in sum."""
    one, other = int(match[1]), int(match[2])
    tables = [(place, recipe) for place, recipe in moves.tensors() if recipe.fill == "full" and one and other]
    for place, recipe in tables:
        for ratio in (one / other, other / one):
            for parts, examples in (({place: recipe}, 1), ({place: recipe, **moves.single_parts()}, BATCH)):
                for exponent in (0.5, 1.0):  # What is told of a picture are its sides, of a sequence its length.
                    number = recipe.high * (examples * ratio) ** exponent
                    if number >= 1 and number == round(number):
                        yield moves.change({**parts, place: replace(parts[place], high=round(number))}, 0.2)


def _too_late(moves: Moves, _match: re.Match[str]) -> Iterator[Change]:
    """``start (4) + length (2) exceeds dimension size (4)``: lengths are larger than what they are the lengths of."""
    sizes = sorted({size for _, recipe in moves.tensors() for size in recipe.shape})
    for place, recipe in moves.tensors():
        if recipe.fill == "full":
            for cost, size in enumerate(reversed([size for size in sizes if size < recipe.high])):
                yield moves.put(place, replace(recipe, high=size), 0.2 + 0.1 * cost)


def _state(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """``Expected hidden[0] size (1, 16, 64), got [1, 2, 64]``: all that is of this shape is of the other."""
    wanted, got = (tuple(int(size) for size in re.findall(r"\d+", each)) for each in match.groups())
    parts: dict[Place, Recipe] = {
        place: recipe.with_shape(wanted) for place, recipe in moves.tensors() if recipe.shape == got
    }
    if parts:
        yield moves.change(parts, 0.1)
    if len(wanted) == len(got):
        for one, other in zip(got, wanted, strict=True):
            if one != other:
                yield from moves.resize(moves.suspects, other, one, 0.3)


def _attended(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """``shape of the 3D attn_mask is torch.Size([8, 1, 9]), but should be (8, 33, 33)``: a square is made into it."""
    got, wanted = (tuple(int(size) for size in re.findall(r"\d+", each)) for each in match.groups())
    for place, recipe in moves.tensors():
        square = len(recipe.shape) > 1 and recipe.shape[-1] == recipe.shape[-2]
        shapes = [wanted] if recipe.shape == got else [(BATCH, *wanted[-2:]), wanted[-2:], wanted] if square else []
        for cost, shape in enumerate(shapes):
            yield moves.reshape(place, shape, 0.1 + 0.1 * cost)


def _undivided(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """``can't divide axis of length 7 in chunks of 2``."""
    length, chunk = int(match[1]), int(match[2])
    wanted = -(-length // chunk) * chunk
    yield from moves.resize(moves.suspects, length, wanted, 0.1)
    yield from moves.multiple(chunk, 0.5)


def _split(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """``split_sizes to sum exactly to 16 (...), but got split_sizes=[16, 4]``: as long as the parts together."""
    wanted = sum(int(size) for size in re.findall(r"\d+", match[2]))
    yield from moves.resize(moves.suspects, int(match[1]), wanted, 0.1)


def _unflattened(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """``Provided sizes [-1, 2] don't multiply up to the size of dim 2 (9)``: a multiple was wanted."""
    sizes = [int(size) for size in re.findall(r"-?\d+", match[1])]
    chunk, got = math.prod(size for size in sizes if size > 0), int(match[2])
    if chunk > 1:
        yield from moves.resize(moves.suspects, got, -(-got // chunk) * chunk, 0.1)
        yield from moves.multiple(chunk, 0.5)


def _under_kernel(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """``input image (T: 8 H: 128 W: 8) smaller than kernel size (kT: 32 kH: 32 kW: 1)``: as much larger as it takes."""
    sides, kernel = ([int(size) for size in re.findall(r"\d+", each)] for each in match.groups())
    lacking = [-(-wanted // side) for side, wanted in zip(sides, kernel, strict=True) if 0 < side < wanted]
    for place, recipe in moves.among(moves.suspects) if lacking else ():
        for dimension in reversed(range(1, len(recipe.shape))):
            size = recipe.shape[dimension] * max(lacking)
            yield moves.reshape(place, (*recipe.shape[:dimension], size, *recipe.shape[dimension + 1 :]), 0.2)


def _nothing_left(moves: Moves, _match: re.Match[str]) -> Iterator[Change]:
    """Nothing came out to be joined: too little went in, or a video lacks the frame that the others follow."""
    for place, recipe in moves.tensors():
        if len(recipe.shape) == 5:
            for frames in (recipe.shape[2] + 1, 2 * recipe.shape[2] + 1):
                yield moves.reshape(place, (*recipe.shape[:2], frames, *recipe.shape[3:]), 0.4)
    yield from moves.grow(frozenset(moves.parts), 0.6)


def _lengths(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """``'lengths' argument should be a 1D CPU int64 tensor``: how long each example is, of what has so many steps."""
    operation = moves.outcome.operation
    sources = operation.sources if operation is not None else ()
    for places in sources[1:2]:
        for place, recipe in moves.among(places):
            if recipe.fill != "full":
                steps = moves.clues.lengths[0]
                yield moves.put(place, TensorRecipe((BATCH,), "full", torch.int64, steps), 0.0)
    masks = [(place, part) for place, part in moves.tensors() if part.dtype is torch.bool and part.fill in _OPPOSITE]
    for place, mask in masks if "greater than 0" in match.string else ():  # It says what is no part of an example.
        yield moves.put(place, replace(mask, fill=_OPPOSITE[mask.fill]), 0.2)


def _integers(moves: Moves, _match: re.Match[str]) -> Iterator[Change]:
    yield from moves.integral(moves.suspects)


def _whole(moves: Moves, _match: re.Match[str]) -> Iterator[Change]:
    """``"bincount_cpu" not implemented for 'Bool'``: numbers of things, of few, and no flags."""
    for place, recipe in moves.among(moves.suspects):
        if recipe.fill != "integers":
            yield moves.put(place, moves.as_integers(recipe, BATCH), 0.2)


def _floats(moves: Moves, _match: re.Match[str]) -> Iterator[Change]:
    yield from moves.floating(moves.suspects)


def _frequencies(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """``n_fft=30, …: expected the frequency dimension to match n_fft / 2 + 1, but got 64``."""
    window, got = int(match[1]), int(match[2])
    yield from moves.resize(moves.suspects, got, window // 2 + 1 if "/ 2 + 1" in match[0] else window, 0.1)


def _elements(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """``Could not find dimension with 257 elements``: some size is to be that, in all inputs that are alike."""
    wanted = int(match[1])
    shapes = {recipe.shape for place, recipe in moves.tensors() if place in moves.suspects}
    for shape in shapes:
        alike = [place for place, recipe in moves.tensors() if recipe.shape == shape]
        for cost, dimension in enumerate(reversed(range(1, len(shape)))):
            sizes = (*shape[:dimension], wanted, *shape[dimension + 1 :])
            parts = {place: replace(moves.parts[place], shape=sizes) for place in alike}
            yield moves.change(parts, 0.3 + 0.1 * cost)


def _booleans(moves: Moves, _match: re.Match[str]) -> Iterator[Change]:
    for place, recipe in moves.tensors():
        if recipe.dtype is not torch.bool and ("mask" in str(place) or place in moves.blamed):
            yield moves.put(place, replace(recipe, fill="ones", dtype=torch.bool), 0.4)


def _below(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """``index 17 is out of bounds for dimension 0 with size 4``: smaller integers."""
    numbers = [int(number) for number in match.groups() if number is not None]
    if len(numbers) == 2 and numbers[0] >= 0:  # Or more to choose from, in all inputs that are alike.
        blamed = moves.suspects
        shapes = {recipe.shape for _, recipe in moves.among(blamed)}
        alike = {place: recipe for place, recipe in moves.tensors() if recipe.shape in shapes}
        last = {
            place: recipe.with_shape((*recipe.shape[:-1], numbers[0] + 1))
            for place, recipe in alike.items()
            if recipe.shape[-1:] == (numbers[1],)
        }
        if last:
            yield moves.change(last, 0.1)
        yield from moves.resize(blamed, numbers[1], numbers[0] + 1, 0.2)
        if numbers[0] == numbers[1] > 1:  # One place after the other is looked at; there may be many.
            yield from moves.resize(blamed, numbers[1], 2 * numbers[1], 0.25)
    yield from moves.bounded(moves.suspects, 0.5)  # Places may be computed from shares.
    # Positions are made of the sizes.
    yield from moves.shrink(1.0 if any(recipe.fill == "integers" for _, recipe in moves.tensors()) else 0.5)
    for place, recipe in moves.among(moves.suspects):
        if recipe.fill == "integers":
            for high in dict.fromkeys([*numbers[-1:], 2, 1]):
                if 0 < high < recipe.high:
                    yield moves.put(place, replace(recipe, high=high), 0.3)


def _beyond_classes(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """``Target -1 is out of bounds``: numbers that are taken for classes are from zero on, and fewer."""
    target, operation = int(match[1]), moves.outcome.operation
    scores = operation.tensors[0] if operation is not None and operation.tensors else None
    classes = scores.shape[min(1, scores.dim() - 1)] if scores is not None and scores.dim() else 0
    yield from moves.bounded(moves.suspects, 0.1)
    for place, recipe in moves.among(moves.suspects):
        for cost, high in enumerate(dict.fromkeys((classes, target))):
            if recipe.fill == "integers" and 0 < high < recipe.high:
                yield moves.put(place, replace(recipe, high=high), 0.1 * cost)


def _bounded(moves: Moves, _match: re.Match[str]) -> Iterator[Change]:
    """``all elements of input should be between 0 and 1``, or what is computed of them has no number."""
    yield from moves.bounded(moves.suspects, 0.1)


def _within(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """``not within the configured range `[100, 1000000.0]```: numbers of one size, well within."""
    low, high = float(match[1]), float(match[2])
    number = math.ceil(low) if low > 0 else round((low + high) / 2)
    if low <= number <= high and (low, high) != (0, 1):
        for place, recipe in moves.among(moves.suspects):
            if recipe.fill == "integers" and low == 0 < high:
                yield moves.put(place, replace(recipe, high=int(high)), 0.1)
            yield moves.put(place, replace(recipe, fill="full", high=number), 0.2)


def _volume(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """``shape '[2, 8, 8]' is invalid for input of size 64``: bring the volume to the one that was wanted."""
    sizes = [int(size) for size in re.findall(r"-?\d+", match[1])]
    wanted, given = math.prod(abs(size) for size in sizes), int(match[2])
    if not given:
        return
    yield from _as_kept(moves, sizes, given)
    if sizes[:1] == [BATCH] and BATCH in {wanted / given, given / max(1, wanted)}:  # It works with a batch of one only.
        yield from moves.single(0.2)
    yield from _in_groups(moves, sizes, wanted // math.gcd(given, wanted))
    if -1 in sizes and wanted and given % wanted:
        for factor in dict.fromkeys([*(size for size in sizes if size > 1), wanted]):
            yield from moves.multiple(factor * moves.clues.patch, 0.7)
            yield from moves.multiple(factor, 0.8)
    for place, recipe in moves.tensors():
        if wanted != given:
            yield from moves.resize(frozenset({place}), given, wanted)
        for size in (size for size in sizes[1:] if size > 1 and recipe.shape):
            yield from moves.resize(frozenset({place}), recipe.shape[-1], size, cost=1.5)
    if -1 not in sizes:
        yield from _along_one(moves, given, wanted)
    if moves.blamed and wanted != given and -1 not in sizes:
        yield from moves.scale(moves.blamed, given, wanted, 0.9)


def _in_groups(moves: Moves, sizes: list[int], times: int) -> Iterator[Change]:
    """Bring so many times as many examples, of which several are taken together: ``x.view(-1, 12, *x.shape[1:])``."""
    batched: dict[Place, Recipe] = {
        place: recipe.with_shape((times * BATCH, *recipe.shape[1:]), moves.because)
        for place, recipe in moves.tensors()
        if recipe.shape[:1] == (BATCH,)
    }
    if batched and sizes[:1] == [-1] and 1 < times <= _MOST_GROUPS:
        yield moves.change(batched, 0.3)


def _as_kept(moves: Moves, sizes: list[int], given: int) -> Iterator[Change]:
    """Bring a size of an input by which something of the model's own is viewed to what there is of that."""
    if -1 in sizes or moves.blamed:
        return
    for size in dict.fromkeys(size for size in sizes if size > 1):
        times = math.prod(sizes) // size
        if given % times == 0 and size != given // times:
            yield from moves.resize(frozenset(moves.parts), size, given // times, 0.1)


def _along_one(moves: Moves, given: int, wanted: int) -> Iterator[Change]:
    """Bring a volume to another along one dimension of what failed: a token was cut off."""
    operation = moves.outcome.operation
    for size in operation.tensors[0].shape if operation is not None and operation.tensors else ():
        others = given // size if size else 0
        if others and size != given and wanted % others == 0:
            yield from moves.resize(moves.blamed, size, wanted // others, 0.2)


def _nothing(moves: Moves, _match: re.Match[str]) -> Iterator[Change]:
    """``'Tensor' object has no attribute 'BLOCK_SIZE'``: a mask, or a state, of another kind; it may mostly be None."""
    for place, recipe in moves.tensors():
        if len(place) == 1 and _OPTIONAL.search(str(place[0])):
            yield moves.put(place, Constant(None), 0.5 if recipe.dtype is torch.bool else 0.8)


def _padded(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """``padding (768, 768) at dimension 2 of input [2, 1, 16]``: longer, far more than the padding."""
    padding, size = int(match[1]), int(match[2])
    for place, recipe in moves.tensors():
        if size in recipe.shape[-1:] and recipe.dtype.is_floating_point:
            yield moves.reshape(place, (*recipe.shape[:-1], 16 * max(padding, size)), 0.3)


def _multiple(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    yield from moves.multiple(int(match[1]))


def _too_small(moves: Moves, _match: re.Match[str]) -> Iterator[Change]:
    yield from moves.grow(frozenset(moves.parts), 0.6)


def _too_large(moves: Moves, _match: re.Match[str]) -> Iterator[Change]:
    """Not enough memory, or not enough time: smaller pictures, shorter sequences."""
    for place, recipe in moves.tensors():
        shape = recipe.shape
        if len(shape) >= 4:
            yield moves.reshape(place, (*shape[:-2], *(max(size // 4, 8) for size in shape[-2:])), 0.5)
        elif len(shape) >= 2 and recipe.elements > 64:
            yield moves.reshape(place, (*shape[:-1], max(shape[-1] // 4, 1)), 1.0)
            yield moves.reshape(place, (shape[0], max(shape[1] // 4, 1), *shape[2:]), 1.0)


def _scalar(moves: Moves, _match: re.Match[str]) -> Iterator[Change]:
    """One number was wanted where a tensor has several."""
    for place, recipe in moves.tensors():
        if recipe.shape:
            yield moves.reshape(place, (), 0.6 if place in moves.blamed else 1.2)
            yield moves.reshape(place, (1,), 0.8 if place in moves.blamed else 1.4)


def _interpolated(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """``Input and output must have the same number of spatial dimensions, but got input with [16] and size [8, 8]``."""
    given = len(match[1].split(","))
    sides = tuple(int(side) for side in re.findall(r"\d+", match[2]))
    wanted = len(sides)
    for place, recipe in moves.among(moves.suspects) if sides else ():  # A picture, as what it is to be as large as.
        yield moves.reshape(place, (*recipe.shape[:1], 1, *sides), 0.4)
    for place, recipe in moves.tensors():
        yield from moves.rank(place, recipe, len(recipe.shape) + wanted - given, 0.5)


def _missing_key(moves: Moves, match: re.Match[str]) -> Iterator[Change]:
    """A dictionary has no such key, or a tensor was used as one."""
    for name, recipe in moves.recipes.items():
        if isinstance(recipe, Record) and match[1] not in dict(recipe.items):
            value = TensorRecipe((2, moves.clues.channels[0], *moves.clues.image_sizes[0]))
            yield moves.put((name,), Record((*recipe.items, (match[1], value))), 0.8)


_UNSAID: Final = 0.3
"""What a rank costs beside others that a message names."""

_OPPOSITE: Final[Mapping[Fill, Fill]] = {"ones": "zeros", "zeros": "ones"}
_MOST_GROUPS: Final = 16
_OPTIONAL: Final = re.compile(r"mask|bias|cache|state|past|memory|hidden|hx")
"""What is mostly given as None, or can be."""

_MESSAGES: Final[Sequence[tuple[re.Pattern[str], _Act]]] = tuple(
    (re.compile(pattern), act)
    for act, patterns in (
        (
            _unpacked,
            (
                r"not enough values to unpack \(expected (?:at least )?(\d+), got (\d+)\)",
                r"too many values to unpack \(expected (\d+)(?:, got (\d+))?\)",
            ),
        ),
        (
            _attended,
            (r"shape of the \dD attn_mask is torch\.Size\(\[([\d, ]+)\]\), but should be \(([\d, ]+)\)",),
        ),
        (
            _dimensions,
            (
                r"input\.dim\(\) = (\d+) is not equal to len\(dims\) = (\d+)",
                r"[Ee]xpected (\d+)(?:D?-?D?(?: \(\w+\))? or (\d+))?[- ]?(?:D|dim)",
                r"Dimension out of range \(expected to be in range of \[-(\d+), \d+\], but got -?(\d+)\)",
                r"too many indices for tensor of dimension (\d+)",
                r"tuple index out of range|list index out of range",
                r"Expected (\d+) dimensions, got (\d+)|[Ww]rong shape: expected (\d+) dims",
                r"must be a? ?(\d+)[- ]?(?:D|dim)",
                r"must be 0-dim or (\d)-dim",
                r"number of sizes provided \((\d+)\) must be greater or equal",
                r"not supported for (\d)D input",
                r"only supports (\d)-d",
            ),
        ),
        (_lengths, (r"'lengths' argument should be a 1D|Length of all samples has to be greater than 0",)),
        (kinds.of_examples, (r"int\(\) argument .* not 'list'|'list' object cannot be interpreted as an integer",)),
        (_state, (r"Expected hidden(?:\[\d\])? size \(([\d, ]+)\), got \[([\d, ]+)\]",)),
        (_fewer, (r"can not be smaller than number of dimensions",)),
        (
            _off,
            (
                r"subscripts in the equation \((?P<wanted>\d+)\) .*dimensions \((?P<got>\d+)\) for operand",
                r"expected (?P<wanted>\d+) dims. Received (?P<got>\d+)-dim",
                r"[Ee]xpected (?P<wanted>\d+) dimensions, got (?P<got>\d+)",
                r"input\.dim\(\) = (?P<got>\d+) is not equal to len\(dims\) = (?P<wanted>\d+)",
                r"Supports (?:\dD or )?(?P<wanted>\d)D tensors. Got (?P<got>\d)D",
                r"should be a (?P<wanted>\d)D \w* ?\w* ?tensor, but got (?P<got>\d)D",
            ),
        ),
        (
            _padded_rank,
            (
                r"Padding size (\d) is not supported for (\d)D input",
                r"padding length (\d+) and input of dimension (\d)",
            ),
        ),
        (
            _unequal,
            (
                r"Shape mismatch, (?P<got>\d+) != (?P<wanted>\d+)",
                r"equal to batch_size, but got (?P<got>\d+) \(batch_size=(?P<wanted>\d+)\)",
                r"equal to input_size\. Expected (?P<wanted>\d+), got (?P<got>\d+)",
                r"inconsistent input_size:? got (?P<got>\d+),? expected (?P<wanted>\d+)",
            ),
        ),
        (_of_tables, (r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)",)),
        (
            _at_dimension,
            (r"at dimension (\d+): expected (\d+), got (\d+)", r"shape\[(\d)\] to be (\d+),? but got (\d+)"),
        ),
        (_too_late, (r"start \(\d+\) \+ length \(\d+\) exceeds dimension size",)),
        (_unflattened, (r"Provided sizes \[([^\]]*)\] don't multiply up to the size of dim \d+ \((\d+)\)",)),
        (_split, (r"split_sizes to sum exactly to (\d+) .*split_sizes=\[([\d, ]+)\]",)),
        (_under_kernel, (r"\(((?:\w: ?\d+ ?)+)\) smaller than kernel size \(((?:\w+: ?\d+ ?)+)\)",)),
        (_nothing_left, (r"expected a non-empty list of Tensors|expects a non-empty TensorList",)),
        (_undivided, (r"can't divide axis of length (\d+) in chunks of (\d+)",)),
        (_volume, (r"shape '\[([^\]]*)\]' is invalid for input of size (\d+)",)),
        (
            _integers,
            (
                r"indices must be|must be long|[Ee]xpected .*Long|got (?:torch\.)?FloatTensor|scalar type Long",
                r"one_hot is only applicable|tensors used as indices|[Ee]xpected .*(?:int64|integer)",
            ),
        ),
        (
            _floats,
            (
                r"must have the same dtype|scalar type Float|floating",
                r"not implemented for '(?:Long|Int|Bool|int\d+|bool)'",
                r"with (?:a|two) bool tensors? is not supported",
                r"can't be cast to the desired output type (?:Long|Int|Bool)",
            ),
        ),
        (kinds.precision, (rf"{kinds.PRECISIONS}.*{kinds.PRECISIONS}",)),
        (_whole, (r"not implemented for '(?:Bool|Half|Float|Double)'",)),
        (_multiple, (r"(?:multiple of|divisible by|be divided by)\D{0,40}?(\d+)",)),
        (
            kinds.complex_numbers,
            (r"for tensors with non-complex dtypes|only supported for complex|(?:[Ee]xpected|requires) .*complex",),
        ),
        (kinds.two_parts, (r"must have a last dimension of size 2",)),
        (_frequencies, (r"n_fft=(\d+).*frequency dimension .*but got (\d+)",)),
        (_elements, (r"dimension with (\d+) elements",)),
        (_booleans, (r"mask.*bool|bool.*mask|Bool|(?:predicate|condition)\b.*bool",)),
        (
            _below,
            (
                r"index (-?\d+) is out of bounds for dimension \d+ with size (\d+)",
                r"takes value (-?\d+) which is not in the valid range \[0, (\d+)\)",
                r"index (?:-?\d+ is )?out of (?:bounds|range)(?: in self)?(?:.*size (\d+))?",
                r"out of bounds .*size (\d+)",
            ),
        ),
        (_bounded, (r"between 0 and 1\b|[\[(]0, ?1[\])]|satisfy the constraint (?:\w+\(lower_bound=0|Real\(\))",)),
        (_within, (r"(?:range|between|within|interval)\W{1,4}(-?\d[\d.e+]*)\s?(?:,|and|to|-)\s?(\d[\d.e+]*\d|\d)",)),
        (_beyond_classes, (r"Target (-?\d+) is out of bounds",)),
        (_missing_key, (r"^'(\w+)'$",)),
        (_interpolated, (r"spatial dimensions of \[([^\]]*)\] and output size of (?:torch\.Size\()?[\[(]([^\])]*)",)),
        (
            _scalar,
            (
                r"only one element tensors can be converted|a Tensor with \d+ elements cannot be converted",
                r"Boolean value of Tensor with more than one value",
            ),
        ),
        (kinds.texts, (r"expected (?:a )?str(?:ing)?\b|must be (?:of type |a )?`?str(?:ing)?\b",)),
        (
            kinds.words,
            (r"for \+: '(?:Tensor|list)' and '(?:Tensor|list)'|concatenate list \(not \"Tensor\"\) to list",),
        ),
        (kinds.place, (r"can be converted to an index",)),
        (
            kinds.options,
            (
                r"(?:must be|one of|expected).{0,20}?((?:['\"]\w+['\"](?:, | or |, or )?)+)",
                r"[\[({]\s*('\w+'(?:,\s*'\w+')*),?\s*[\])}]",
            ),
        ),
        (_too_large, (r"can't allocate memory|too long|out of memory",)),
        (
            _too_small,
            (
                r"[Kk]ernel size can't be greater|too small|smaller than|more than 1 (?:value per channel|spatial)",
                r"[Pp]adding size should be less than|non-zero size|has no elements|less than one",
                r"dimension 0 with size 0|size 0 at dimension|for tensor of size \[0\]|length must be non-negative",
            ),
        ),
        (
            kinds.sparse,
            (
                r"'aten::(?:_?(?:indices|values|nnz|coalesced?_?)|coalesce|sparse_dim|crow_indices)'",
                r"[Ee]xpected .{0,40}sparse|to be sparse|must be (?:a )?sparse|[Ss]parse\w* (?:tensor )?expected",
            ),
        ),
        (kinds.packed, (r"'Tensor' object has no attribute '(?:batch_sizes|(?:un)?sorted_indices)'",)),
        (kinds.one_for_each, (r"'(float|int)' object has no attribute '(\w+)'",)),
        (_nothing, (r"'Tensor' object has no attribute",)),
        (kinds.left_out, (r"\bnot (?:a )?'?NoneType\b|'Tensor' and 'NoneType'",)),
        (_padded, (r"padding \((\d+), \d+\) at dimension \d+ of input .*?(\d+)\]",)),
        (
            kinds.as_list,
            (r"expected .*(?:List|list|sequence|tuple) .*|must be (?:tuple|list) of|iteration over a 0-d",),
        ),
    )
    for pattern in patterns
)
"""What is said, and what to do about it."""
