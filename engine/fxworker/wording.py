"""What a message says about arguments in words: which kind of value is wanted, which would do, what is missing.

Only text is read here; what an exception came through is read elsewhere.
"""

import re
from collections.abc import Collection
from typing import Final

from fxworker.evidence import Kind

_QUOTED: Final = re.compile(r"""['"`]([A-Za-z][\w\-./+ ]*)['"`]""")
_SAID: Final[dict[str, Kind]] = {
    **dict.fromkeys(("list", "tuple", "sequence", "iterable", "lists", "tuples"), "sequence"),
    **dict.fromkeys(("int", "integer", "float", "number", "positive"), "number"),
    **dict.fromkeys(("str", "string"), "string"),
    **dict.fromkeys(("dict", "dictionary", "mapping"), "mapping"),
    **dict.fromkeys(("callable", "function"), "callable"),
    **dict.fromkeys(("tensor", "Tensor"), "tensor"),
    **dict.fromkeys(("bool", "boolean"), "flag"),
}

MOST_VALUES: Final = 8
"""How many values are taken from a message, or from a table."""

WANTED: Final[tuple[tuple[str, Kind], ...]] = (
    (r"'(\w+)' object is not iterable|(?:argument|Value) after \* must be an iterable, not (\w+)", "sequence"),
    (r"unhashable type: '(list)'", "sequence"),
    (r"object of type '(\w+)' has no len|'(\w+)' object is not reversible", "sequence"),
    (r"expected np\.ndarray \(got (\w+)\)", "tensor"),
    (r"invalid data type '(\w+)'", "sequence"),
    (r"'(\w+)' object is not callable", "class"),
    (r" is not a callable object", "callable"),
    (r"(Identity|Module|GELU)\.forward\(\) takes", "class"),
    (r"argument after \*\* must be a mapping, not (\w+)", "mapping"),
    (r"not supported between instances of 'Tensor' and '(list|tuple)'", "tensor"),
    (r"unsupported operand type.* for @: 'Tensor' and '(\w+)'", "tensor"),
    (r"unsupported operand type.* for @: '(\w+)' and 'Tensor'", "tensor"),
    (r"not supported between instances of '(list|tuple)' and 'Tensor'", "tensor"),
    (r"for \+: '(int|float|str)' and '(?:list|tuple)'|for \+: '(?:list|tuple)' and '(\w+)'", "sequence"),
    (r"can only concatenate (?:list|tuple) \(not \"(\w+)\"\)", "sequence"),
    (r"unsupported operand type.* for .*'(NoneType|str|type|Identity|tuple|list|dict|SimpleNamespace)'", "number"),
    (r"'(\w+)' object cannot be interpreted as an integer|must be real number, not (\w+)", "number"),
    (r"(?:float|int)\(\) argument must be .*, not '(\w+)'", "number"),
    (r"can't multiply sequence by non-int of type '(\w+)'", "number"),
    (r"not supported between instances of .*'(NoneType|str|tuple|list|Identity|type)'", "number"),
    (r"argument of type '(\w+)' is not iterable", "sequence"),
    (r"cannot assign '(\w+)' object to (?:buffer|parameter) .*Tensor", "tensor"),
    (r"cannot assign '(?:[\w.]*\.)?(\w+)' as child module|(\w+) is not a Module subclass", "callable"),
    (r"must be (?:tuple|list) of ints, ?but (?:found element of type|got) (\w+)", "number"),
    (r"module name should be a string\. Got (\w+)", "string"),
    (r"expected str.*|attribute name must be string, not '(\w+)'|must be str, not (\w+)", "string"),
)
"""What a message says that it wanted, with the type of what it got."""

_OF_NUMBERS: Final = re.compile(r"(?<![\w.])[\[(]\d+(?:, ?\d+)+[\])]")
"""A list of numbers, or a tuple, as Python writes it."""

_ONE_NUMBER: Final = re.compile(
    r"Boolean value of Tensor with more than one value|only one element tensors|elements cannot be converted to Scalar"
)
"""What torch says of a tensor that should have been a number."""

_NO_MODULE: Final = re.compile(r"(\w+) is not a Module subclass")
"""What torch says of what was to be a part of a model, and is none."""

