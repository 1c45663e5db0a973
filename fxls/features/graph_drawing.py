"""A graph as SVG: boxes in the colours of their opcodes, edges from top to bottom, no scripts and no outside parts."""

from collections.abc import Sequence
from html import escape
from typing import Final

from fxls.features.graph_layout import Box, Layout, layout
from fxls.features.wording import result, shortened
from fxworker.wire import NodeInfo, TargetReport

_LONGEST_LABEL: Final = 36
_CHARACTER: Final = 6.7
"""The width of a character of the drawing's font, in its units."""

_KINDS: Final = {
    "placeholder": "input",
    "get_attr": "attribute",
    "call_function": "function",
    "call_method": "method",
    "call_module": "module",
    "output": "output",
}
_LIGHT: Final = """
  --text: #1f2328; --quiet: #57606a; --edge: #8c959f;
  --input: #ddf4ff; --input-line: #54aeff; --attribute: #f6f8fa; --attribute-line: #afb8c1;
  --function: #fff8c5; --function-line: #d4a72c; --method: #ffefe7; --method-line: #e16f24;
  --module: #e6f6ea; --module-line: #4ac26b; --output: #fbefff; --output-line: #c297ff;"""
_DARK: Final = """
  --text: #e6edf3; --quiet: #8d96a0; --edge: #6e7681;
  --input: #0c2d6b; --input-line: #388bfd; --attribute: #21262d; --attribute-line: #6e7681;
  --function: #3b2d05; --function-line: #9e6a03; --method: #3d1e0c; --method-line: #bd561d;
  --module: #0b2e17; --module-line: #238636; --output: #2b1656; --output-line: #8957e5;"""
# A page that embeds the drawing may say by the class of its body which ground it is on, as VS Code does.
_STYLE: Final = f"""
.fxls-graph {{ font: 12px ui-sans-serif, system-ui, "Segoe UI", sans-serif; --page: #ffffff;{_LIGHT} }}
@media (prefers-color-scheme: dark) {{ .fxls-graph {{ --page: #0d1117;{_DARK} }} }}
body.vscode-light .fxls-graph {{ --page: transparent;{_LIGHT} }}
body.vscode-dark .fxls-graph, body.vscode-high-contrast .fxls-graph {{ --page: transparent;{_DARK} }}
.fxls-graph .page {{ fill: var(--page); }}
.fxls-graph text {{ fill: var(--text); text-anchor: middle; }}
.fxls-graph .quiet {{ fill: var(--quiet); font-size: 10.5px; }}
.fxls-graph .edge {{ fill: none; stroke: var(--edge); stroke-width: 1.2; }}
.fxls-graph .arrow {{ fill: var(--edge); stroke: none; }}
"""


def drawing(report: TargetReport, title: str) -> str:
    """Return a model's graph as an SVG document.

    Each node is a `<g class="node">` whose first element is its box; hovering shows all that is known of it.
    """
    labels = [label(node) for node in report.nodes]
    inputs = [[each for each in node.inputs if each < row] for row, node in enumerate(report.nodes)]
    drawn = layout([_box_size(lines) for lines in labels], inputs)
    width, height = f"{drawn.width:.0f}", f"{drawn.height:.0f}"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="fxls-graph" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label="{escape(title)}">'
    )
    marker = (
        '<defs><marker id="fxls-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path class="arrow" d="M0 0 8 4 0 8 2 4z"/></marker></defs>'
    )
    parts = [
        head,
        f"<style>{_STYLE}{_kind_styles()}</style>",
        marker,
        '<rect class="page" width="100%" height="100%"/>',
        *_edges(drawn),
        *(_node(node, lines, box) for node, lines, box in zip(report.nodes, labels, drawn.boxes, strict=True)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def label(node: NodeInfo) -> tuple[str, str, str]:
    """Return the lines of a node's box: its name, what it calls, its value; "" for those that say nothing."""
    called = "" if node.op in {"placeholder", "output"} or node.target == node.name else node.target
    return (
        shortened(node.name, _LONGEST_LABEL),
        shortened(called, _LONGEST_LABEL),
        shortened(result(node), _LONGEST_LABEL),
    )


def inside(arguments: str) -> str:
    """Return what stands between the brackets of printed arguments."""
    text = arguments.strip()
    if text in {"()", "{}"}:
        return ""
    return text[1:-1].rstrip(",") if text[:1] in "({" and text[-1:] in ")}" else text


def _box_size(lines: Sequence[str]) -> tuple[float, float]:
    shown = [line for line in lines if line]
    return max(max(map(len, shown)) * _CHARACTER + 20, 56.0), 12.0 + 15.0 * len(shown)


def _kind_styles() -> str:
    return "".join(
        f".fxls-graph .{kind} > rect {{ fill: var(--{kind}); stroke: var(--{kind}-line); }}\n"
        for kind in _KINDS.values()
    )


def _edges(drawn: Layout) -> list[str]:
    return [
        f'<path class="edge" marker-end="url(#fxls-arrow)" d="{_curve(points)}"/>' for points in drawn.edges.values()
    ]


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """Return a path that leaves and enters each point vertically."""
    x, y = points[0]
    commands = [f"M{x:.1f} {y:.1f}"]
    for next_x, next_y in points[1:]:
        if abs(next_x - x) < 0.5:
            commands.append(f"L{next_x:.1f} {next_y:.1f}")
        else:
            middle = (y + next_y) / 2
            commands.append(f"C{x:.1f} {middle:.1f} {next_x:.1f} {middle:.1f} {next_x:.1f} {next_y:.1f}")
        x, y = next_x, next_y
    return "".join(commands)


def _node(node: NodeInfo, lines: Sequence[str], box: Box) -> str:
    left = box.x - box.width / 2
    rows = [line for line in lines if line]
    texts = [
        f'<text class="{"quiet" if row else "name"}" x="{box.x:.1f}" y="{box.y + 18 + 15 * row:.1f}">'
        f"{escape(line)}</text>"
        for row, line in enumerate(rows)
    ]
    return (
        f'<g class="node {_KINDS.get(node.op, "function")}" data-index="{node.index}">'
        f'<rect x="{left:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="6"/>'
        f"<title>{escape(_tooltip(node))}</title>{''.join(texts)}</g>"
    )


def _tooltip(node: NodeInfo) -> str:
    """Return all that is known of a node, one fact a line."""
    arguments = ", ".join(part for part in (inside(node.args), inside(node.kwargs)) if part)
    lines = [f"{node.op} {node.target}", f"{node.name}({arguments})"]
    value = result(node)
    if value:
        lines.append(f"→ {value}")
    if node.origin is not None and node.origin.frames:
        frame = node.origin.frames[-1]
        lines.append(f"{frame.location.path}:{frame.location.span.line} in {frame.function}")
    if node.origin is not None and node.origin.module_path:
        lines.append(f"{node.origin.module_path} ({node.origin.module_type})")
    return "\n".join(lines)
