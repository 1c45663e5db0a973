"""Temporary replacements of attributes, globals and code, shared by all the traces that need them at the same time.

Tracing has to stand between the user's code and a few things that it calls: `nn.Module.__call__`, parameters read from
a module, functions registered with `wrap`. Those belong to the whole process, so a replacement has holders: the first
trace that needs it puts it in place, the last one to finish takes it away, and traces in other threads in between are
not disturbed. A replacement must therefore serve every trace and none: it finds out by itself whose call it sees.
"""

import threading
from collections.abc import Callable, Collection, Hashable, Mapping
from types import CodeType, FunctionType
from typing import Any, Final, Self, TypeAlias, cast

_Key: TypeAlias = tuple[int, Hashable]

MISSING: Final = object()
"""What a name means that is not in a namespace."""


class _Place:
    """Something of the process that is replaced now, and how many traces need it so."""

    __slots__ = ("holders", "name", "original", "owner", "owner_ids")

    def __init__(self, owner: Any, name: Any, original: Any, owner_ids: Collection[int] = ()) -> None:
        # The owner is kept so that no other object takes its id.
        self.owner = owner
        self.owner_ids = owner_ids or (id(owner),)
        self.name = name
        self.original = original
        self.holders = 1

    def put(self, value: Any) -> None:
        """Set an attribute of the owner."""
        setattr(self.owner, self.name, value)

    def put_back(self, hidden: Collection[_Key]) -> None:
        """Put what stood there back, but for what is hidden below another replacement."""
        if not hidden:
            self.put(self.original)

    def originals(self) -> dict[_Key, Any]:
        """What is replaced, by its owner's id and its name, and what stood there."""
        return {(id(self.owner), self.name): self.original}

    def stands_on(self, originals: Mapping[_Key, Any]) -> None:
        """Take note that what stood below some of this is not what was found there, but what is given."""
        self.original = originals.get((id(self.owner), self.name), self.original)


class _Item(_Place):
    """A name in a namespace; one that was not there is deleted in the end."""

    __slots__ = ()

    def put(self, value: Any) -> None:
        if value is MISSING:
            del self.owner[self.name]
        else:
            self.owner[self.name] = value


class _Items(_Place):
    """Several names in a namespace, replaced and put back together."""

    __slots__ = ()

    def put(self, value: dict[str, Any]) -> None:
        self.owner.update(value)

    def put_back(self, hidden: Collection[_Key]) -> None:
        seen = self.original
        if hidden:
            seen = {name: value for name, value in seen.items() if (id(self.owner), name) not in hidden}
        self.put(seen)

    def originals(self) -> dict[_Key, Any]:
        return {(id(self.owner), name): value for name, value in self.original.items()}

    def stands_on(self, originals: Mapping[_Key, Any]) -> None:
        below = {name: originals[id(self.owner), name] for name in self.original if (id(self.owner), name) in originals}
        self.original = {**self.original, **below}


class _Scattered(_Place):
    """Names in several namespaces, each the owner with one of the names, replaced and put back together."""

    __slots__ = ()

    def put(self, value: list[Any]) -> None:
        for (name, namespace), each in zip(self.owner, value, strict=True):
            if each is MISSING:
                namespace.pop(name, None)
            else:
                namespace[name] = each

    def put_back(self, hidden: Collection[_Key]) -> None:
        if hidden:
            pairs = zip(self.owner, self.original, strict=True)
            seen = [(pair, value) for pair, value in pairs if (id(pair[1]), pair[0]) not in hidden]
            self.owner, self.original = [pair for pair, _ in seen], [value for _, value in seen]
        self.put(self.original)

    def originals(self) -> dict[_Key, Any]:
        pairs = zip(self.owner, self.original, strict=True)
        return {(id(namespace), name): value for (name, namespace), value in pairs}

    def stands_on(self, originals: Mapping[_Key, Any]) -> None:
        pairs = zip(self.owner, self.original, strict=True)
        self.original = [originals.get((id(namespace), name), value) for (name, namespace), value in pairs]


