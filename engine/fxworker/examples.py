"""Examples of lists: what is known of the items of a sequence, and of theirs, says what may be in it."""

import re
from collections.abc import Collection
from string import ascii_lowercase
from typing import Final

from fxworker.choices import is_number, written_tuple
from fxworker.conventions import usual_values
from fxworker.evidence import Usage, Use, fields_of
from fxworker.indexing import as_indices

LIBRARY: Final = "transformers"
READING: Final = f"{LIBRARY}.BertModel({LIBRARY}.BertConfig(num_hidden_layers=2))"
SPEAKING: Final = f"{LIBRARY}.BertForMaskedLM({LIBRARY}.BertConfig(num_hidden_layers=2))"
"""What stands in for a model of language that encodes what it reads, and for one that gives scores of words."""
TOKENIZING: Final = f"{LIBRARY}.AutoTokenizer.from_pretrained('bert-base-uncased')"
"""What stands in for a tokenizer, without its vocabulary."""

FEW: Final = ("2", "4")
"""How many parts a model has."""
_SPACE: Final = re.compile(r"(?:\w+_)?(obs|observations?|states?|inputs?|act|actions?)_?spaces?")
"""What the spaces are called that an environment has, as those of gymnasium."""
_OF_SPACES: Final = frozenset(
    {"shape", "n", "low", "high", "dtype", "sample", "spaces", "nvec", "contains", "items", "values"}
)
"""What is read from those of environments; other spaces are those of functions."""
_WHOLE: Final = "dtype=numpy.dtype('int64')"
_TELLING_APART: Final = re.compile(r"(\w+_)?(keys|names|labels|modalities)")
"""What texts are called by which things are told apart."""
_ANY: Final = {"class": "torch.nn.Identity", "callable": "torch.nn.Identity()", "tensor": "torch.ones(64, 64)"}
"""What stands in a record that is no data."""
_LETTERS: Final = ("'a'", "'b'")
_LENGTHS: Final = (2, 4, 3, 5, 8, 1)


def lists_of(usage: Usage, name: str) -> list[str]:
    """Return lists of what the items must be, of the lengths that are needed most.

    Args:
        usage: What is known of the sequence and its parts, relative to it.
        name: What it is called.
    """
    use = usage.get("", Use())
    items = usage.get("[]", Use())
    lengths = (use.count,) if use.count else tuple(each for each in _LENGTHS if each >= use.least)
    known = [each for name in (name, *use.names) for each in usual_values(name)]
    # Several of them are no image's.
    numbers = [each for each in known if is_number(each) and each != "3"]
    places = [f"[{at}]" in usage for at in range(use.count)]
    if any(places) and (items.kind is None or all(places)):
        # It is one record, and each of its places has something of its own.
        return [f"[{_record(usage, '', 0)[1:-1]}]"]
    if items.kind == "sequence":
        records = [f"[{', '.join(_record(usage, '[]', at) for at in range(length))}]" for length in lengths]
        return list(records)
    if items.kind is None and not use.counts and _TELLING_APART.fullmatch(name):
        return [f"[{', '.join(map(repr, ascii_lowercase[:length]))}]" for length in lengths]
    match items.kind:
        case "string":
            values = [*items.literals[:2], "'relu'"]
        case "class":
            values = ["torch.nn.Identity"]
        case "callable":
            values = ["torch.nn.Identity()"]
        case _ if items.indexing and not items.literals:
            values = ["0"]
        case _:
            many = [*FEW] if items.counts else []
            values = [*items.literals[:1], *many, *numbers[:1], "64", "2"]
    return [f"[{', '.join([value] * length)}]" for value in dict.fromkeys(values) for length in lengths]


def spaces(name: str, fields: Collection[str]) -> list[str]:
    """Return what stands for a space of observations or actions; none where it is not called one.

    Args:
        name: What it is called.
        fields: What is read from it.
    """
    called = _SPACE.fullmatch(name)
    if called is None or (fields and _OF_SPACES.isdisjoint(fields)):
        return []
    kinds = ("Dict", "Box") if "spaces" in fields else ("Box", "Discrete", "Dict")
    return [each for kind in kinds for each in spaces_of(kind, called[1])]


