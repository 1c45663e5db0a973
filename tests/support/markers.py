r"""Fixtures that carry their own expectations: model files with `#!` markers, traced by the real worker.

    if x.sum() > 0:  #! FX001 "decides a branch"     a problem begins on this line; the text is part of its message
    #! ^^^^^^^^^^^  FX001                            its exact span, in the line above; `^^^>` goes on in later lines
    y = self.fc(x)  #! hint "f32[2, 8]"              an inlay hint at the end of this line
    #! hover(self.^fc) "call_module"                 hovering there, in the line above or the same, shows the text
    class Net(nn.Module):  #! lens "✓ 3 nodes"       a code lens above this line
    #! action(^Net) "Profile on cpu"                 a code action is offered there
    #! node relu: call_function torch.relu f32[2]    the first captured graph has a node with these words
    x = y and z  #! FIXME FX001                      there should be a problem and is none yet
    #! clean                                         the file has no problem (said, so that it cannot be forgotten)
    #! settings trace.timeout=1 ignore=FX002,FX3     settings to trace and show with
    #! golden                                        `fxls check`'s text and the graphs are compared with a file beside

Problems and markers match one to one, both ways. A caret line refines a trailing marker of its code on its line, and
is a marker of its own where there is none.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from lsprotocol import types as lsp

from fxls.cli.findings import Sources, findings_of
from fxls.cli.terminal import Paint
from fxls.cli.text_format import render, summary
from fxls.cli.tracing import Traced
from fxls.features.code_actions import code_actions
from fxls.features.code_lens import code_lenses
from fxls.features.graph_view import to_text
from fxls.features.hover import hover
from fxls.features.inlay_hints import inlay_hints
from fxls.features.places import PlacedProblem
from fxls.features.problems import problems
from fxls.features.wording import result
from fxls.settings import Settings
from fxls.snapshot import Snapshot

_MARKER = re.compile(r"#!(?P<body>.*)$")
_CODE = re.compile(r'(?P<wrong>FIXME\s+)?(?P<code>FX\d{3})(?:\s+"(?P<text>[^"]*)")?')
_CARETS = re.compile(r"(?P<carets>\^+>?)\s+(?P<rest>FX\d{3}.*)$")
_AT = re.compile(r'(?P<kind>hover|action)\((?P<place>.*?\^.*?)\)\s+"(?P<text>[^"]*)"')
_ON = re.compile(r'(?P<kind>hint|lens)\s+"(?P<text>[^"]*)"')
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_NODE = re.compile(r"node\s+(?P<name>\w+):\s*(?P<words>.*)$")


@dataclass(frozen=True, slots=True)
class Expected:
    """A problem that a fixture announces. Columns are 0-based code points; None where no carets say."""

    line: int
    code: str
    text: str
    start: int | None = None
    end: int | None = None
    goes_on: bool = False
    known_wrong: bool = False

    def matches(self, found: "Found") -> bool:
        """Whether a problem is the announced one."""
        if (found.line, found.code) != (self.line, self.code) or self.text not in found.message:
            return False
        if self.start is None:
            return True
        if self.goes_on:
            return found.start == self.start and found.end_line > found.line
        return (found.start, found.end, found.end_line) == (self.start, self.end, found.line)


@dataclass(frozen=True, slots=True)
class Found:
    """A problem of the report, in the coordinates of markers."""

    line: int
    start: int
    end_line: int
    end: int
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Look:
    """Something to ask a feature about: the kind, the line, the column (0-based code points), the text to find."""

    kind: str
    line: int
    column: int
    text: str


@dataclass(slots=True)
class Markers:
    """All markers of a fixture."""

    problems: list[Expected] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    nodes: list[tuple[str, str]] = field(default_factory=list)
    settings: dict[str, object] = field(default_factory=dict)
    clean: bool = False
    golden: bool = False


def read_markers(text: str) -> Markers:
    """Return the markers of a fixture's text."""
    markers = Markers()
    lines = re.split(r"\r\n|\r|\n", text)
    above = 0
    for number, line in enumerate(lines, 1):
        match = _MARKER.search(line)
        if match is None:
            above = number
            continue
        alone = not line[: match.start()].strip()
        if not alone:
            above = number
        _read(markers, match["body"].strip(), line, lines[above - 1] if above else "", above, alone=alone)
    if not any(not each.known_wrong for each in markers.problems) and not markers.clean:
        raise AssertionError("a fixture without a problem says `#! clean`")
    return markers


def _read(markers: Markers, body: str, line: str, above_text: str, above: int, *, alone: bool) -> None:
    if body in {"clean", "golden"}:
        setattr(markers, body, True)
    elif body.startswith("settings "):
        for pair in body.removeprefix("settings ").split():
            key, _, value = pair.partition("=")
            markers.settings[key] = _value(value)
    elif match := _NODE.match(body):
        markers.nodes.append((match["name"], match["words"].strip()))
    elif alone and (match := _CARETS.search(line)):
        _refine(markers, match, above)
    else:
        code = above_text.partition("#!")[0]
        before = (len(markers.problems), len(markers.looks))
        for match in _AT.finditer(body):
            place = match["place"]
            column = code.index(place.replace("^", "", 1)) + place.index("^")
            markers.looks.append(Look(match["kind"], above, column, match["text"]))
        markers.looks.extend(Look(match["kind"], above, 0, match["text"]) for match in _ON.finditer(body))
        markers.problems.extend(
            Expected(above, match["code"], match["text"] or "", known_wrong=match["wrong"] is not None)
            for match in _CODE.finditer(_AT.sub("", body))
        )
        assert (len(markers.problems), len(markers.looks)) != before, f"not a marker: {body}"


