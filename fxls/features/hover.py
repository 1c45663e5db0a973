"""What is known of the thing under the cursor: a model, an expression's nodes, a problem."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from weakref import WeakKeyDictionary

from lsprotocol import types as lsp

from fxls.discovery.index import ModelIndex
from fxls.discovery.syntax import contains
from fxls.features import markdown as md
from fxls.features.branches import left_out
from fxls.features.listing import cut, listing
from fxls.features.places import PlacedProblem, Places, Site, Sites, extent, target_reports
from fxls.features.problems import Tally, problems_at, problems_by_model
from fxls.features.values import values
from fxls.features.wording import (
    answer,
    chain,
    consequence,
    count,
    depends_on_inputs,
    duration,
    generalised,
    headline,
    instances,
    operations,
    pattern,
    place,
    plural,
    proofs,
    result,
    shortened,
    signature,
    size,
    source,
    ways_out,
)
from fxls.lsp_ext import SHOW_CODE, SHOW_GRAPH
from fxls.rules import rule_page
from fxls.snapshot import Snapshot
from fxls.text.uris import to_uri
from fxworker.wire import Location, NodeInfo, Problem, ProfileReport, Severity, Span, TargetReport

_MOST_LINES: Final = 24
_MOST_NODES: Final = 8
_MOST_USERS: Final = 4
_MOST_PROBLEMS: Final = 8
_MOST_GUARDS: Final = 4
_ORDER: Final[dict[Severity, int]] = {"error": 0, "warning": 1, "information": 2, "hint": 3}
_LONGEST_EXPRESSION: Final = 120
_LONGEST_WAY: Final = 300
_OLD: Final = "*before the last edit*"
_PROVEN: Final = "✓ *proven by tracing the changed text again; numbers are not compared*"


def hover(snapshot: Snapshot, position: lsp.Position) -> lsp.Hover | None:
    """Return what is known at a position, None for nothing. Never waits: it tells what the last report says."""
    point = snapshot.mapper.point(position)
    placed = problems_at(snapshot, point)
    parts = [_problem(snapshot, each) for each in placed]
    span: Span | None = placed[0].span if placed else None
    model = _model_at(snapshot.index, point)
    if model is not None:
        name, span = model
        parts.extend(_model(snapshot, name))
    else:
        found = _expression_at(snapshot, point)
        if found is not None:
            nodes, span = found
            parts.append(nodes)
    parts = [part for part in parts if part]
    if not parts:
        return None
    content = lsp.MarkupContent(lsp.MarkupKind.Markdown, "\n\n---\n\n".join(parts))
    return lsp.Hover(content, None if span is None else snapshot.mapper.range(span))


def _model_at(index: ModelIndex, point: tuple[int, int]) -> tuple[str, Span] | None:
    """Return the model whose name, `forward` or variable stands at a point, and where that word is."""
    for target in index.targets:
        if contains(target.name, point):
            return target.qualname, target.name
    for each in index.classes:
        if contains(each.name_span, point):
            return each.qualname, each.name_span
        if each.forward is not None and contains(each.forward.name_span, point):
            return each.qualname, each.forward.name_span
    for variable in index.variables:
        if contains(variable.span, point):
            return variable.target, variable.span
    return None


def _model(snapshot: Snapshot, name: str) -> list[str]:
    """Return what is known of a model: how far its capture came, how it was built and fed, its generated code."""
    report = target_reports(snapshot).get(name)
    if report is None:
        return [_unknown(snapshot, name)] if snapshot.index.target(name) is not None else []
    found = problems_by_model(snapshot).get(name, [])
    if report.enclosed_by and not report.nodes:
        return [_enclosed(report, found, snapshot)]
    head = _summary(report, found)
    if not snapshot.fresh:
        head = f"{head} · {_OLD}"
    parts = [f"{head}  \n{_built(snapshot, report)}", _list(snapshot, found), _held(snapshot, report)]
    return ["\n\n".join(part for part in (*parts, _code(snapshot, report)) if part.strip()).rstrip()]


def _summary(report: TargetReport, found: Sequence[PlacedProblem]) -> str:
    """Return the first line of a model's hover: verdict, size, cost and inputs."""
    wrong = Tally.of(found, report)
    nodes = plural(len(report.nodes), "node")
    if report.status == "not traced":
        verdict = f"✗ {', '.join([*wrong.facts, 'not traced'])}"
    elif report.reached_end and not wrong.errors:
        verdict = f"✓ {', '.join(['captured', nodes, *wrong.facts])}"
    else:
        verdict = f"✗ {', '.join(wrong.facts)}{', ' if wrong.facts else ''}{nodes}"
        verdict += " captured" if report.reached_end else " captured so far"
    facts = [f"**{md.escaped(report.qualname)}** {verdict}"]
    if report.facts is not None:
        size_ = size(report.facts.parameter_bytes)
        facts.append(f"{count(report.facts.parameters)} parameters ({size_})")
        if report.facts.flops:
            facts.append(operations(report.facts.flops))
    fed = signature(report)
    return " · ".join(facts) + (f" for {md.code(fed)}" if fed else "")


