"""Places that are like each other: the same one in every item of a list, or in other calls of a class.

What mends one of them mends the others as well.
"""

from collections.abc import Sequence
from string import ascii_lowercase

from fxworker.choices import Choice, Group, Value, fields_in, joined, owner_of


def all_alike(choice: Choice, path: str) -> list[str]:
    """Return the paths of a place in every item of the list, or of the table with any keys, that it is in; or its own.

    Items of which each has a class of its own are not alike.
    """
    steps = path.split(".")
    for at in range(1, len(steps)):
        around, name = ".".join(steps[:at]), steps[at]
        items = _items_of(choice.get(around))
        if name in items:
            rest = "".join(f".{each}" for each in steps[at + 1 :])
            return [f"{around}.{each}{rest}" for each in fields_in(choice, around) if each in items]
    return [path]


def twins_of(choice: Choice, path: str) -> list[str]:
    """Return the paths of the same field in other calls of the class that a field belongs to."""
    around, name = owner_of(path)
    group = choice.get(around)
    if not around or not isinstance(group, Group) or group.style != "call":
        return []
    others = [each for each, value in choice.items() if each not in {"", around} and value == group]
    return [joined(each, name) for each in others if joined(each, name) not in all_alike(choice, path)]


def _items_of(value: Value | None) -> Sequence[str]:
    """Return what the items of a list are called that are alike, or those of a table with any keys; none for others."""
    if not isinstance(value, Group) or isinstance(value.cls, tuple):
        return ()
    match value.style:
        case "list":
            return [str(each) for each in range(value.size)]
        case "mapping":
            return [*ascii_lowercase[: value.size]]
        case _:
            return ()