def _value(text: str) -> object:
    """Return the value of a setting: a switch, codes or a number."""
    if text in {"true", "false"}:
        return text == "true"
    return text.split(",") if text.startswith("FX") else float(text)


def _refine(markers: Markers, match: re.Match[str], above: int) -> None:
    """Give the trailing marker of the line above its span, or add one."""
    goes_on = match["carets"].endswith(">")
    start = match.start("carets")
    end = start + len(match["carets"].rstrip(">"))
    said = _CODE.match(match["rest"])
    assert said is not None, match["rest"]
    for index, known in enumerate(markers.problems):
        if (known.line, known.code, known.start) == (above, said["code"], None):
            text = said["text"] or known.text
            markers.problems[index] = replace(known, start=start, end=end, goes_on=goes_on, text=text)
            return
    markers.problems.append(Expected(above, said["code"], said["text"] or "", start, end, goes_on))


def settings_of(markers: Markers) -> Settings:
    """Return the settings that a fixture asks for."""
    settings, bad = Settings.read(markers.settings)
    assert not bad, bad
    return settings


def differences(markers: Markers, traced: Traced) -> list[str]:
    """Return, in words, everything in which a trace differs from what its fixture announces."""
    snapshot = traced.snapshot
    return [
        *_problem_differences(markers, snapshot),
        *(words for look in markers.looks if (words := _look_difference(look, snapshot))),
        *(words for node in markers.nodes if (words := _node_difference(*node, snapshot))),
    ]


def golden(traced: Traced) -> str:
    """Return what a golden file holds: the text of `fxls check`, then the graphs."""
    sources = Sources()
    found = findings_of(traced, sources)
    folder = f"{Path(traced.file.path).parent}/"
    parts = [render(each, sources, Paint(on=False)) for each in found.findings]
    parts.append(summary([found], Paint(on=False)))
    targets = traced.snapshot.report.targets if traced.snapshot.report is not None else ()
    parts.extend(to_text(target).rstrip() for target in targets if target.nodes)
    shown = str(Path(traced.file.shown).parent) + "/"
    return "\n\n".join(parts).replace(folder, "").replace(shown, "") + "\n"


def _problem_differences(markers: Markers, snapshot: Snapshot) -> Iterator[str]:
    found = [_found(snapshot, each) for each in problems(snapshot)]
    # The most exact markers choose first.
    waiting = sorted(markers.problems, key=lambda each: (each.known_wrong, each.start is None, not each.text))
    for expected in waiting:
        hit = next((each for each in found if expected.matches(each)), None)
        if expected.known_wrong:
            if hit is not None:
                yield f"this is mended, so the FIXME goes: {expected}"
        elif hit is None:
            yield f"expected and not found: {expected}"
        else:
            found.remove(hit)
    for each in found:
        yield f"found and not expected: {each}"


def _found(snapshot: Snapshot, placed: PlacedProblem) -> Found:
    span, problem = placed.span, placed.problem
    mapper = snapshot.mapper
    return Found(
        span.line,
        mapper.code_point(span.line, span.column) - 1,
        span.end_line,
        mapper.code_point(span.end_line, span.end_column) - 1,
        problem.code,
        problem.message,
    )


def _look_difference(look: Look, snapshot: Snapshot) -> str:
    mapper = snapshot.mapper
    position = mapper.position(look.line, mapper.byte_column(look.line, look.column + 1))
    match look.kind:
        case "hover":
            answer = hover(snapshot, position)
            shown = answer.contents.value if answer is not None else "nothing"
        case "hint":
            line = lsp.Range(mapper.position(look.line, 0), mapper.end_of_line(look.line))
            shown = " ".join(
                str(each.label) for each in inlay_hints(snapshot, line) if each.position.line == look.line - 1
            )
        case "lens":
            lenses = [each for each in code_lenses(snapshot) if each.range.start.line == look.line - 1]
            shown = " | ".join(each.command.title for each in lenses)
        case _:
            context = lsp.CodeActionContext(diagnostics=[])
            shown = " | ".join(each.title for each in code_actions(snapshot, lsp.Range(position, position), context))
    if look.text in _LINK.sub(r"\1", shown).replace("\\", ""):
        return ""
    return f"line {look.line}: {look.kind} has no {look.text!r} in: {shown}"


def _node_difference(name: str, words: str, snapshot: Snapshot) -> str:
    targets = snapshot.report.targets if snapshot.report is not None else ()
    nodes = [node for target in targets for node in target.nodes if node.name == name]
    if not nodes:
        return f"there is no node {name}"
    said = [f"{node.op} {node.target} {node.args} {node.kwargs} {result(node)}" for node in nodes]
    if any(all(word in text for word in words.split("; ")) for text in said):
        return ""
    return f"node {name} is not {words!r} but {said}"
