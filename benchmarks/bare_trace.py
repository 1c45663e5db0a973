"""The bare work of a trace, for benchmarks/latency.py: execute, build on the meta device, torch.fx.symbolic_trace.

Reads a job as JSON from the first line of its standard input, and does it once for each further line, which is the
statement to insert; it answers each with a line of JSON: the seconds that it took, and why torch.fx stopped. Everything
that the text imports is imported once, before. With `--import FILE` it does nothing but that.
"""

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.fx

CORPUS = (Path(__file__).resolve().parents[1] / ".corpus").resolve()
WARM_UP = 3


def main() -> None:
    if sys.argv[1:2] == ["--import"]:
        file = Path(sys.argv[2])
        sys.path.insert(0, str(file.parent))
        importlib.import_module(".".join(module_parts(file)))
        return
    job = json.loads(sys.stdin.readline())
    torch.set_num_threads(1)
    sys.path.insert(0, str(Path(job["file"]).parent))
    for statement in ["pass"] * WARM_UP:
        once(job, statement)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        seconds, stopped = once(job, line.strip())
        print(json.dumps({"took": seconds, "stopped": stopped}), flush=True)


def once(job: dict[str, Any], statement: str) -> tuple[float, str]:
    """Do the work on an edited text; return the seconds, and why torch.fx stopped, if it did."""
    text = edited(job["text"], job["at"], statement)
    start = time.perf_counter()
    namespace = execute(job["file"], text)
    with torch.device("meta"):
        models = [eval(expression, namespace) for expression in job["built"]]
    stopped = [trace(model) for model in models]
    return time.perf_counter() - start, next(filter(None, stopped), "")


def trace(model: torch.nn.Module) -> str:
    """Trace a model; return why that stopped, if it did."""
    try:
        torch.fx.symbolic_trace(model)
    except Exception as error:  # noqa: BLE001 — user code raises what it likes.
        return f"{type(error).__name__}: {error}".splitlines()[0][:100]
    return ""


def execute(file: str, text: str) -> dict[str, Any]:
    """Execute a module's text as the import system would; return its names."""
    parts = module_parts(Path(file))
    name = ".".join(parts)
    importlib.import_module(name)  # The others that import it, and classes that look up their module, find this one.
    namespace: dict[str, Any] = {"__name__": name, "__package__": ".".join(parts[:-1]), "__file__": file}
    exec(compile(text, file, "exec"), namespace)
    return namespace


def module_parts(path: Path) -> tuple[str, ...]:
    """Return the name of a file's module, with its packages."""
    return path.relative_to(CORPUS).with_suffix("").parts if path.is_relative_to(CORPUS) else (path.stem,)


def edited(text: str, at: tuple[int, int], statement: str) -> str:
    """Return the text with a statement of its own line before a place."""
    lines = text.splitlines(keepends=True)
    line, column = at
    return "".join([*lines[: line - 1], " " * column + statement + "\n", *lines[line - 1 :]])


if __name__ == "__main__":
    main()