_READ_AS_NUMBER: Final = re.compile(r"invalid literal for int\(\)|could not convert string to float")
"""What Python says of a text that should have had a number in it."""

_TOLD: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = (
    (
        re.compile(r"too (short|small|few|low)|must be (larger|longer|greater|bigger)|not (long|large) enough"),
        ("512", "4096"),
    ),
    (re.compile(r"[Ee]xactly one of|[Oo]nly one of|[Mm]utually exclusive|[Cc]an(no|')t both be"), ("None",)),
)
"""What messages say that is wrong, each with what may be given instead."""

_NOT_POSITIVE: Final = re.compile(
    r"negative dimension|(must|should) be (a |an )?(positive|greater than (0|zero)|> ?0)", re.IGNORECASE
)

_SMALL_PICTURE: Final = re.compile(
    r"Kernel size can't be greater than actual input size|Output size is too small"
    r"|should be less than the corresponding input dimension"
)
"""What torch says of a picture that has become too small on the way."""

_TOO_MANY_AXES: Final = re.compile(r"too many indices for (?:tensor of dimension|array: array is) (\d)")

_UNTYPED: Final = re.compile(r"Could not infer dtype of (\w+)")

_LIST: Final = re.compile(r"[(\[{]([^()\[\]{}]+)[)\]}]")
_OPTION: Final = re.compile(r"""['"`]?([A-Za-z][\w\-./+]*)['"`]?""")
_BETWEEN: Final = re.compile(r",? or |,? and |[,|/;]")

_NEEDED: Final = r"(?:missing|required|(?:not )?(?:given|set|specified|provided|passed|defined))"
_IS: Final = r"(?:is|are|was|were|must be|should be|has to be|have to be|needs to be)"
_MISSING: Final = re.compile(
    rf"(?:arguments?|parameters?|keywords?|options?|fields?|keys?) [`'\"]?(\w+)[`'\"]? {_IS} {_NEEDED}"
    rf"|[`'\"](\w+)[`'\"] {_IS} {_NEEDED}"
    r"|(?:missing|requires?|(?:provide|specify|pass|set|give|expected)(?: \w+)?) (?:an? |the )?"
    r"(?:required |keyword |value for |argument |parameter |option |key )*[`'\"](\w+)[`'\"]"
    r"|^(\w+)\n\s+field required\b",
    re.IGNORECASE | re.MULTILINE,
)
"""How code says in its own words that it wants an argument, and what checks fields says of each that is wanting."""


_UNQUOTED: Final = re.compile(
    r"(\w+) (?:(?:is|are|was|were|has been|could|can) )?not (?:be )?"
    r"(?:given|set|specified|provided|passed|defined|inferred)"
    rf"|(\w+) {_IS} {_NEEDED}"
    r"|(?:missing|requires?|provide|specify|pass|set|give)(?: either)?(?: an?| the)? (\w+)",
    re.IGNORECASE,
)
"""How it does so without setting the argument apart, which may then be any word."""


_REFUSED: Final = re.compile(
    r"(?:not|un)[ -]?(?:recogni[sz]ed|known|expected|allowed)\b.*\b(?:key|option|argument|parameter|field|entr)"
    r"|(?:un(?:recogni[sz]ed|known|expected)|invalid) (?:\w+ )?(?:key|option|argument|parameter|field|entr)",
    re.IGNORECASE,
)
"""How code says that it does not know what it was given something by."""

_SET: Final = re.compile(
    r"\b(?i:set|pass|use|using|setting) [`'\"]*(\w+)[`'\"]*(?: to |\s?=\s?)[`'\"]*(True|False|None|\d+)\b"
)
"""How it says what to give instead."""


def refused_in(text: str) -> tuple[str, ...]:
    """Return the names that a message has in quotes, which it says are none that are known."""
    return tuple(re.findall(r"[`'\"](\w+)[`'\"]", text)) if _REFUSED.search(text) else ()


def told_in(text: str) -> tuple[tuple[str, str], ...]:
    """Return the arguments that a message says to give, with their values: ``set `lax` to True``."""
    return tuple((each[1], each[2]) for each in _SET.finditer(text))


def said_kind(text: str) -> Kind | None:
    """Return the kind that a message of the constructor's own says: `blocks should be a list`."""
    said = re.search(r"(?:must|should|has to|needs to) be (?:either |of type |an? |the )*(\w+)|not a valid (\w+)", text)
    return _SAID.get(said[1] or said[2]) if said is not None else None


