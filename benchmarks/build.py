"""How many of the classes of real files can be built with no help: by which way, and why not the others.

Goes over files of installed libraries, folders, or files. A class counts if it has a forward of its own, is an
`nn.Module` once its file is executed, and is not abstract. It is *built* if the product builds it: in one of the ways
of its own, in the order in which they are tried, or inside another model of its file. Each file is discovered, then
executed and built in a process of its own. With `--trace` the worker's whole answer is made, where a class counts as
enclosed only if the trace reached it; without, the model that holds it has only to be built. With `--project` each
place is the folder that is open, and what its other files say counts, as in an editor; without, a file is by itself.

    python benchmarks/build.py [LIBRARY | FOLDER | FILE]... [--files N] [--seed N] [--trace] [--alone] [--project]
                               [--each]
"""

import argparse
import ast
import importlib.util
import inspect
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from _children import in_children
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fxls.discovery import discover
from fxls.discovery.elsewhere import Calls
from fxls.discovery.roots import roots_of
from fxworker.building import Built, Unbuilt, build, class_of
from fxworker.containment import outermost_first
from fxworker.inner import mentions_of
from fxworker.loading import Document, Loaded, load
from fxworker.tracing import trace, warm_up
from fxworker.wire import TraceReport, TraceRequest
from tests.support.corpus import CORPUS

LIBRARIES: Final = (
    "timm", "torchvision", "transformers", "diffusers", "vit_pytorch", "kornia", "monai", "segmentation_models_pytorch",
)  # fmt: skip
SECONDS: Final = 60.0
"""What a file may take."""

MEMORY: Final = 6 << 30


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a class: the source of what built it, "" where nothing did, and then the reason."""

    qualname: str
    source: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """What became of a file: its classes, and what of it could not be executed."""

    path: str
    classes: tuple[Outcome, ...]
    failures: tuple[str, ...] = ()
    seconds: float = 0.0


def main(arguments: list[str]) -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("places", nargs="*", default=LIBRARIES, help="libraries, folders or files")
    parser.add_argument("--files", type=int, default=14, help="so many files of each place at most")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of files")
    parser.add_argument("--trace", action="store_true", help="make the worker's whole answer")
    parser.add_argument("--alone", action="store_true", help="build each class by itself, though another holds it")
    parser.add_argument("--project", action="store_true", help="with what the other files of a place say")
    parser.add_argument("--each", action="store_true", help="print how each class was built")
    options = parser.parse_args(arguments)
    sys.path.append(str(CORPUS))
    warm_up()
    total: list[FileOutcome] = []
    for place in options.places:
        chosen = sampled(list(files_of(place)), options.files, options.seed)
        calls = calls_in(place) if options.project else None
        outcomes = [measured(path, calls, trace=options.trace, alone=options.alone) for path in chosen]
        outcomes = [each for each in outcomes if each.classes]
        show(place, outcomes, each=options.each)
        total += outcomes
    if len(options.places) > 1:
        print(row("all", total))
    return 0


def path_of(place: str) -> Path:
    """The folder or file that is meant by its path, or by the name of a library."""
    path = Path(place)
    if not path.exists():
        spec = importlib.util.find_spec(place)
        if spec is None or spec.origin is None:
            raise SystemExit(f"{place}: no such library")
        path = Path(spec.origin)
        path = path.parent if path.name == "__init__.py" else path
    return path


def calls_in(place: str) -> Calls:
    """What the files of a place say about each other's classes."""
    path = path_of(place).resolve()
    calls = Calls(str(path if path.is_dir() else path.parent))
    calls.look()
    return calls


def files_of(place: str) -> Iterator[str]:
    """The files of a library, a folder, or the file itself that define modules with a forward."""
    path = path_of(place)
    for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
        if not {"tests", "test", "testing"} & set(file.relative_to(path.parent).parts):
            text = file.read_text(encoding="utf-8", errors="replace")
            if "def forward" in text and any(forwards(text)):
                yield str(file.resolve())


def sampled(files: list[str], count: int, seed: int) -> list[str]:
    """So many of the files, the same for the same seed."""
    return files if len(files) <= count else sorted(random.Random(seed).sample(files, count))


def forwards(text: str) -> Iterator[str]:
    """The qualified names of the classes in a text that have a forward of their own, as a method of an instance."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(text)
        except SyntaxError:
            return
    plain = _plain(tree)
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        around, prefix = waiting.pop()
        for node in ast.iter_child_nodes(around):
            inner = prefix
            if isinstance(node, ast.ClassDef):
                forward = any(map(_is_forward, node.body)) and not any(map(_is_left_to_others, node.body))
                if forward and node.name not in plain:
                    yield prefix + node.name
                inner = f"{prefix}{node.name}."
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = f"{prefix}{node.name}.<locals>."
            waiting.append((node, inner))


def _plain(tree: ast.Module) -> set[str]:
    """The classes of a file that derive from nothing that could be a module, written after what they derive from."""
    plain = {"object", "ABC", "abc.ABC"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and all(ast.unparse(base) in plain for base in node.bases):
            plain.add(node.name)
    return plain


def _is_forward(node: ast.stmt) -> bool:
    """Whether a statement defines a forward that does something."""
    if not isinstance(node, ast.FunctionDef) or node.name != "forward":
        return False
    decorators = {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}
    body = [each for each in node.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    empty = all(isinstance(each, ast.Raise | ast.Pass) for each in body)
    first = node.args.args[0].arg if node.args.args else ""
    return first == "self" and not empty and not decorators & {"staticmethod", "abstractmethod"}


def _is_left_to_others(node: ast.stmt) -> bool:
    """Whether a statement of a class defines a method that its subclasses have to define."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return any(ast.unparse(each).rpartition(".")[2].startswith("abstract") for each in decorators)


