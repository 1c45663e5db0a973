"""What user code compiles is run as it is: compiling takes longer than anything else that is done here."""

import contextlib
import functools
import os
import sys
from contextlib import AbstractContextManager
from types import CellType, CodeType, FunctionType
from typing import Any

import torch


def eagerly() -> AbstractContextManager[object]:
    """Return a context in which compiled functions run as they are written.

    Nothing was compiled where nobody has loaded torch's compiler, and loading it takes as long as loading torch.
    """
    if "torch._dynamo" not in sys.modules:
        return contextlib.nullcontext()
    return torch.compiler.set_stance("force_eager")


def without_numba() -> None:
    """Let numba, where it is imported from now on, run functions as they are written.

    A single function takes it seconds, and what is asked of a model here are its shapes.
    """
    os.environ.setdefault("NUMBA_DISABLE_JIT", "1")


def leave_unscripted() -> None:
    """Let `torch.jit.script` give back as it is what it cannot compile: it may call what is only stood in for."""
    original = torch.jit.script

    @functools.wraps(original)
    def script(obj: Any, *args: Any, _frames_up: int = 0, **kwargs: Any) -> Any:
        try:
            return original(obj, *args, _frames_up=_frames_up + 1, **kwargs)
        except Exception:  # noqa: BLE001 — The user's code is compiled.
            return obj

    torch.jit.script = script


def leave_compiler_alone() -> None:
    """Keep torch's kernels for tensors without data from loading torch's compiler when they are called first.

    They do it to tell the compiler that they are not to be compiled, which nobody does here.
    """
    marking = _marking()
    tables = getattr(sys.modules.get("torch._decomp"), "global_decomposition_table", {})
    kernels = {each for table in tables.values() for each in table.values()} if marking is not None else set[Any]()
    pending = [each for each in kernels if isinstance(each, FunctionType)]
    seen = set[int]()
    while pending:
        function = pending.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        # Not every wrapper of torch's says truly what it wraps: it holds it.
        held = [each.cell_contents for each in function.__closure__ or () if _is_filled(each)]
        held = [each for each in held if isinstance(each, FunctionType)]
        if function.__code__ is marking:
            for inner in held:
                vars(inner).setdefault("__dynamo_disable", inner)
        pending += held


def _is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # It is empty.
        return False


def _marking() -> CodeType | None:
    """Return the code that wraps what is not to be compiled; None where torch does that in another way."""
    decorator: Any = getattr(sys.modules.get("torch._compile"), "_disable_dynamo", None)
    constants = decorator.__code__.co_consts if decorator is not None else ()
    return next((each for each in constants if isinstance(each, CodeType) and each.co_name == "inner"), None)
