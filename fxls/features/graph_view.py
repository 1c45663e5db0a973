"""A captured graph to look at: as a table of text, as JSON, as Graphviz source, and drawn as SVG."""

import json
from typing import Any, Final

from fxls.features.graph_drawing import drawing, inside, label
from fxls.features.wording import plural, result, shortened, signature
from fxworker.wire import NodeInfo, TargetReport

_LONGEST_CELL: Final = 48
_FILLS: Final = {
    "placeholder": "lightskyblue1",
    "get_attr": "gray95",
    "call_function": "lemonchiffon",
    "call_method": "seashell",
    "call_module": "honeydew",
    "output": "thistle1",
}


def to_text(report: TargetReport) -> str:
    """Return a graph as a table: one line a node, and what is missing when the capture is not complete."""
    rows = [("opcode", "name", "target", "args", "result")]
    for node in report.nodes:
        arguments = ", ".join(part for part in (inside(node.args), inside(node.kwargs)) if part)
        rows.append((node.op, node.name, node.target, arguments, result(node)))
    cells = [[shortened(cell, _LONGEST_CELL) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join([title(report), "", *lines, ""])


def to_json(report: TargetReport) -> str:
    """Return a graph as JSON: `{"version": 1, "target", "status", "inputs", "nodes": […]}`; lines count from 1."""
    document: dict[str, Any] = {
        "version": 1,
        "target": report.qualname,
        "status": report.status,
        "construct": report.construct.expression if report.construct is not None else None,
        "inputs": report.inputs.expression if report.inputs is not None else None,
        "nodes": [_node_json(node) for node in report.nodes],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def to_dot(report: TargetReport) -> str:
    """Return a graph as Graphviz source."""
    lines = [
        f"digraph {_quoted(report.qualname)} {{",
        '  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=11, fillcolor=white];',
        "  edge [color=gray50, arrowsize=0.7];",
    ]
    for node in report.nodes:
        text = "\\n".join(_escaped_dot(line) for line in label(node) if line)
        lines.append(f'  n{node.index} [label="{text}", fillcolor={_FILLS.get(node.op, "white")}];')
    for node in report.nodes:
        lines.extend(f"  n{source} -> n{node.index};" for source in dict.fromkeys(node.inputs))
    return "\n".join([*lines, "}", ""])


def to_svg(report: TargetReport) -> str:
    """Return a graph drawn as a self-contained SVG, legible on light and on dark ground."""
    return drawing(report, title(report))


def title(report: TargetReport) -> str:
    """Return a line that says what a graph is of: `ResNet: captured, 71 nodes for x: f32[2, 3, 64, 64]`."""
    fed = signature(report)
    status = "captured" if report.status == "complete" else report.status
    return f"{report.qualname}: {status}, {plural(len(report.nodes), 'node')}" + (f" for {fed}" if fed else "")


def _node_json(node: NodeInfo) -> dict[str, Any]:
    tensor = node.tensor
    frame = node.origin.frames[-1] if node.origin is not None and node.origin.frames else None
    return {
        "index": node.index,
        "name": node.name,
        "op": node.op,
        "target": node.target,
        "args": node.args,
        "kwargs": node.kwargs,
        "inputs": list(node.inputs),
        "users": list(node.users),
        "tensor": None
        if tensor is None
        else {"shape": list(tensor.shape), "dtype": tensor.dtype, "device": tensor.device},
        "value": node.value or None,
        "module": node.origin.module_path if node.origin is not None else None,
        "source": None if frame is None else {"path": frame.location.path, "line": frame.location.span.line},
    }


def _quoted(text: str) -> str:
    return f'"{_escaped_dot(text)}"'


def _escaped_dot(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