def axes_wanted(text: str) -> int:
    """Return how many dimensions something should have, of which a message says that it has too few; 0 for another."""
    told = _TOO_MANY_AXES.search(text)
    return int(told[1]) + 1 if told is not None else 0


def no_number_in(text: str) -> str:
    """Return the type of what torch says is no number, "" where it says nothing of that kind."""
    untyped = _UNTYPED.search(text)
    return untyped[1] if untyped is not None else "Tensor" if _ONE_NUMBER.search(text) else ""


def no_module_in(text: str) -> str:
    """Return the type, or the class, of what torch says is no module, "" where it says nothing of that kind."""
    told = _NO_MODULE.search(text)
    return told[1] if told is not None else ""


def is_read_as_number(text: str) -> bool:
    """Whether a message says that a text was taken for a number."""
    return _READ_AS_NUMBER.search(text) is not None


def values_told(text: str) -> tuple[str, ...]:
    """Return values, as expressions, where a message says what is wrong with one, and not what it should be.

    There is not enough of something, or one of two too many: `Exactly one of horizon and steps should be set`.
    """
    return tuple(value for pattern, values in _TOLD if pattern.search(text) for value in values)


def is_repeated(text: str) -> bool:
    """Whether a message says that things are the same that may not be: `no duplicated lags allowed`."""
    return re.search(r"duplicat|\bunique\b|\bdistinct\b", text, re.IGNORECASE) is not None


def is_not_positive(text: str) -> bool:
    """Whether a message says that a size is negative, or nothing."""
    return _NOT_POSITIVE.search(text) is not None


def is_small_picture(text: str) -> bool:
    """Whether a message says that a picture has become too small on the way."""
    return _SMALL_PICTURE.search(text) is not None


def missing_in(text: str) -> tuple[str, ...]:
    """Return the arguments that a message of a constructor's own says it misses: `the argument k is missing`."""
    found = (each for match in _MISSING.finditer(text) for each in match.groups() if each)
    return tuple(dict.fromkeys(found))


def told_missing(text: str, names: Collection[str]) -> tuple[str, ...]:
    """Return the argument of some names that a message says first that it misses, though nothing sets it apart."""
    found = (each for match in _UNQUOTED.finditer(text) for each in match.groups() if each in names)
    return tuple(found)[:1]


def sequences_told(text: str) -> tuple[str, ...]:
    """Return the lists and tuples of numbers that a message has: those are what it is about."""
    return tuple(dict.fromkeys(_OF_NUMBERS.findall(text)))


def quoted(text: str) -> list[str]:
    """Return the names that a message has in quotes, or lists in brackets, after a colon or `in`."""
    found = [each for listed in _LIST.findall(text) for each in _options(listed)]
    found += _QUOTED.findall(text)
    if not found:
        listed = re.search(
            r"(?:\b(?:one of|in|supported|choices|available|either)\b|:)"
            r"[^\w]*([\w\-]+(?:(?:,| or| and|,? \|) *[\w\-]+)+)",
            text,
        )
        names = re.findall(r"[A-Za-z][\w\-]*", listed[1]) if listed is not None else []
        found = [each for each in names if each not in {"or", "and"}]
    return [repr(each) for each in dict.fromkeys(found)][:MOST_VALUES]


def _options(listed: str) -> list[str]:
    """Return the names in a list, none where something else stands between its commas."""
    parts = [each.strip() for each in _BETWEEN.split(listed) if each.strip()]
    found = [_OPTION.fullmatch(each) for each in parts]
    names = [each[1] for each in found if each is not None]
    return names if len(names) == len(parts) > 1 else []


def numbers(text: str) -> list[str]:
    """Return the small numbers that a message names, as in `must be between 1 and 7`."""
    if "negative dimension" in text:
        return []  # That is what it got.
    found = [each for each in dict.fromkeys(re.findall(r"(?<![\w.])\d{1,3}(?![\w.])", text)) if each != "0"]
    if "divisible" in text or "multiple" in text:
        found += ["1", "64", "8", "4"]
    if re.search(r"\bodd\b", text):
        found += ["7", "3"]
    return found[:MOST_VALUES]