def measured(path: str, calls: Calls | None, *, trace: bool, alone: bool) -> FileOutcome:
    """What becomes of a file, in a process of its own."""
    work = partial(outcome_of, calls=calls, trace=trace, alone=alone)
    _, outcome, reason, taken = next(in_children(work, [path], SECONDS, MEMORY))
    if outcome is None:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
        return FileOutcome(path, tuple(Outcome(each, "", reason) for each in forwards(text)), seconds=taken)
    return replace(outcome, seconds=taken)


def outcome_of(path: str, *, calls: Calls | None, trace: bool, alone: bool) -> FileOutcome:
    """Discover, execute and build a file here."""
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    index = discover(path, text)
    if calls is not None:
        index = calls.completed(index, text)
    workspace = [calls.folder] if calls is not None else []
    roots = roots_of(path, workspace, index.imported)
    request = TraceRequest(1, path, text, index.targets, roots, settings=index.settings)
    document = Document.of(request)
    document.enter(request)
    if trace:
        document.import_ahead(request)
        found, failures = _traced(request, document)
        scope = vars(sys.modules[document.name])
    else:
        loaded = load(request, document)
        failures = tuple(
            f"{each.statement.node.lineno if each.statement else 0}: {each.error!r:.200}" for each in loaded.failures
        )
        found, scope = _built(request, loaded, alone=alone), loaded.namespace
    classes = [
        found.get(name) or Outcome(name, "", "not found") for name in forwards(text) if _counts(name, scope, found)
    ]
    return FileOutcome(path, tuple(classes), failures)


def _counts(name: str, scope: dict[str, Any], found: dict[str, Outcome]) -> bool:
    """Whether a class is a module that is not abstract, as far as executing the file tells."""
    first, *rest = name.split(".")
    cls: Any = scope.get(first)
    for part in rest:
        cls = getattr(cls, part, None)
    if not isinstance(cls, type):
        return name in found or "<locals>" not in name
    return issubclass(cls, nn.Module) and not _is_abstract(cls)


def _is_abstract(cls: type) -> bool:
    """Whether a class leaves methods to subclasses, also one without the metaclass that forbids to make it."""
    members = (inspect.getattr_static(cls, name, None) for name in dir(cls))
    return inspect.isabstract(cls) or any(getattr(each, "__isabstractmethod__", False) is True for each in members)


def _traced(request: TraceRequest, document: Document) -> tuple[dict[str, Outcome], tuple[str, ...]]:
    """Make the worker's answer."""
    report: TraceReport = trace(request, document, lambda _index, _guess: None)
    found: dict[str, Outcome] = {}
    for each in report.targets:
        if each.enclosed_by:
            found[each.qualname] = Outcome(each.qualname, "enclosed", each.enclosed_by)
        elif each.status != "not traced" or each.code:
            way = each.construct
            found[each.qualname] = Outcome(
                each.qualname, way.source if way else each.kind, way.expression if way else ""
            )
        else:
            reasons = " ".join(f"{problem.message} {problem.explanation}" for problem in each.problems)
            found[each.qualname] = Outcome(each.qualname, "", reasons)
    return found, tuple(each.message for each in report.problems)


def _built(request: TraceRequest, loaded: Loaded, *, alone: bool) -> dict[str, Outcome]:
    """Build a file's targets, outermost first."""
    found: dict[str, Outcome] = {}
    inside: dict[type, str] = {}
    for target in outermost_first(request.targets, {**loaded.mentions, **mentions_of(request.targets, loaded)}):
        name = target.qualname
        cls = class_of(target, loaded)
        holder = inside.get(cls) if cls is not None else None
        if holder is not None and not alone:
            found[name] = Outcome(name, "enclosed", holder)
            continue
        start = time.perf_counter()
        result = build(target, loaded)
        took = f"{1000 * (time.perf_counter() - start):.0f} ms"
        if isinstance(result, Built):
            way = result.construct
            found[name] = Outcome(name, way.source if way else target.kind, f"{way.expression if way else ''}  {took}")
            if isinstance(result.root, nn.Module):
                for each in result.root.modules():
                    inside.setdefault(type(each), name)
        else:
            found[name] = Outcome(name, "", f"{_reason(result)}  {took}")
    return found


def _reason(result: Unbuilt) -> str:
    tried = result.tried or (result.construct.expression if result.construct else "")
    return f"{type(result.error).__name__}: {str(result.error)[:150]} (tried {tried[:200]})"


def show(place: str, outcomes: list[FileOutcome], *, each: bool) -> None:
    """Print the row of a place, and what was not built."""
    print(row(Path(place).name, outcomes))
    for outcome in outcomes:
        told = [one for one in outcome.classes if each or not one.source]
        if told or outcome.failures:
            print(f"  {outcome.path}  {outcome.seconds:.1f} s")
        for failure in outcome.failures:
            print(f"    ! {failure}")
        for one in told:
            print(f"    {one.qualname}: {one.source or 'NOT BUILT'}: {one.detail}")
    sys.stdout.flush()


def row(name: str, outcomes: Iterable[FileOutcome]) -> str:
    """One line of the table."""
    files = list(outcomes)
    classes = [each for file in files for each in file.classes]
    built = sum(bool(each.source) for each in classes)
    sources = Counter(each.source for each in classes if each.source)
    share = 100 * built / max(len(classes), 1)
    seconds = sum(file.seconds for file in files)
    ways = ", ".join(f"{source} {count}" for source, count in sources.most_common())
    return (
        f"{name}: {len(files)} files, {len(classes)} classes, {built} built = {share:.1f}% ({ways}) in {seconds:.0f} s"
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.exit(main(sys.argv[1:]))