def spaces_of(kind: str, name: str) -> list[str]:
    """Return what stands for spaces of a kind, as their packages call it; those of actions are small.

    Args:
        kind: The name of the class; `Space` stands for any.
        name: What it is called.
    """
    shapes = ("(4,)", "(64,)") if name.startswith("act") else ("(64,)", "(3, 64, 64)")
    boxes = [_box(each) for each in shapes]
    known = {
        "Box": boxes,
        "Discrete": [f"{_named('Discrete')}(shape=(), n=4, start=0, {_WHOLE}, sample=lambda: 0)"],
        "MultiDiscrete": [f"{_named('MultiDiscrete')}(shape=(2,), nvec=numpy.array([4, 4]), {_WHOLE})"],
        "MultiBinary": [f"{_named('MultiBinary')}(shape=(4,), n=4, dtype=numpy.dtype('int8'))"],
        "Dict": [f"{_named('Dict')}(spaces={{'a': {boxes[0]}, 'b': {boxes[0]}}})"],
    }
    return known.get(kind, [*boxes, *known["Discrete"], *known["Dict"]])


def _box(shape: str) -> str:
    """Return a space of arrays of a shape, which says as well of how many numbers one is chosen."""
    ones = f"numpy.ones({shape}, 'float32')"
    values = f"low=-{ones}, high={ones}, dtype=numpy.dtype('float32'), sample=lambda: {ones}"
    return f"{_named('Box')}(shape={shape}, n=4, {values})"


def _named(name: str) -> str:
    """Return a class of objects with attributes that has a name: code asks what kind of space it is."""
    return f"type('{name}', (SimpleNamespace,), {{}})"


def _record(usage: Usage, path: str, at: int) -> str:
    """Return an example of a list or tuple, given what is known of it, which is the one at a position in a list."""
    use = usage.get(path, Use())
    if not use.count:
        inner = "[]" if f"{path}[]" in usage else "[0]"
        return f"({', '.join([_part(usage, path + inner, 0)] * max(use.least, 2))})"
    places = [f"{path}[{each}]{'[]' * use.turned}" for each in range(use.count)]
    parts = [_part(usage, each if each in usage else f"{path}[]", 0) for each in places]
    told_apart = [_told_apart(usage, each if each in usage else f"{path}[]", at) for each in places]
    # Where all of it is text, it is all alike.
    return written_tuple(parts if set(parts) == {_LETTERS[0]} else told_apart)


def _told_apart(usage: Usage, path: str, at: int) -> str:
    """Return an example of what stands in the record at a position in a list: there is an item for each index."""
    use = usage.get(path, Use())
    is_index = use.indexing and use.kind in {"number", None} and not use.literals
    return str(at) if is_index else _part(usage, path, at)


def _part(usage: Usage, path: str, at: int) -> str:
    """Return an example of what stands in a record: a number, a text, a record."""
    use = usage.get(path, Use())
    known = [each for name in use.names for each in usual_values(name)]
    match use.kind:
        case "sequence" if path.count("[") < _DEEPEST:
            return _record(usage, path, at)
        case "string":
            return next(iter(use.literals), _LETTERS[at % len(_LETTERS)])
        case "mapping" if path.count("[") < _DEEPEST and (fields := fields_of(usage, path)):
            return f"{{{', '.join(f'{each!r}: {_field(usage, path, each)}' for each in fields)}}}"
        case "mapping" if path.count("[") < _DEEPEST and f"{path}[]" in usage:
            item = _part(usage, f"{path}[]", 0)
            return f"{{{', '.join(f'{each}: {item}' for each in _LETTERS)}}}"
        case "object" if path.count("[") < _DEEPEST and (fields := fields_of(usage, path)):
            return f"SimpleNamespace({', '.join(f'{each}={_field(usage, path, each)}' for each in fields)})"
        case "class" | "callable" | "tensor" as kind:
            return as_indices(_ANY[kind]) if use.indexing else _ANY[kind]
        case kind:
            return next(iter(use.literals), next((each for each in known if kind == "number" and is_number(each)), "2"))


def _field(usage: Usage, path: str, name: str) -> str:
    """Return an example of what a mapping or an object in a record has by a name."""
    inner = f"{path}.{name}"
    is_plain = usage[inner].kind in {"number", "flag", None} if inner in usage else False
    return next(iter(usual_values(name)), "2") if is_plain else _part(usage, inner, 0)


_DEEPEST: Final = 4
"""How many lists are inside each other."""
