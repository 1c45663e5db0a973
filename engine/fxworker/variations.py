"""Expressions that differ from another in the way that a complaint asks for: in length, in depth, in a number, in type.

What they are arguments of is not looked at here.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from fxworker.choices import Group, Value, literal, written_tuple
from fxworker.complaints import Complaint
from fxworker.evidence import Kind

_LARGEST: Final = 4096
"""The largest number that is thought of."""

_SIDES: Final = (96, 224)
"""Sides of pictures that go through more layers than small ones do."""

_PICTURES: Final = (1, 3, 64, 64)
"""The shape of pictures, which are what has so many dimensions mostly."""

_MADE: Final = re.compile(r"torch\.(ones|zeros)\([\d, ]+(, dtype=torch\.int64)?\)")
"""A tensor that is made up, be it of numbers or of indices."""

_INDICES: Final = frozenset({"index", "indices"})
_WHOLE: Final = frozenset({"int64", "long"})
"""What is said of a tensor of numbers that was to tell places."""

_ORDERED: Final = frozenset({"sorted", "increasing", "ascending", "monotonic", "monotonically"})
"""What is said of numbers that have to be in order."""

_LETTERS: Final = "abcdefghijkl"
_GIVING: Final[dict[Kind, str]] = {
    "number": "lambda *_, **__: 1",
    "sequence": "lambda *_, **__: ['a', 'b']",
    "string": "lambda *_, **__: 'a'",
    "mapping": "lambda *_, **__: {'a': 1, 'b': 2}",
}
"""Functions that give something of a kind."""

_MODULES: Final = ("torch.nn.Identity()", "torch.nn.Identity")
"""An instance and its class."""

_MOST_PIECES: Final = 4
"""How many pieces of names are thought of."""


def with_sizes(now: Value, got: int, wanted: int) -> Iterator[str]:
    """Yield an expression with one of two numbers in place of the other, then in proportion to both.

    Of widths of layers the first alone may be what enters, and the last alone what comes out.
    """
    found = literal(now) if isinstance(now, str) else None
    numbers: list[Any] = list(found) if isinstance(found, list | tuple) else [found]
    if not numbers or not all(type(each) is int and each > 0 for each in numbers):
        return
    is_several = isinstance(found, list | tuple) and len(numbers) > 1
    for one, other in ((got, wanted), (wanted, got)):
        if one in numbers and not (is_several and other == 1 and set(numbers) == {one}):  # Layers of nothing to tell.
            yield _again([other if each == one else each for each in numbers], found)
    if is_several and len(set(numbers)) == 1 and numbers[0] in {got, wanted}:
        other = wanted if numbers[0] == got else got
        yield from (_again(changed, found) for changed in ([*numbers[:-1], other], [other, *numbers[1:]]))
    for one, other in ((got, wanted), (wanted, got)):
        if type(found) is int and found not in {got, wanted} and found * other % one == 0:
            scaled = found * other // one
            if 0 < scaled <= _LARGEST:
                yield repr(scaled)


def _again(numbers: Sequence[int], found: Any) -> str:
    """Return numbers in a list or tuple as those were that were found, or the one where no more were."""
    return repr(type(found)(numbers) if isinstance(found, list | tuple) else numbers[0])


def made_odd(now: Value) -> Iterator[str]:
    """Yield an expression with an odd number in the place of each that is even, if there is one."""
    found = literal(now) if isinstance(now, str) else None
    given: list[Any] = list(found) if isinstance(found, list | tuple) else [found]
    numbers = [each for each in given if type(each) is int and each > 0]
    odd = [each + 1 - each % 2 for each in numbers]
    if len(numbers) == len(given) and odd != numbers:
        yield _again(odd, found)


def one_side(now: Value) -> Iterator[str]:
    """Yield the number that is given for each side, if there are several that are the same."""
    found = literal(now) if isinstance(now, str) else None
    if isinstance(found, list | tuple) and len(found) > 1 and type(found[0]) is int and set(found) == {found[0]}:
        yield repr(found[0])


def enlarged(now: Value) -> Iterator[str]:
    """Yield an expression with larger sides of a picture: those of `64` or of the last two items of `(3, 64, 64)`."""
    found = literal(now) if isinstance(now, str) else None
    for side in _SIDES:
        match found:
            case [*channels, int(height), int(width)] if max(height, width) < side:
                items = [*channels, side, side]
                yield repr(tuple(items) if isinstance(found, tuple) else items)
            case int() if not isinstance(found, bool) and found < side:
                yield repr(side)
            case _:
                pass


def type_name(value: Value) -> str:
    """Return the name of the type that an expression has, "" where it does not show."""
    if isinstance(value, Group):
        named = "Sized" if value.size else "SimpleNamespace"
        kinds = {"namespace": named, "mapping": "dict", "list": "list", "module": "Module"}
        return _title(value.head) or kinds.get(value.style, "")
    found = literal(value)
    if found is not NotImplemented:
        return type(found).__name__
    if _MADE.fullmatch(value):
        return "Tensor"
    if value.endswith("()"):
        return value[:-2].rpartition(".")[2]
    return "type" if value.startswith("torch.nn.") and "(" not in value else ""


def _title(head: str) -> str:
    """Return the name of a class that is written by its name, or made on the spot."""
    return head.split("'")[1] if head.startswith("type('") else head.rpartition(".")[2]


def as_tuple(value: Value) -> Value:
    """Return a list that is written out as a tuple, and anything else as it is."""
    found = literal(value) if isinstance(value, str) else None
    return repr(tuple(found)) if isinstance(found, list) else value


def whole(value: Value | None, complaint: Complaint) -> list[Value]:
    """Return a row of whole numbers for a tensor of others, where a complaint is about the type of an index."""
    is_index = not _INDICES.isdisjoint(complaint.words) and not _WHOLE.isdisjoint(complaint.words)
    match = re.fullmatch(r"torch\.ones\((\d+)\)", value) if isinstance(value, str) and is_index else None
    return [f"torch.arange({match[1]})"] if match is not None else []


def twin(value: Value | None, complaint: Complaint) -> list[Value]:
    """Return a list as a tuple, or a tuple as a list, where a complaint speaks of what it is."""
    found = literal(value) if isinstance(value, str) else None
    match found:
        case list() if "list" in complaint.words:
            return [repr(tuple(found))]
        case tuple() if "tuple" in complaint.words:
            return [repr(list(found))]
        case _:
            return []


def rising(value: Value | None, complaint: Complaint) -> list[Value]:
    """Return tensors and lists of the same numbers with greater and greater ones, where a complaint wants an order."""
    if not isinstance(value, str) or _ORDERED.isdisjoint(complaint.words):
        return []
    tensors = re.sub(r"torch\.ones\((\d+)\)", r"torch.arange(\1.0)", value)
    found = literal(value)
    if isinstance(found, list | tuple) and len(set(found)) == 1 and type(found[0]) in {int, float}:
        return [repr(type(found)(found[0] * at for at in range(1, len(found) + 1)))]
    return [tensors] if tensors != value else []


def nested(value: Value | None, complaint: Complaint) -> list[Value]:
    """Return a list of lists where items turned out to need items, an instance for a class, a number in a tuple."""
    if value in _MODULES and complaint.got in {"Identity", "type"}:
        # It may be a function that was called, and gave what is nothing of the kind.
        called: list[Value] = [_GIVING[complaint.kind]] if complaint.kind in _GIVING else []
        return [*called, *(each for each in _MODULES if each != value)]
    found = literal(value) if isinstance(value, str) else NotImplemented
    if complaint.is_of_tuple and type(found) is int:
        return [repr((found,))]  # What has as many numbers goes on to fit.
    if not isinstance(found, list | tuple) or not found:
        return []
    if complaint.kind == "string" and type(found[0]).__name__ in {complaint.got, "int"}:
        return [repr(list(_LETTERS[: len(found)]))]
    if complaint.kind != "sequence":
        return []
    deeper = _deeper(found, complaint.got)
    return [] if deeper is None else [repr(deeper)]


def _deeper(items: list[Any] | tuple[Any, ...], got: str) -> list[Any] | None:
    """Return a list with pairs where it has things of a type, at whatever depth; None where it has none."""
    if type(items[0]).__name__ == got:
        return [(each, each) for each in items]
    inner = [_deeper(each, got) if isinstance(each, list | tuple) and each else None for each in items]
    return inner if None not in inner else None


def of_length(value: Value | None, length: int) -> list[Value]:
    """Return sequences like a value, of a length; -1 stands for any that is longer."""
    found = literal(value) if isinstance(value, str) else NotImplemented
    items = list(found) if isinstance(found, list | tuple) else [] if found is NotImplemented else [found]
    item = repr(items[0]) if items else "64"
    lengths = (length,) if length > 0 else tuple(each for each in (4, 5, 6, 8, 12) if each > len(items))
    several = [[item] * each for each in lengths]
    return [written_like(found, each) for each in several]


def written_like(found: Any, items: list[str]) -> str:
    """Return the expression of a sequence of items, each an expression: a tuple where `found` is one, else a list."""
    return written_tuple(items) if isinstance(found, tuple) else f"[{', '.join(items)}]"


def of_length_within(value: Value | None, length: int) -> list[Value]:
    """Return sequences like a value whose items all have another length, or a tensor with so many dimensions."""
    tensor = _MADE.fullmatch(value) if isinstance(value, str) and length > 0 else None
    if tensor is not None:
        sizes = ", ".join(map(str, _PICTURES if length == len(_PICTURES) else (64,) * length))
        return [f"torch.{tensor[1]}({sizes}{tensor[2] or ''})"]
    found = literal(value) if isinstance(value, str) and length > 0 else None
    if not isinstance(found, list | tuple) or not all(isinstance(each, list | tuple) and each for each in found):
        return []
    several = [str(of_length(repr(each), length)[0]) for each in found]
    return [written_like(found, several)] * bool(found)


def of_length_throughout(value: Value | None, length: int) -> list[Value]:
    """Return sequences like a value, of a length as all sequences in them are; what is so long already stays."""
    found = literal(value) if isinstance(value, str) else NotImplemented
    if not isinstance(found, list | tuple) or not all(isinstance(each, list | tuple) and each for each in found):
        is_right = isinstance(found, list | tuple) and len(found) == length
        return [value] if is_right and value is not None else of_length(value, length)
    inner = [of_length_throughout(repr(each), length)[0] for each in found]
    several = [each for each in (inner * length)[:length] if isinstance(each, str)]
    return [written_like(found, several)]


def with_items(now: Value | None, item: str) -> list[Value]:
    """Return a list of numbers or texts with another item in the place of each; none for anything else."""
    found = literal(now) if isinstance(now, str) else NotImplemented
    if (
        not isinstance(found, list | tuple)
        or not found
        or not all(isinstance(each, int | float | str) for each in found)
    ):
        return []
    items = [item] * len(found)
    return [written_like(found, items)] * bool(items)


def called(now: Value | None, complaint: Complaint) -> list[Value]:
    """Return an object with attributes that can be called as well, and gives a number, where it is said to be none."""
    is_object = isinstance(now, Group) and now.style == "namespace" and not now.head
    if not isinstance(now, Group) or not is_object or complaint.kind != "class" or complaint.got != type_name(now):
        return []
    methods = [f"'__len__': lambda self: {now.size}"] * bool(now.size)
    methods.append("'__call__': lambda self, *_, **__: 0")
    return [replace(now, head=f"type('Called', (SimpleNamespace,), {{{', '.join(methods)}}})", size=0)]


def holds_made_up(value: Value, text: str) -> bool:
    """Whether a value is a list of texts that are made up, with this one among them: `['a', 'b']`."""
    found = literal(value) if isinstance(value, str) else None
    return isinstance(found, list) and text in found and found == list(_LETTERS[: len(found)])


def rekeyed(now: Value | None, values: Sequence[str]) -> list[Value]:
    """Return a mapping of any keys, or a list of them, with texts that would do for these; none for too few texts.

    Those that are listed are looked up in what a part gives: the last of its features tell most.
    """
    texts = [each for each in values if isinstance(text := literal(each), str) and text]
    if isinstance(now, str) and holds_made_up(now, _LETTERS[0]):
        listed: list[str] = literal(now)
        return [repr([literal(each) for each in texts[-len(listed) :]])] if len(listed) <= len(texts) else []
    is_made_up = isinstance(now, Group) and now.style == "mapping" and 0 < now.size <= len(texts)
    return [replace(now, keys=tuple(texts[: now.size]))] if isinstance(now, Group) and is_made_up else []


def pieces(now: Value, name: str, members: Sequence[str]) -> list[str]:
    """Return what may stand in place of a text or number, so that a name which it is a piece of is one that there is.

    Of `Norm2d` for a text that is empty, `'Batch'` makes `BatchNorm2d`; of `Conv64d` for 64, `2` makes `Conv2d`.
    """
    piece = literal(now) if isinstance(now, str) else None
    if isinstance(piece, bool) or not isinstance(piece, str | int) or piece == name:
        return []
    is_number, given = isinstance(piece, int), str(piece)
    # Beside a number there may be another piece that is not right yet.
    rest, around = ("[0-9]+", "[A-Za-z]*") if is_number else ("[A-Z][A-Za-z]*", "")
    # An empty text is at one of the ends.
    ends = [(0, 0), (len(name), len(name))]
    places = [each.span() for each in re.finditer(re.escape(given), name, re.IGNORECASE)] if given else ends
    found = list[str]()
    for start, end in places:
        pattern = re.compile(f"{around}{re.escape(name[:start])}({rest}){re.escape(name[end:])}{around}")
        found += [match[1] for each in members if (match := pattern.fullmatch(each)) is not None]
    if is_number:
        # Pictures are likelier than anything else.
        return sorted(dict.fromkeys(found), key=lambda each: (each != "2", int(each)))
    found.sort(key=lambda each: (each.isupper(), len(each)))
    # What was changed on the way, as by `capitalize`, may be changed again.
    likely = [each.lower() if given not in name else each for each in found]
    return [repr(each) for each in dict.fromkeys(likely)][:_MOST_PIECES]


def with_key(now: str, keys: Sequence[str], key: str) -> str:
    """Return a table that is written out with an entry more, like the first one, in the table that some keys lead to.

    It is "" where there is no such table.
    """
    tree = ast.parse(now, mode="eval").body
    table: ast.expr | None = tree
    for each in keys:
        table = next((value for known, value in _entries_of(table) if known == each), None)
    entries = _entries_of(table)
    if not isinstance(table, ast.Dict) or not entries:
        return ""
    table.keys.append(ast.Constant(key))
    table.values.append(entries[0][1])
    return ast.unparse(tree)


def _entries_of(node: ast.expr | None) -> list[tuple[object, ast.expr]]:
    """Return the keys of a table that is written out, as far as they are constants, each with its value."""
    pairs = zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ()
    return [(key.value, value) for key, value in pairs if isinstance(key, ast.Constant)]