def _built(snapshot: Snapshot, report: TargetReport) -> str:
    """Return how a model was built and fed, with links to where that is said, and to the views."""
    facts: list[str] = []
    for verb, item in (("built as", report.construct), ("fed", report.inputs)):
        if item is not None:
            now = _now(snapshot, item.location)
            where = _linked(source(replace(item, location=now), snapshot.path), now)
            facts.append(f"{verb} {md.code(shortened(item.expression, _LONGEST_EXPRESSION))} ({where})")
    argument = {"uri": snapshot.uri, "target": report.qualname}
    if report.nodes:
        facts.append(md.command_link("graph", SHOW_GRAPH, argument))
    if report.code:
        facts.append(md.command_link("whole code", SHOW_CODE, argument))
    return " · ".join(facts)


def _now(snapshot: Snapshot, location: Location | None) -> Location | None:
    """Return where a location of a report is now, None where an edit touched it."""
    if location is None or location.path != snapshot.path:
        return location
    span = snapshot.located(location.span)
    return None if span is None else Location(location.path, span)


def _linked(words: str, location: Location | None) -> str:
    """Return words that lead to a location."""
    if location is None:
        return md.escaped(words)
    return md.link(md.escaped(words), f"{to_uri(location.path)}#L{location.span.line}")


def _code(snapshot: Snapshot, report: TargetReport) -> str:
    """Return the beginning of a model's generated code."""
    if not report.code.strip():
        return ""
    lines, left = cut(listing(report, narrow=True, line_of=snapshot.line_of), _MOST_LINES)
    text = md.block("\n".join([*lines, "    …"] if left else lines))
    if not left:
        return text
    more = md.command_link(f"{left} more lines", SHOW_CODE, {"uri": snapshot.uri, "target": report.qualname})
    return f"{text}\n{more}"


def _list(snapshot: Snapshot, found: Sequence[PlacedProblem]) -> str:
    """Return the problems of a model, those that stop a trace first, each with a link to its line."""
    shown = sorted(found, key=lambda each: _ORDER[each.problem.severity])
    lines = [
        f"- {md.link(f'line {each.span.line}', f'{snapshot.uri}#L{each.span.line}')}"
        f" **{each.problem.code}** {md.prose(headline(each.problem, named=False))}"
        for each in shown[:_MOST_PROBLEMS]
    ]
    if len(shown) > _MOST_PROBLEMS:
        lines.append(f"- … and {len(shown) - _MOST_PROBLEMS} more")
    return "\n".join(lines)


def _held(snapshot: Snapshot, report: TargetReport) -> str:
    """Return what the graph is specialised on, and whether the model was looked at in every way."""
    facts: list[str] = []
    if report.guards:
        known = [
            f"{md.code(shortened(each.expression, _LONGEST_EXPRESSION))} is {md.code(each.value)}"
            + (f" ({_linked(place(now, snapshot.path), now)})" if (now := _now(snapshot, each.location)) else "")
            for each in report.guards
        ]
        listed = _listed(known, _MOST_GUARDS)
        guards = plural(len(report.guards), "guard")
        facts.append(f"captured with {guards}: {listed}" if report.captured else f"captured for the case that {listed}")
    if report.cut:
        facts.append(f"there may be more problems: {md.prose(report.cut)}")
    return "  \n".join(facts)


