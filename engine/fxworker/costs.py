"""What a statement would do that nobody wants who only opens a file: train, download, read a data set, ask for input.

Judged by what it calls, and by what the file's own functions that it calls do. A statement of several parts, such as an
`if`, loses the parts of that kind and keeps the others; a loop is one of that kind as a whole.
"""

import ast
import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

Definitions: TypeAlias = Mapping[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]

_TRAINS: Final = "it trains a model"
_DOWNLOADS: Final = "it downloads something"
_READS: Final = "it reads a data set"
_ASKS: Final = "it waits for input"
_RUNS: Final = "it runs another program"

_TRAINING: Final = frozenset({"backward", "fit", "fit_transform", "train_on_batch", "training_step", "zero_grad"})
_TRAINER: Final = re.compile(
    r"(pre|fine_?)?(train|tune)(_and_\w+|_model|_one_epoch|_epochs?|_loop|_network|_net|ing)?$"
)
_OPTIMIZER: Final = re.compile(r"(?i)opt|sched|scaler|trainer|accelerator")
_FETCHING: Final = frozenset({
    "urlretrieve", "urlopen", "download", "download_url", "download_file", "download_and_extract_archive",
    "hf_hub_download", "snapshot_download", "dataset_download", "cached_download", "cached_path",
})  # fmt: skip
_FETCHERS: Final = ("requests.", "wget.", "gdown.", "kagglehub.", "wandb.", "mlflow.", "urllib.request.")
_TABLES: Final = frozenset({
    "load_dataset", "load_from_disk", "read_csv", "read_excel", "read_feather", "read_hdf", "read_parquet",
    "read_pickle", "read_sql", "read_table", "loadtxt", "genfromtxt", "loadmat", "load_iris", "load_digits",
    "load_breast_cancer", "load_wine", "load_diabetes",
})  # fmt: skip
_DATA: Final = re.compile(r"(\w*(Dataset|DataLoader|DataModule|ImageFolder|DatasetFolder))$")
_DATA_MODULES: Final = ("torchvision.datasets.", "datasets.", "torchtext.datasets.", "torchaudio.datasets.", "dsets.")
_PROGRAMS: Final = ("subprocess.", "os.system", "os.popen", "os.spawn", "os.exec")


def cost_of(node: ast.stmt, definitions: Definitions) -> str:
    """Return what a statement would do that is not wanted, as a clause, "" where it does nothing of the kind.

    Definitions and imports cost nothing; what an `if`, `with` or `try` does in its blocks does not count.
    """
    if isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return ""
    loops = isinstance(node, ast.For | ast.AsyncFor | ast.While)
    parts: list[ast.AST] = [node] if loops or not _blocks(node) else _headers(node)
    followed = set[str]()
    return next((cost for part in parts for cost in _costs_in(part, definitions, followed)), "")


def lightened(node: ast.stmt, definitions: Definitions) -> ast.stmt:
    """Return a statement without the costly ones in its blocks; the statement itself where there are none.

    What needs a name that only a costly one assigns goes with it.
    """
    return _lightened(node, definitions, set())


def _lightened(node: ast.stmt, definitions: Definitions, lost: set[str]) -> ast.stmt:
    """Return a statement without the costly ones in its blocks; `lost` are the names that are not known so far."""
    changed: dict[str, list[ast.AST]] = {}
    before, after = frozenset(lost), set[str]()
    for name in _blocks(node):
        block: list[ast.AST] = getattr(node, name)
        inside = set(before)
        light = [_light_part(each, definitions, inside) for each in block]
        after |= inside
        if any(one is not other for one, other in zip(block, light, strict=True)):
            changed[name] = light
    lost |= after
    if not changed:
        return node
    node = copy.copy(node)
    for name, block in changed.items():
        setattr(node, name, block)
    return node


def costly_in(node: ast.AST, definitions: Definitions) -> Iterator[tuple[ast.stmt, str]]:
    """Yield the costly statements in a statement's blocks, each with what it would do."""
    blocks = _blocks(node) if isinstance(node, ast.stmt) else ("body",)
    for part in (each for name in blocks for each in getattr(node, name)):
        cost = cost_of(part, definitions) if isinstance(part, ast.stmt) else ""
        if cost:
            yield part, cost
        else:
            yield from costly_in(part, definitions)


