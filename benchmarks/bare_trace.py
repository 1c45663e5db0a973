"""The bare work of a trace, for benchmarks/latency.py: execute, build on the meta device, torch.fx.symbolic_trace.

Reads a job as JSON from standard input and prints the seconds that each edit of the text took. Everything that the
text imports is imported once, before the first edit that counts.
"""

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.fx

CORPUS = Path(__file__).resolve().parents[1] / ".corpus"
WARM_UP = 3


def main() -> None:
    job = json.load(sys.stdin)
    torch.set_num_threads(1)
    sys.path.insert(0, str(Path(job["file"]).parent))
    took: list[float] = []
    stopped = ""
    for number in range(job["edits"] + WARM_UP):
        text = edited(job["text"], job["at"], f"_edit = {number}")
        start = time.perf_counter()
        namespace = execute(job["file"], text)
        with torch.device("meta"):
            models = [eval(expression, namespace) for expression in job["built"]]
        for model in models:
            stopped = trace(model) or stopped
        took.append(time.perf_counter() - start)
    print(json.dumps({"took": took[WARM_UP:], "stopped": stopped}))


def trace(model: torch.nn.Module) -> str:
    """Trace a model; return why that stopped, if it did."""
    try:
        torch.fx.symbolic_trace(model)
    except Exception as error:  # noqa: BLE001 — user code raises what it likes.
        return f"{type(error).__name__}: {error}".splitlines()[0][:100]
    return ""


def execute(file: str, text: str) -> dict[str, Any]:
    """Execute a module's text as the import system would; return its names."""
    path = Path(file)
    parts = path.relative_to(CORPUS).with_suffix("").parts if path.is_relative_to(CORPUS) else (path.stem,)
    name = ".".join(parts)
    importlib.import_module(name)  # The others that import it, and classes that look up their module, find this one.
    namespace: dict[str, Any] = {"__name__": name, "__package__": ".".join(parts[:-1]), "__file__": file}
    exec(compile(text, file, "exec"), namespace)
    return namespace


def edited(text: str, at: tuple[int, int], statement: str) -> str:
    """Return the text with a statement of its own line before a place."""
    lines = text.splitlines(keepends=True)
    line, column = at
    return "".join([*lines[: line - 1], " " * column + statement + "\n", *lines[line - 1 :]])


if __name__ == "__main__":
    main()
