"""A profile for people (Markdown), for programs (JSON, see ``results``) and for Perfetto (trace events)."""

import linecache
import re
from pathlib import Path
from typing import Any

from fxengine.profiling.folding import Fold, fold_by_line
from fxengine.profiling.results import Change, NodeProfile, Place, ProfileResult, Timing

__all__ = ["to_markdown", "to_table", "to_trace"]

_ROWS = 25
_SOURCE_WIDTH, _NODE_WIDTH = 48, 40

_WAITING = 0.8
"""A device that is busy for less of the time than this is waiting for its host."""


def to_table(result: ProfileResult, *, rows: int = _ROWS) -> str:
    """Return the profile as plain text, for a terminal."""
    lines = [*_heading(result), *_row_lines(result, rows)]
    if result.compared_with:
        lines += ["", _comparison(result)]
    return "\n".join(lines) + "\n"


def to_markdown(result: ProfileResult, *, rows: int = _ROWS) -> str:
    """Return the profile as a Markdown document with links to the source lines."""
    conditions, *summary = (re.sub(r" {2,}", " · ", line) for line in _heading(result))
    lines = [f"# {result.model} on {result.environment.device}", "", conditions, "", *(f"- {each}" for each in summary)]
    if result.compared_with:
        lines.append(f"- {_comparison(result)}")
    lines += [
        "",
        f"| time | ± | share |{' host |' if result.apart else ''} line | source | node | GFLOP/s | of peak |",
        f"|--:|--:|--:|{'--:|' if result.apart else ''}--:|:--|:--|--:|--:|",
    ]
    for fold in fold_by_line(result.nodes)[:rows]:
        rate, of_peak = _rate(fold, result)
        link = f"[{fold.place.line}]({_uri(fold.place)})" if fold.place is not None else ""
        source = f"`{_escape(_source(fold))}`" if fold.place is not None else ""
        time, error = _duration(fold.timing.seconds), _duration(fold.timing.error)
        host = (_host(fold),) if result.apart else ()
        cells = (time, error, f"{fold.share:.1%}", *host, link, source, _escape(_nodes(fold)), rate, of_peak)
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", _footnote(result)]
    return "\n".join(lines) + "\n"


def to_trace(result: ProfileResult) -> dict[str, Any]:
    """Return one run, put together from the nodes' medians, as trace events that Perfetto and chrome://tracing open.

    Nodes follow each other as they did on the device; the modules that they belong to are drawn around them. Each
    event carries its source line, what it made, its operations and its bytes.
    """
    events: list[dict[str, Any]] = [
        _metadata("process_name", f"{result.model} on {result.environment.device}"),
        _metadata("thread_name", "nodes"),
    ]
    modules: list[tuple[str, float]] = []
    now = 0.0
    for node in result.nodes:
        path = _owner_chain(node)
        modules, closed = _enter(modules, path, now)
        events += closed
        duration = node.timing.seconds * 1e6
        events.append(_event(node.name, "node", now, duration, _node_arguments(node)))
        now += duration
    events += _enter(modules, [], now)[1]
    return {"traceEvents": sorted(events, key=_nesting), "displayTimeUnit": "ms"}


def _heading(result: ProfileResult) -> list[str]:
    """Return the lines above the table: conditions, whole model, memory."""
    environment = result.environment
    threads = f" ({environment.threads} threads)" if environment.threads else ""
    mode = "training" if environment.training else "eval"
    stability = f"stable within {result.spread:.1%}" if result.stable else f"NOT stable: {result.spread:.1%}"
    if not result.stable and environment.device == "cpu" and environment.busy >= 1:
        stability += f", as other programs kept {environment.busy:.1f} processors busy"
    peak = result.nodes[result.peak_node] if result.peak_node >= 0 else None
    conditions = f"{result.model} on {environment.device}{threads}, {mode}, {environment.dtype}, {result.inputs}"
    wholes = f"eager {_measured(result.eager)}     graph {_measured(result.graph)}"
    return [
        f"{conditions} · {result.graph.runs} runs after {result.warmups} warm-ups, {stability}",
        f"whole model   {wholes}     {_account(result)}",
        f"peak memory   {_bytes(result.peak_memory)}{_at(peak)}     parameters {_bytes(result.parameter_bytes)}",
    ]


def _account(result: ProfileResult) -> str:
    """Return how the nodes' times make up that of the graph: an accelerator may have to wait for its host."""
    if not result.apart:
        return f"nodes explain {result.explained:.1%} of it"
    busy = f"the device is busy for {min(result.explained, 1.0):.1%} of it"
    return f"{busy} and waits for its host" if result.explained < _WAITING else busy


def _row_lines(result: ProfileResult, rows: int) -> list[str]:
    host = f"{'host':>9}  " if result.apart else ""
    source, node = f"{'source':<{_SOURCE_WIDTH}}", f"{'node':<{_NODE_WIDTH}}"
    lines = [f"{'time':>9}  {'share':>6}  {host}{'line':>5}  {source}  {node}  GFLOP/s  of peak"]
    for fold in fold_by_line(result.nodes)[:rows]:
        rate, of_peak = _rate(fold, result)
        line = fold.place.line if fold.place is not None else ""
        host = f"{_host(fold):>9}  " if result.apart else ""
        source = f"{_clipped(_source(fold), _SOURCE_WIDTH):<{_SOURCE_WIDTH}}"
        node = f"{_clipped(_nodes(fold), _NODE_WIDTH):<{_NODE_WIDTH}}"
        lines.append(
            f"{_duration(fold.timing.seconds):>9}  {fold.share:>6.1%}  {host}{line:>5}  {source}  {node}  "
            f"{rate:>7}  {of_peak:>7}"
        )
    return lines