def _enclosed(report: TargetReport, found: Sequence[PlacedProblem], snapshot: Snapshot) -> str:
    where = f" as {md.code(report.module_path)}" if report.module_path else ""
    head = f"**{md.escaped(report.qualname)}** is traced within **{md.escaped(report.enclosed_by)}**{where}"
    return "\n\n".join(part for part in (head, _list(snapshot, found)) if part)


def _unknown(snapshot: Snapshot, name: str) -> str:
    """Return why nothing is known of a model yet."""
    title = f"**{md.escaped(name)}**"
    if not snapshot.trusted:
        return f"{title} is not traced: the workspace is not trusted, so nothing in it is executed"
    if snapshot.environment is not None and snapshot.environment.problem:
        return f"{title} is not traced: {md.prose(snapshot.environment.problem)}"
    if snapshot.report is not None and snapshot.report.problems:
        return f"{title} is not traced: {md.prose(snapshot.report.problems[0].message)}"
    return f"{title} is being traced"


def _problem(snapshot: Snapshot, placed: PlacedProblem) -> str:
    """Return what to do about a problem, its explanation, and what torch.fx would say."""
    problem = placed.problem
    head = [f"**{problem.code}**"]
    if problem.kind:
        head.append(problem.kind)
    if problem.count > 1:
        head.append(f"in {md.prose(instances(problem))}")
    if len(placed.targets) > 1:
        head.append(f"in {', '.join(md.escaped(each) for each in placed.targets)}")
    head.append(md.link("what it means", rule_page(problem.code)))
    # What to do comes first: editors show a problem's message and its way above, and a hover's end lies below its fold.
    parts = [" · ".join(head), _advice(problem), _explanation(problem)]
    if problem.original:
        parts.append(f"torch.fx: {md.code(shortened(problem.original, 300))}")
    if problem.location.path != snapshot.path:
        where = place(problem.location, snapshot.path)
        parts.append(
            f"raised in {md.link(md.escaped(where), f'{to_uri(problem.location.path)}#L{problem.location.span.line}')}"
        )
    return "\n\n".join(part for part in parts if part)


def _explanation(problem: Problem) -> str:
    """Return why it is a problem, as far as its message does not say that; the steps of a value's way as code."""
    steps = {step.message for step in problem.related}
    lines = [
        " → ".join(map(md.code, chain(line, _LONGEST_WAY).split(" → ")))
        if " → " in line or line in steps
        else md.prose(line)
        for line in problem.explanation.splitlines()
        if line.strip() != problem.message.strip()
    ]
    if depends_on_inputs(problem):
        lines.append(f"for the inputs in use {answer(problem, md.code)}{consequence(problem)}")
    return "  \n".join(lines)


def _advice(problem: Problem) -> str:
    """Return what to do, best first: fixes that are ready, then those in words."""
    proven, known = ways_out(problem), proofs(problem)
    ways = [f"{md.prose(way)}{_check(known.get(way, '')) if verified else ''}" for way, verified in proven]
    listed = "\n".join(f"{number}. {way}" for number, way in enumerate(ways, 1)) if len(ways) > 1 else "".join(ways)
    return f"{listed}\n\n{_PROVEN}" if any(verified and way not in known for way, verified in proven) else listed


def _check(proof: str) -> str:
    """Return the mark of a fix that was tried out, with what was found out then."""
    return f" ✓ *{md.prose(proof)}*" if proof else " ✓"


def _expression_at(snapshot: Snapshot, point: tuple[int, int]) -> tuple[str, Span] | None:
    """Return the nodes of the smallest expression around a point, and its span."""
    parameter = _parameter_at(snapshot, point)
    if parameter is not None:
        return parameter
    point = _value_of_assignment(snapshot.index, point)
    places = Places.of(snapshot)
    around = places.around(point)
    smallest = min(around, key=extent, default=None)
    if smallest is None or places.sites is None:
        return left_out(snapshot, point, places.spans)
    before = around[smallest]
    found = places.sites.at[before]
    direct = [site for site in found if site.innermost == before]
    text = _nodes(snapshot, direct) if direct else _inside(snapshot, places.sites, before, smallest)
    return (text if snapshot.fresh else f"{text}  \n{_OLD}"), smallest


