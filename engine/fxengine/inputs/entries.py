"""What dictionaries and objects among the inputs lack: keys that code looks up, attributes that are None."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from fxengine.classification import Moment
from fxengine.inputs.absences import absent_names
from fxengine.inputs.conditions import expression_nodes, function_around
from fxengine.inputs.frames import Frame
from fxengine.inputs.moves import Change, Moves
from fxengine.inputs.proposals import Proposer
from fxengine.inputs.recipes import Listing, Recipe, Record, Structure

__all__ = ["missing_entries", "missing_parts"]

_FRAMES: Final = 6
"""How many frames are looked at, from the innermost outwards."""

_MISSING: Final = re.compile(r"(?:argument|arguments|key|keys|and)\W{0,3}'(\w+)'")
_QUOTED: Final = re.compile(r"(?<!\w)[`'\"](\w+)[`'\"]")
_LISTED: Final = re.compile(r"\b(?:keys|arguments|inputs|fields|entries)\b[^\[({]{0,40}[\[({]((?:\s*['\"]\w+['\"],?)+)")
"""Several names that are missing, in a list."""


def missing_entries(moves: Moves, proposer: Proposer) -> Iterator[Change]:
    """Give dictionaries among the inputs, or in lists of them, what the code looked for and found None."""
    tables = [(name, recipe, keys) for name, recipe in moves.recipes.items() if (keys := _keys_of(recipe)) is not None]
    if not tables:
        return
    error = moves.outcome.error
    looked_up = (
        [key for key in error.args if isinstance(key, str) and key.isidentifier()]
        if isinstance(error, KeyError)
        else []
    )
    listed = [name for names in _LISTED.findall(str(error)) for name in re.findall(r"\w+", names)]
    for name, recipe, keys in tables if len(listed) > 1 else ():
        others = dict.fromkeys(key for key in listed if key not in keys and key not in moves.recipes)
        entries = tuple((key, proposer.named(key)[0]) for key in others)
        yield moves.put((name,), _with_entries(recipe, entries), 0.4)
    wanted = [*looked_up, *_MISSING.findall(str(error)), *absent_names(moves.outcome.moments, error)]
    for cost, key in enumerate(dict.fromkeys(wanted)):
        for name, recipe, keys in tables:
            if key not in keys and key not in moves.recipes:
                entry = proposer.named(key)[0]
                yield moves.put((name,), _with_entries(recipe, ((key, entry),)), 0.5 + 0.2 * cost)


def _keys_of(recipe: Recipe) -> frozenset[str] | None:
    """Return the keys of a dictionary, or of the first of several in a list; None where it is neither."""
    match recipe:
        case Record(items=items):
            return frozenset(key for key, _ in items)
        case Listing(items=(Record(items=items), *others)) if all(isinstance(each, Record) for each in others):
            return frozenset(key for key, _ in items)
        case _:
            return None


def _with_entries(recipe: Recipe, entries: tuple[tuple[str, Recipe], ...]) -> Recipe:
    """Return a dictionary, or each of those in a list, with more entries."""
    if isinstance(recipe, Listing):
        return replace(recipe, items=tuple(_with_entries(each, entries) for each in recipe.items))
    assert isinstance(recipe, Record)
    return Record((*recipe.items, *entries))


def missing_parts(moves: Moves, proposer: Proposer) -> Iterator[Change]:
    """Give objects of which something is read that is None, as `data.pos` is by default, a value for that."""
    objects = [(name, recipe) for name, recipe in moves.recipes.items() if isinstance(recipe, Structure)]
    if not objects:
        return
    for cost, wanted in enumerate(_asked_for(moves)):
        for name, owner in objects:
            if owner.takes(wanted) and wanted not in dict(owner.items):
                parts = proposer.parts(name, [wanted], dict(owner.items))
                yield moves.put((name,), replace(owner, items=(*owner.items, *parts)), 0.3 + 0.1 * cost)
    for depth, moment in enumerate(moves.outcome.moments[:_FRAMES]):
        frame = Frame(moves, moment)
        for node in _attributes(moment, frame):
            place = frame.place(frame.value(node.value))
            owner = frame.recipe(place) if place is not None else None
            if place is not None and isinstance(owner, Structure) and owner.takes(node.attr):
                known = {name: part for name, part in owner.items if name != node.attr}
                items = (*known.items(), *proposer.parts(str(place[-1]), [node.attr], known))
                yield moves.put(place, replace(owner, items=items), 0.1 + 0.1 * depth)


def _attributes(moment: Moment, frame: Frame) -> Iterator[ast.Attribute]:
    """Yield the attributes that are None in the expressions which raised, or that names there were assigned from."""
    function = function_around(moment)
    assigned = [each for each in ast.walk(function) if isinstance(each, ast.Assign)] if function is not None else []
    for node in (each for whole in expression_nodes(moment) for each in ast.walk(whole)):
        if not isinstance(node, ast.Name | ast.Attribute) or frame.value(node) is not None:
            continue
        if isinstance(node, ast.Attribute):
            yield node
            continue
        for each in assigned:
            is_of_name = any(isinstance(target, ast.Name) and target.id == node.id for target in each.targets)
            if is_of_name and isinstance(each.value, ast.Attribute):
                yield each.value


def _asked_for(moves: Moves) -> list[str]:
    """Return the names in quotes in a message that the code which raised it has as texts: `getattr(data, "pos")`."""
    texts = {
        each for moment in moves.outcome.moments[:1] for each in moment.frame.f_code.co_consts if type(each) is str
    }
    return [name for name in dict.fromkeys(_QUOTED.findall(str(moves.outcome.error))) if name in texts]
