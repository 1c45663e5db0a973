"""What expressions evaluate to: the nodes that stand for their values, one for each time that an expression ran.

A report says which expression made which node, not where one evaluation ends and the next begins, nor what it returned.
Both are concluded here, from the order of the nodes, the paths of the modules that made them, and who uses what. Where
that leaves a doubt, nothing is said: no shape is better than a wrong one.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final
from weakref import WeakKeyDictionary

from fxls.features.places import Places, Site, Sites
from fxls.snapshot import Snapshot
from fxworker.wire import NodeInfo, Span

_OWN_MODULE: Final = re.compile(r"self((?:\.\w+)+)\(")
_OTHER_CALL: Final = re.compile(r"self(?:\.\w+)+\[|\w+\(|\w+\[")


def values(snapshot: Snapshot, wanted: Iterable[Span]) -> dict[Span, list[NodeInfo]]:
    """Return, for each wanted expression that made nodes, those that its values are, in the order of its runs."""
    places = Places.of(snapshot)
    if places.sites is None:
        return {}
    known = _KNOWN.setdefault(places.sites, {})
    found: dict[Span, list[NodeInfo]] = {}
    for span in wanted:
        if span not in places.spans:
            continue
        before = places.before(span)
        if before not in known:
            # No edit touched it: its source is that of the report's text.
            known[before] = _values(snapshot.mapper.source(span), before, places.at(span))
        found[span] = known[before]
    return found


_KNOWN: Final[WeakKeyDictionary[Sites, dict[Span, list[NodeInfo]]]] = WeakKeyDictionary()


def _values(source: str, span: Span, found: Sequence[Site]) -> list[NodeInfo]:
    runs = (run for region in _regions(found) for run in _runs(source, region))
    return [node for run in runs if (node := _value(run, span)) is not None]


def _regions(found: Sequence[Site]) -> Iterator[list[Site]]:
    """Yield the nodes of an expression that no other expression's nodes lie between."""
    region: list[Site] = []
    for site in found:
        if region and (site.number != region[-1].number + 1 or site.target is not region[-1].target):
            yield region
            region = []
        region.append(site)
    if region:
        yield region


def _runs(source: str, region: list[Site]) -> Iterator[list[Site]]:
    """Yield the runs of an expression out of nodes that no other expression's nodes lie between."""
    paths = [_path(site) for site in region]
    own = _OWN_MODULE.match(source)
    if own is not None:
        # `self.a.b(x)` runs a submodule or a method: the same one, in an instance that the path names.
        child = tuple(own[1].split(".")[1:])
        keys = [_before(path, child) for path in paths]
        if all(key is None for key in keys):
            # A leaf, whose node the instance itself made, or a method, in which other modules make nodes, too.
            keys = paths if len({*paths}) == len(region) else [()] * len(region)
    elif len({*paths}) == 1 and _OTHER_CALL.match(source) and all(site.node.op == "call_module" for site in region):
        # `layer(x)`, where the layers are leaves: each of their nodes is a call of its own.
        keys = [(str(number),) for number in range(len(region))]
    else:
        keys = _beyond_common(paths)
    for _, run in groupby(zip(keys, region, strict=True), key=lambda pair: pair[0]):
        yield [site for _, site in run]


def _value(run: Sequence[Site], span: Span) -> NodeInfo | None:
    """Return the one node that a run left for others to use; None where it left several, which makes a tuple or so."""
    made = {site.node.index for site in run}
    # The same parameter is one node, wherever it is used. What nothing uses may be a result that a trace, which
    # stopped early, did not come to use.
    left = [
        site.node
        for site in run
        if site.node.op != "get_attr" and (not site.node.users or not made.issuperset(site.node.users))
    ]
    if len(left) == 1:
        return left[0]
    return run[-1].node if not left and run[-1].innermost == span else None


def _path(site: Site) -> tuple[str, ...]:
    """Return the path of the module that made a node, part by part."""
    path = site.node.origin.module_path if site.node.origin is not None else ""
    return tuple(path.split(".")) if path else ()


def _before(path: tuple[str, ...], child: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the part of a path before a child's; None where the child is not in it."""
    for start in range(len(path) - len(child) + 1):
        if path[start : start + len(child)] == child:
            return path[:start]
    return None


def _beyond_common(paths: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the first part in which paths differ, which tells the modules of a list apart.

    Where one path is the beginning of all others, a function was called that runs in its caller's module: once.
    """
    common = 0
    while len({path[: common + 1] for path in paths}) == 1 and all(len(path) > common for path in paths):
        common += 1
    if any(len(path) == common for path in paths):
        return [()] * len(paths)
    return [path[: common + 1] for path in paths]