def _comparison(result: ProfileResult) -> str:
    """Return what changed since the earlier profile, in a sentence."""
    before = f"against the last run ({result.environment.device}, {result.compared_with})"
    if not result.changes:
        return f"{before}: no significant change"
    return f"{before}: {' · '.join(map(_changed, result.changes))} · no significant change elsewhere"


def _changed(change: Change) -> str:
    difference = change.ratio - 1
    sign = "−" if difference < 0 else "+"
    return f"{sign}{abs(difference):.1%} ± {change.error:.1%} on {change.label}"


def _rate(fold: Fold, result: ProfileResult) -> tuple[str, str]:
    """Return operations a second, and the part of the device's peak that is: of bandwidth where that is what limits."""
    seconds = fold.timing.seconds
    if not seconds or not fold.flops:
        return "", ""
    rate = fold.flops / seconds
    environment = result.environment
    if not environment.peak_flops:
        return f"{rate / 1e9:.0f}", ""
    arithmetic = rate / environment.peak_flops
    traffic = fold.bytes / seconds / environment.peak_bandwidth
    of_peak = f"{arithmetic:.0%}" if arithmetic >= traffic else f"{traffic:.0%} mem" if traffic <= 1 else "in cache"
    return f"{rate / 1e9:.0f}" if rate >= 1e9 else f"{rate / 1e9:.2f}", of_peak


def _footnote(result: ProfileResult) -> str:
    environment = result.environment
    peaks = (
        f"Peaks measured on this machine: {environment.peak_flops / 1e9:.0f} GFLOP/s in a matrix product, "
        f"{environment.peak_bandwidth / 1e9:.0f} GB/s in a copy; `mem` marks rows that the latter limits, "
        "`in cache` those that do not need it. "
        if environment.peak_flops
        else ""
    )
    host = ", on the device, with its queue filled; `host` is what it takes to fill it" if result.apart else ""
    return (
        f"{peaks}Times are medians with their standard errors; a node's time is that of its call alone{host}. "
        f"{environment.device_name}, torch {environment.torch}, Python {environment.python}, {environment.started}."
    )


def _host(fold: Fold) -> str:
    return "" if fold.host is None else _duration(fold.host)


def _source(fold: Fold) -> str:
    """Return the text of the fold's line."""
    if fold.place is None:
        return ""
    return linecache.getline(fold.place.path, fold.place.line).strip() or fold.place.text


def _nodes(fold: Fold) -> str:
    """Return what a fold calls, as ``blocks.*.mlp.fc1, gelu, fc2 (×12)``."""
    prefix = f"{fold.module_path}." if fold.module_path else ""
    count = f" (×{fold.count})" if fold.count > 1 else ""
    return f"{prefix}{', '.join(fold.operations)}{count}"


def _measured(timing: Timing) -> str:
    return f"{_duration(timing.seconds)} ± {_duration(timing.error)}"


def _duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-2 else f"{seconds * 1e3:.2f} ms"
    return f"{seconds * 1e6:.1f} µs" if seconds < 1e-4 else f"{seconds * 1e6:.0f} µs"


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"


def _at(node: NodeProfile | None) -> str:
    if node is None:
        return ""
    line = f"line {node.place.line} " if node.place is not None else ""
    return f" at {line}({node.module_path or node.name})"


def _clipped(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'")


def _uri(place: Place) -> str:
    path = Path(place.path)
    return f"{path.as_uri()}#L{place.line}" if path.is_absolute() else place.path


def _metadata(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "ph": "M", "pid": 1, "tid": 1, "args": {"name": value}}


def _event(name: str, category: str, start: float, duration: float, arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "pid": 1,
        "tid": 1,
        "ts": round(start, 3),
        "dur": round(duration, 3),
        "args": arguments,
    }


def _nesting(event: dict[str, Any]) -> tuple[float, float]:
    """Order events so that what encloses comes before what it holds."""
    return (-1.0, 0.0) if event["ph"] == "M" else (event["ts"], -event["dur"])


def _owner_chain(node: NodeProfile) -> list[str]:
    """Return the paths of the modules around a node, outermost first; a leaf module is its node itself."""
    parts = node.module_path.split(".") if node.module_path else []
    if node.op == "call_module":
        parts = parts[:-1]
    return [".".join(parts[: depth + 1]) for depth in range(len(parts))]


def _enter(
    open_modules: list[tuple[str, float]], path: list[str], now: float
) -> tuple[list[tuple[str, float]], list[dict[str, Any]]]:
    """Return the modules that are open in ``path`` with their starts, and the events of those that were left."""
    kept = 0
    while kept < min(len(open_modules), len(path)) and open_modules[kept][0] == path[kept]:
        kept += 1
    closed = [_event(name, "module", start, now - start, {}) for name, start in open_modules[kept:]]
    return [*open_modules[:kept], *((name, now) for name in path[kept:])], closed


def _node_arguments(node: NodeProfile) -> dict[str, Any]:
    place = node.place
    return {
        "target": node.target,
        "module": node.module_path,
        "source": f"{place.path}:{place.line}:{place.column + 1}" if place is not None else "",
        "text": place.text if place is not None else "",
        "result": node.result,
        "flops": node.flops,
        "bytes": node.bytes,
        "memory": node.memory,
        "error_us": round(node.timing.error * 1e6, 3),
        **({} if node.host is None else {"host_us": round(node.host * 1e6, 3)}),
        "share": round(node.share, 5),
    }