def _value_of_assignment(index: ModelIndex, point: tuple[int, int]) -> tuple[int, int]:
    """Return the place of the value where a point lies on what it is assigned to; another point stays as it is."""
    for each in index.assignments.in_lines(point[0], point[0]):
        if contains(each.span, point) and not contains(each.value, point) and each.span.line == each.value.line:
            return each.value.end_line, each.value.end_column
    return point


def _parameter_at(snapshot: Snapshot, point: tuple[int, int]) -> tuple[str, Span] | None:
    """Return what a parameter of `forward` was fed, where one stands at a point."""
    reports = target_reports(snapshot)
    for each in snapshot.index.classes:
        if each.forward is None or each.qualname not in reports:
            continue
        for parameter in each.forward.parameters:
            if not contains(parameter.span, point):
                continue
            report = reports[each.qualname]
            for node in report.nodes:
                if node.op == "placeholder" and node.target.lstrip("*") == parameter.name:
                    return _node([Site(report, node, parameter.span)], snapshot), parameter.span
    return None


def _nodes(snapshot: Snapshot, found: Sequence[Site]) -> str:
    """Return one line for each different node; those of the instances of a block, when equal, are counted."""
    groups: dict[tuple[str, str, str], list[Site]] = {}
    for site in found:
        groups.setdefault((site.node.op, pattern(_target(site.node)), result(site.node)), []).append(site)
    lines = [_node(group, snapshot) for group in groups.values()]
    if len(lines) > _MOST_NODES:
        lines = [*lines[:_MOST_NODES], f"… and {len(lines) - _MOST_NODES} more"]
    return "  \n".join(lines)


def _node(group: Sequence[Site], snapshot: Snapshot) -> str:
    """Return a line about equal nodes: opcode and target, value, how many, who uses it, how long it took."""
    first = group[0].node
    text = f"{first.op} {md.code(generalised([_target(site.node) for site in group]))}"
    value = result(first)
    if value:
        text += f" → {md.code(value)}"
    if len(group) > 1:
        text += f" ×{len(group)}"
    users = _users(group)
    if users:
        text += f", used by {_listed([md.code(each) for each in users], _MOST_USERS)}"
    elif first.op != "output":
        text += ", not used"
    return text + _times(group, snapshot.profiles)


def _inside(snapshot: Snapshot, sites: Sites, before: Span, span: Span) -> str:
    """Return what is known of a call whose nodes lie in the code that it runs, which is found once for each report."""
    known = _INSIDE.setdefault(sites, {})
    if before not in known:
        known[before] = _found_inside(snapshot, sites.at[before], span)
    return known[before]


_INSIDE: Final[WeakKeyDictionary[Sites, dict[Span, str]]] = WeakKeyDictionary()


def _found_inside(snapshot: Snapshot, found: Sequence[Site], span: Span) -> str:
    text = f"{plural(len(found), 'node')} inside"
    results = list(dict.fromkeys(map(result, values(snapshot, {span}).get(span, ()))))
    known = [md.code(each) for each in results if each]
    if known:
        text += f" → {_listed(known, _MOST_USERS)}"
    kinds = Counter(pattern(_target(site.node)) for site in found)
    named = [md.code(name) + (f" ×{number}" if number > 1 else "") for name, number in kinds.most_common()]
    return f"{text}  \n{_listed(named, _MOST_NODES)}"


def _listed(items: Sequence[str], most: int) -> str:
    return ", ".join(items[:most]) + (f" and {len(items) - most} more" if len(items) > most else "")


def _target(node: NodeInfo) -> str:
    return node.name if node.op in {"placeholder", "output"} else node.target


def _users(group: Sequence[Site]) -> list[str]:
    """Return the names of the nodes that use one of these, without the numbers that keep equal names apart."""
    names = (
        site.target.nodes[user].name for site in group for user in site.node.users if user < len(site.target.nodes)
    )
    if len(group) == 1:
        return list(dict.fromkeys(names))
    return list(dict.fromkeys(pattern(name) for name in names))


def _times(group: Sequence[Site], profiles: Sequence[ProfileReport]) -> str:
    """Return what the last profile of each device measured for these nodes."""
    text = ""
    for profile in profiles:
        names = {site.node.name for site in group if site.target.qualname == profile.target}
        seconds = sum(row.seconds for row in profile.rows if row.name in names and row.location is not None)
        if seconds > 0:
            text += f"; {duration(seconds)} on {profile.device} (last profile)"
    return text
