"""What is known of the values that a constructor is given: evidence by path, such as `dim` or `config.width`.

Whoever reads code adds to it; whoever proposes arguments asks it. Nothing is read here.
"""

from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["number", "string", "sequence", "mapping", "object", "callable", "class", "tensor", "flag"]

_OF_TEXT: Final = (
    "lower", "upper", "startswith", "endswith", "split", "strip", "partition", "format", "replace", "rsplit",
    "rpartition", "lstrip", "rstrip", "removeprefix", "removesuffix", "isdigit", "capitalize",
)  # fmt: skip

METHODS: Final[dict[str, Kind]] = {
    **dict.fromkeys(_OF_TEXT, "string"),
    **dict.fromkeys(("get", "items", "keys", "values", "setdefault"), "mapping"),
    **dict.fromkeys(("append", "extend", "index", "insert"), "sequence"),
    **dict.fromkeys(
        (
            "size",
            "dim",
            "view",
            "clone",
            "detach",
            "unsqueeze",
            "numel",
            "ndimension",
            "permute",
            "transpose",
            "unbind",
            "tolist",
            "reshape",
        ),
        "tensor",
    ),
    **dict.fromkeys(("bit_length", "is_integer"), "number"),
}
"""What has an attribute of such a name; `copy`, `pop` and `update` are left out, since several kinds have them."""


SHARED: Final = frozenset({"copy", "pop", "update", "to", "device", "dtype", "weight", "bias"})
"""Attributes that say nothing of what has them, since several kinds do."""

MOVED: Final = frozenset({"to", "device", "dtype", "cuda", "cpu"})
"""Those of them that are about where values lie, and of which type they are."""

PROPERTIES: Final = frozenset({"shape", "ndim"})
"""What only tensors have, and arrays."""

OF_ARRAYS: Final = frozenset({"astype", "nbytes"})
"""Attributes that arrays have, and tensors have not."""

_OF_LAYERS: Final = frozenset(
    {"in_features", "out_features", "in_channels", "out_channels", "embedding_dim", "num_embeddings"}
)
"""What torch's layers call numbers."""

_BY_CHANCE: Final = 8
"""How much more often something is treated as a text than as a list, if it is a text in truth."""

GIVEN: Final = "()"
"""What stands in a path for what a call gives: `vocab.size.()`."""


class Called(NamedTuple):
    """How something was to be called: by its name, with arguments or without any; `results` are 0 for one.

    That is into how many variables they are unpacked.
    """

    name: str
    has_arguments: bool
    results: int


@dataclass
class Use:
    """What is known of one value. Mutable: evidence is added.

    Attributes:
        kinds: What it is treated as, with how often.
        literals: Expressions that it is compared with, or that a table has as keys.
        contents: What is looked for in it, as expressions.
        asked: The keys or attributes that it is asked for whether it has them: it may do without.
        count: Into how many variables it is unpacked.
        results: What the variables stand for into which is unpacked what it returns, or each of its items: for each the
            place of the argument that is called like it, the first one where none is.
        least: How many items it has at least; of a mapping, whether it has any.
        names: What it is called elsewhere: parameters that it is handed to.
        defaults: What those have as default.
        optional: It may be None.
        textual: It may be a string, whatever else it may be.
        numeric: Likewise a number.
        counts: It says how many parts are made.
        computed: It is computed with as numbers are, and lists are not.
        turned: It is a record, and what it has in a place stands in a list with that of the others.
        apart: It has an attribute that no tensor has.
        array: It is an array of numpy's.
        indexing: It says which items of something are taken.
        axis: It says along which axis tensors are worked on.
        titles: What its class is called, as expressions.
        read: It is read from what must have it.
        replaced: Something else is taken for it where what it is read from lacks it.
    """

    kinds: dict[Kind, int] = field(default_factory=dict["Kind", int])
    literals: list[str] = field(default_factory=list[str])
    contents: list[str] = field(default_factory=list[str])
    asked: list[str] = field(default_factory=list[str])
    count: int = 0
    results: tuple[int, ...] = ()
    least: int = 0
    names: list[str] = field(default_factory=list[str])
    defaults: list[str] = field(default_factory=list[str])
    optional: bool = False
    textual: bool = False
    numeric: bool = False
    counts: bool = False
    computed: bool = False
    turned: bool = False
    apart: bool = False
    array: bool = False
    indexing: bool = False
    axis: bool = False
    titles: list[str] = field(default_factory=list[str])
    read: bool = False
    replaced: bool = False

    def note(self, kind: Kind) -> None:
        """Add evidence for a kind."""
        self.kinds[kind] = self.kinds.get(kind, 0) + 1

    @property
    def kind(self) -> Kind | None:
        """What it is, as far as one can tell; a test for truth alone says least."""
        strong: dict[Kind, int] = {kind: count for kind, count in self.kinds.items() if kind != "flag"}
        structured: tuple[Kind, ...] = ("tensor", "mapping", "object", "sequence")[self.apart :]
        if self.computed and "sequence" in strong:
            # What a layer takes is a number, though it may stand for several.
            is_number = strong.get("number", 0) > strong["sequence"] and not _OF_LAYERS.isdisjoint(self.names)
            return "number" if is_number else "tensor"
        if strong.get("string", 0) > strong.get("sequence", 0) + _BY_CHANCE:
            # A text is gone over as well, or several are where there may be one.
            strong.pop("sequence", None)
        telling: list[Kind] = [kind for kind in structured if kind in strong] or sorted(
            strong, key=lambda each: -strong[each]
        )
        if telling:
            return telling[0]
        return "flag" if self.kinds else None

    def merge(self, other: "Use") -> None:
        """Add the evidence for a value that is the same one."""
        for kind, count in other.kinds.items():
            self.kinds[kind] = self.kinds.get(kind, 0) + count
        self.literals += other.literals
        self.contents += other.contents
        self.asked += other.asked
        self.count = self.count or other.count
        self.results = max(self.results, other.results, key=len)
        self.least = max(self.least, other.least)
        self.names += other.names
        self.defaults += other.defaults
        self.optional = self.optional or other.optional
        self.textual = self.textual or other.textual
        self.numeric = self.numeric or other.numeric
        self.counts = self.counts or other.counts
        self.computed = self.computed or other.computed
        self.turned = self.turned or other.turned
        self.apart = self.apart or other.apart
        self.array = self.array or other.array
        self.indexing = self.indexing or other.indexing
        self.axis = self.axis or other.axis
        self.titles += other.titles
        self.read = self.read or other.read
        self.replaced = self.replaced or other.replaced


Usage: TypeAlias = dict[str, Use]
"""Evidence by path: `dim`, `config.width`, `depths[]` for an item of a sequence."""


def kind_of_attribute(name: str) -> Kind | None:
    """Return what has an attribute of this name, None for a name that says nothing."""
    return "tensor" if name in PROPERTIES else METHODS.get(name)


def fields_of(usage: Usage, path: str) -> list[str]:
    """Return the names of the attributes or keys that are read from a value, in their order."""
    prefix = f"{path}."
    found = (each[len(prefix) :] for each in usage if each.startswith(prefix))
    names = dict.fromkeys(each.partition(".")[0].partition("[")[0] for each in found)
    return [each for each in names if each != GIVEN]


def merge(usage: Usage, path: str, known: Usage, name: str) -> None:
    """Add what is known of a receiver's parameter, and of its parts, to the value that it is given."""
    for other, use in known.items():
        if other == name or other.startswith((f"{name}.", f"{name}[")):
            usage.setdefault(path + other[len(name) :], Use()).merge(use)
