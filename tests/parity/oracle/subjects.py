"""The models that a diagnosis is held against torch.fx on: own ones, fixtures, and those of the model libraries."""

import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tests.parity.corpus_models import models
from tests.parity.own_models import CASES

FIXTURES = Path(__file__).parents[2] / "fixtures"
# What these are about is not a model that torch.fx could trace in this process.
_OTHER_FIXTURES = {"world", "shapes"}


@dataclass(frozen=True, slots=True)
class Subject:
    """A model, how it is made, and what it is traced with.

    Attributes:
        name: How it is asked for: `own:attention`, `fixture:truth/if_on_data`, `timm:vit_tiny_patch16_224`.
        build: Makes the model or function.
        inputs: Makes inputs for the model; None if it is traced without.
        concrete_args: Makes the values of parameters that are fixed, out of the package that traces.
    """

    name: str
    build: Callable[[], Any]
    inputs: Callable[[Any], tuple[Any, ...] | dict[str, Any] | None] | None = None
    concrete_args: Callable[[types.ModuleType], Any] = lambda _: None


def own() -> Iterator[Subject]:
    """The models of `own_models`, each without inputs and with them; those with tracers of their own are left out."""
    for case in CASES:
        if case.tracer is not None or case.settings:
            continue
        concrete = case.concrete_args or (lambda _: None)
        yield Subject(f"own:{case.name}", case.build, None, concrete)
        if case.inputs is not None and case.concrete_args is None:
            yield Subject(f"own:{case.name}, fed", case.build, lambda _, inputs=case.inputs: inputs())


def fixtures() -> Iterator[Subject]:
    """The fixtures that define a `Net`."""
    for path in sorted(FIXTURES.rglob("*.py")):
        if (
            not path.name.startswith("_")
            and path.parent.name not in _OTHER_FIXTURES
            and b"class Net(" in path.read_bytes()
        ):
            name = path.relative_to(FIXTURES).with_suffix("").as_posix()
            yield Subject(f"fixture:{name}", lambda path=path: load(path).Net())


def corpus() -> Iterator[Subject]:
    """The models of the libraries, without inputs."""
    for name, build in models():
        yield Subject(name, build)


def fed_corpus() -> Iterator[Subject]:
    """Those of which it is easy to say what they take, with that."""
    for name, build in models():
        make = _INPUTS.get(name.partition(":")[0])
        if make is not None:
            yield Subject(f"{name}, fed", build, functools.partial(_taken, make))


def load(path: Path) -> types.ModuleType:
    """Run a file, which may import those beside it, and return what it defines."""
    module = types.ModuleType(path.stem)
    sys.path.insert(0, str(path.parent))
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
    finally:
        sys.path.remove(str(path.parent))
    return module


def every() -> Iterator[Subject]:
    """All subjects."""
    yield from own()
    yield from fixtures()
    yield from corpus()
    yield from fed_corpus()


def by_name(name: str) -> Subject:
    """The subject of a name.

    Raises:
        KeyError: There is none.
    """
    for subject in every():
        if subject.name == name:
            return subject
    raise KeyError(name)


def _taken(make: Callable[[Any], tuple[Any, ...] | dict[str, Any]], model: Any) -> Any:
    """Inputs for a model; None if its forward takes others."""
    inputs = make(model)
    args, kwargs = (inputs, {}) if isinstance(inputs, tuple) else ((), inputs)
    try:
        inspect.signature(model.forward).bind(*args, **kwargs)
    except TypeError:
        return None
    return inputs


def _images(model: Any) -> tuple[Any, ...]:
    size = getattr(model, "default_cfg", {}).get("input_size", (3, 224, 224))
    return (torch.zeros(1, *size),)


def _small_images(_: Any) -> tuple[Any, ...]:
    return (torch.zeros(1, 3, 64, 64),)


def _main_input(model: Any) -> dict[str, Any]:
    if model.main_input_name == "pixel_values":
        size = getattr(model.config, "image_size", 224)
        height, width = size if isinstance(size, tuple | list) else (size, size)
        return {"pixel_values": torch.zeros(1, getattr(model.config, "num_channels", 3), height, width)}
    if model.main_input_name == "input_ids":
        return {"input_ids": torch.zeros(1, 16, dtype=torch.long)}
    return {model.main_input_name: torch.zeros(1, 4000)}


_INPUTS: dict[str, Callable[[Any], tuple[Any, ...] | dict[str, Any]]] = {
    "torchvision": _images,
    "timm": _images,
    "vit_pytorch": _small_images,
    "transformers": _main_input,
}