class _Places:
    """The places that are replaced now, by the owner's id and the name, in that order. The lock guards the table."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.table: dict[_Key, _Place] = {}

    def release(self, key: _Key) -> None:
        """Put a place back as it was, but for what traces that go on have replaced on top of it since."""
        if next(reversed(self.table)) == key:
            self.table.pop(key).put_back(frozenset())
            return
        order = list(self.table)
        above = [self.table[each] for each in order[order.index(key) + 1 :]]
        place = self.table.pop(key)
        below = place.originals()
        place.put_back({each for other in above for each in other.originals() if each in below})
        for other in above:
            other.stands_on(below)


_PLACES: Final = _Places()


class Patches:
    """The replacements that one trace holds; all are let go when the `with` block ends."""

    def __init__(self) -> None:
        self._held: dict[_Key, None] = {}
        self._searched: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with _PLACES.lock:
            for key in reversed(self._held):
                place = _PLACES.table[key]
                place.holders -= 1
                if place.holders == 0:
                    _PLACES.release(key)
        self._held.clear()

    def attribute(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace `owner.name`, a class's or a module's, by what `make` returns for the present value."""
        with _PLACES.lock:
            if not self._joins(owner, name):
                # What binds to the class that is asked for it is put back as it stands in its own.
                is_own = isinstance(owner, type) and name in vars(owner)
                original = vars(owner)[name] if is_own else getattr(owner, name)
                self._fill(_Place(owner, name, original), make(original))

    def code(self, function: FunctionType, code: CodeType) -> None:
        """Let `function` run other code, wherever it is called from."""
        self.attribute(function, "__code__", lambda _: code)

    def item(self, namespace: dict[str, Any], name: str, original: Any, make: Callable[[Any], Any]) -> None:
        """Replace what `name` means in a namespace, `original`, by `make(original)`."""
        with _PLACES.lock:
            if not self._joins(namespace, name):
                self._fill(_Item(namespace, name, namespace.get(name, MISSING)), make(original))

    def items(
        self, namespace: dict[str, Any], key: Hashable, make: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    ) -> None:
        """Replace names in a namespace; traces with the same key hold that together.

        Args:
            namespace: The namespace.
            key: What the choice of names follows from.
            make: Returns what stands for each name that is to be replaced, given what the names mean by themselves.
        """
        with _PLACES.lock:
            if not self._joins(namespace, key):
                values = make(meanings(namespace))
                if values:
                    originals = {name: namespace[name] for name in values}
                    self._fill(_Items(namespace, key, originals), values)

    def scattered(self, registered: Mapping[tuple[int, str], dict[str, Any]], make: Callable[[str, Any], Any]) -> None:
        """Replace what each registered name means in its namespace; traces that know the same names hold that together.

        Args:
            registered: The namespaces by their id and the name in them.
            make: What stands for a name, given it and what it means; `MISSING` is what one means that is not there.
        """
        # A frozen set keeps its hash: as a key it is looked up several times.
        keys = frozenset(registered)
        with _PLACES.lock:
            for (_, held), place in list(_PLACES.table.items()):
                # Whoever began earlier may have known fewer names.
                if type(place) is _Scattered and not keys.isdisjoint(known := cast("frozenset[Any]", held)):
                    keys -= known
                    self._joins(place.owner, known)
            if keys:
                owner = [(key[1], namespace) for key, namespace in registered.items() if key in keys]
                originals = [namespace.get(name, MISSING) for name, namespace in owner]
                values = [make(name, value) for (name, _), value in zip(owner, originals, strict=True)]
                self._fill(_Scattered(owner, keys, originals, {key[0] for key in keys}), values)

    def first_visit(self, namespace: dict[str, Any]) -> bool:
        """Whether this trace asks for this namespace for the first time."""
        if id(namespace) in self._searched:
            return False
        self._searched.add(id(namespace))
        return True

    def _joins(self, owner: Any, name: Hashable) -> bool:
        """Whether the place is replaced already, by this trace or by one whose replacement it now holds too."""
        key = (id(owner), name)
        if key in self._held:
            return True
        place = _PLACES.table.get(key)
        if place is None:
            return False
        place.holders += 1
        self._held[key] = None
        return True

    def _fill(self, place: _Place, value: Any) -> None:
        key = (id(place.owner), place.name)
        place.put(value)
        _PLACES.table[key] = place
        self._held[key] = None


def meanings(namespace: dict[str, Any]) -> Mapping[str, Any]:
    """Return what the names in a namespace mean where no trace replaces them."""
    wanted = id(namespace)
    with _PLACES.lock:
        places = [place for place in _PLACES.table.values() if wanted in place.owner_ids]
        if not places:
            return namespace
        known = dict(namespace)
        for place in reversed(places):
            for (owner, name), value in place.originals().items():
                if owner == wanted:
                    known[cast("str", name)] = value
        return {name: value for name, value in known.items() if value is not MISSING}


def copied(function: Any) -> Any:
    """A function that does what `function` does now, whatever code it is given; anything else is returned itself."""
    if not isinstance(function, FunctionType):
        return function
    return FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


def code_with(code: CodeType, **constants: Any) -> CodeType:
    """The code with objects in place of the constants that name them, as `"<name>"`.

    Code that runs as another function's finds that one's globals, so it must bring along what it needs.
    """
    named = {f"<{name}>": value for name, value in constants.items()}
    consts = tuple(named.get(const, const) if isinstance(const, str) else const for const in code.co_consts)
    return code.replace(co_consts=consts)