def _light_part(part: ast.AST, definitions: Definitions, lost: set[str]) -> ast.AST:
    if isinstance(part, ast.stmt):
        own: list[ast.AST] = _headers(part) if _blocks(part) else [part]
        if cost_of(part, definitions) or (lost and lost & _named_in(own, ast.Load)):
            lost.update(_named_in([part], ast.Store))
            return ast.copy_location(ast.Pass(), part)
        if lost and not _blocks(part):
            lost -= _named_in([part], ast.Store)
        return _lightened(part, definitions, lost)
    if isinstance(part, ast.ExceptHandler | ast.match_case):
        body = [_light_part(each, definitions, lost) for each in part.body]
        if any(one is not other for one, other in zip(part.body, body, strict=True)):
            part = copy.copy(part)
            part.body = [each for each in body if isinstance(each, ast.stmt)]
    return part


def _named_in(parts: Iterable[ast.AST], context: type[ast.expr_context]) -> set[str]:
    """Return the names that parts of a file look up, or that they assign."""
    nodes = (each for part in parts for each in ast.walk(part))
    return {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, context)}


def _blocks(node: ast.stmt) -> tuple[str, ...]:
    """Return the names of the fields that hold a statement's blocks, none for a definition or a loop."""
    match node:
        case ast.If():
            return "body", "orelse"
        case ast.With() | ast.AsyncWith():
            return ("body",)
        case ast.Try() | ast.TryStar():
            return "body", "handlers", "orelse", "finalbody"
        case ast.Match():
            return ("cases",)
        case _:
            return ()


def _headers(node: ast.stmt) -> list[ast.AST]:
    """Return the parts of a statement that are no blocks."""
    return [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr | ast.withitem)]


@dataclass(frozen=True, slots=True)
class _Called:
    """What is called: its name as it is written, and whether it is told to download."""

    name: str
    downloads: bool


@lru_cache(maxsize=2048)
def _calls_in(part: ast.AST) -> tuple[_Called, ...]:
    """Return the different calls in a part, not those in the bodies of functions and classes."""
    found: dict[_Called, None] = {}
    waiting = [part]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func) if isinstance(node.func, ast.Name | ast.Attribute) else ""
            found[_Called(name, any(map(_is_download, node.keywords)))] = None
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return tuple(found)


def _costs_in(
    part: ast.AST, definitions: Definitions, followed: set[str], *, in_function: bool = False
) -> Iterator[str]:
    """Yield what a part does that is not wanted; `followed` are the file's functions that were looked into."""
    for call in _calls_in(part):
        definition = definitions.get(call.name)
        if definition is None:
            yield from _cost_of_call(call, in_function=in_function)
        elif isinstance(definition, ast.ClassDef):
            if any(_DATA.fullmatch(ast.unparse(each).rpartition(".")[2]) for each in definition.bases):
                yield _READS
        elif call.name not in followed:
            followed.add(call.name)
            for each in definition.body:
                yield from _costs_in(each, definitions, followed, in_function=True)


def _cost_of_call(call: _Called, *, in_function: bool) -> Iterator[str]:
    """Yield what a call does that is not wanted. A download in a function may be one that it decides against."""
    name = call.name
    last = name.rpartition(".")[2]
    owner = name.removesuffix(last)
    if last in _TRAINING or (_TRAINER.fullmatch(last) and not owner) or (last == "step" and _OPTIMIZER.search(owner)):
        yield _TRAINS
    elif last in _TABLES or _DATA.fullmatch(last) or name.startswith(_DATA_MODULES) or last.startswith("fetch_"):
        yield _READS
    elif in_function:
        return
    elif last in _FETCHING or name.startswith(_FETCHERS) or call.downloads:
        yield _DOWNLOADS
    elif name == "input":
        yield _ASKS
    elif name.startswith(_PROGRAMS):
        yield _RUNS


def _is_download(keyword: ast.keyword) -> bool:
    return keyword.arg == "download" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
