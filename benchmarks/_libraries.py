"""The models that feeding and capturing are measured on: what each installed library offers, without help of ours.

torchvision and open_clip have registries, timm one model for each of its modules, transformers and diffusers a default
configuration of two layers for each of their models. From the other libraries, and from any package that is named,
every class with a forward of its own is taken, and built as the worker builds the classes of a file that somebody
opens in the package's folder: by its call sites, without arguments, with inferred ones, or as a part of another model,
of its file or of another one. What it is given there feeds it where nothing else does.

The lists are sorted and the same in every run. A library is imported when its cases are asked for.
"""

import ast
import contextlib
import importlib
import importlib.util
import inspect
import io
import pkgutil
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

import torch
from torch import nn
from torch.nn.parameter import is_lazy

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fxengine.inputs import InferredInputs, infer_inputs, materialize
from fxls.discovery import discover
from fxls.discovery.elsewhere import Calls
from fxls.discovery.index import ModelIndex
from fxworker.argument_lists import Arguments, arguments_of
from fxworker.building import Built, attempt, build, in_wholes, scope_of
from fxworker.fitting import fit
from fxworker.heirs import shown_by_heir
from fxworker.importing import importing
from fxworker.loading import Loaded, calls_of
from fxworker.meta import idle_initialisation
from fxworker.offline import go_offline
from fxworker.readings import note_below
from fxworker.readying import made_ready
from fxworker.slicing import slice_of
from fxworker.wire import Construct, TraceTarget, Whole
from tests.parity.corpus_models import TIMM
from tests.support import corpus

__all__ = ["LIBRARIES", "Case", "Model", "cases", "inputs_for", "made"]

_SECONDS_OF_OTHERS: Final = 5.0
"""How long inputs are searched for of what shows a class that cannot be fed by itself."""

_LAYERS: Final = 2
_MOST_LAYERS: Final = 8
_DEPTHS: Final = (
    "num_hidden_layers", "num_layers", "n_layer", "n_layers", "num_encoder_layers", "num_decoder_layers",
    "encoder_layers", "decoder_layers", "num_single_layers", "n_refiner_layers", "num_refiner_layers",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Model:
    """A model that was built.

    Attributes:
        root: The model, in evaluation mode.
        scope: The names that `said` may use.
        said: The inputs that the library's own code and documentation show, as argument lists.
        fit: Looks for other arguments, as the worker does where arguments were inferred that no inputs fit.
    """

    root: nn.Module
    scope: dict[str, Any]
    said: tuple[str, ...] = ()
    fit: "Callable[[InferredInputs], Fitting | None]" = lambda _found: None

    @property
    def size(self) -> int:
        """How many parameters it has, without those of layers that get their sizes from the first inputs."""
        return sum(each.numel() for each in self.root.parameters() if not is_lazy(each))


@dataclass(frozen=True, slots=True)
class Case:
    """A model of a library.

    Attributes:
        library: Its library.
        name: Its name there.
        make: Builds it, with real weights or, given False, without.
    """

    library: str
    name: str
    make: Callable[[bool], Model]

    def build(self, *, real: bool = False) -> Model:
        """Return the model in evaluation mode: on meta, or with real random weights, the same each time.

        Raises:
            Exception: It cannot be built.
        """
        idle_initialisation()
        go_offline()
        note_below([_folder_of(self.library)])
        torch.manual_seed(0)
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            model = self.make(real)
        model.root.eval()
        return model


class Fitting(NamedTuple):
    """A model with other arguments, and inputs for it: what was inferred, or the argument list of a call of it."""

    case: Case
    inputs: InferredInputs | str


def inputs_for(case: Case, model: Model, seconds: float) -> Fitting:
    """Return inputs for a model that nobody wrote down, and the model: another one where its arguments were changed."""
    found = infer_inputs(model.root, budget_s=seconds)
    other = model.fit(found) if not found.complete else None
    return other or Fitting(case, found)


def made(inputs: InferredInputs | str, model: Model, seed: int) -> Arguments:
    """Return inputs with data: of the same shapes, and others for each seed.

    Raises:
        BaseException: Whatever making them raises.
    """
    torch.manual_seed(seed)
    return arguments_of(inputs, model.scope) if isinstance(inputs, str) else materialize(inputs, seed=seed)


def cases(library: str, every: int = 1) -> list[Case]:
    """Return the models of a library in a fixed order, or only each ``every``-th; a package's classes by its name."""
    corpus.prepare()
    found = LIBRARIES[library]() if library in LIBRARIES else _classes_of(library)
    return sorted(found, key=lambda case: case.name)[::every]


def _made_by(library: str, make: Callable[[str], nn.Module], names: Iterable[str]) -> list[Case]:
    """Return a case for each name that `make` builds a model for."""

    def made(name: str, real: bool) -> Model:
        return Model(make(name) if real else attempt(lambda: make(name)), {"torch": torch})

    return [Case(library, name, partial(made, name)) for name in names]


def _torchvision() -> list[Case]:
    models = importlib.import_module("torchvision.models")

    def make(name: str) -> nn.Module:
        builder = models.get_model_builder(name)
        # Detectors and segmenters would download weights for their backbones.
        options = {"weights_backbone": None} if "weights_backbone" in inspect.signature(builder).parameters else {}
        return builder(weights=None, **options)

    return _made_by("torchvision", make, models.list_models())


def _timm() -> list[Case]:
    library = importlib.import_module("timm")
    return _made_by("timm", lambda name: library.create_model(name, pretrained=False), TIMM)


def _open_clip() -> list[Case]:
    library = importlib.import_module("open_clip")

    def make(name: str) -> nn.Module:
        return library.create_model(name, pretrained=None, pretrained_hf=False)

    return _made_by("open_clip", make, library.list_models())


def _transformers() -> list[Case]:
    auto = importlib.import_module("transformers.models.auto.modeling_auto")
    library = importlib.import_module("transformers")

    def make(name: str) -> nn.Module:
        cls = getattr(library, name)
        configuration = cls.config_class()
        _shallow(configuration)
        return cls(configuration)

    names = {
        name for found in auto.MODEL_MAPPING_NAMES.values() for name in ([found] if isinstance(found, str) else found)
    }
    return _made_by("transformers", make, names)


def _shallow(configuration: Any) -> None:
    """Give a configuration, and those inside it, two layers, unless it says something of each, or of later ones."""
    lists = {key: value for key, value in vars(configuration).items() if isinstance(value, list | tuple)}
    counts = {len(value) for key, value in lists.items() if key != "layer_types"}
    chosen = [each for key, value in lists.items() if re.search(r"ind(ices|exes)$", key) for each in value]
    names = () if any(type(each) is int and each > _LAYERS for each in chosen) else _DEPTHS
    for name in names:
        # Some configurations compute their depth from the widths of the stages.
        with contextlib.suppress(AttributeError, NotImplementedError, TypeError, ValueError):
            depth = getattr(configuration, name, None)
            if type(depth) is int and depth not in counts:
                setattr(configuration, name, _LAYERS)
    for value in list(vars(configuration).values()):
        if type(value).__name__.endswith("Config"):
            _shallow(value)
    kinds = getattr(configuration, "layer_types", None)
    if isinstance(kinds, list):
        with contextlib.suppress(AttributeError, TypeError, ValueError):
            configuration.layer_types = kinds[: getattr(configuration, "num_hidden_layers", len(kinds))]


def _diffusers() -> list[Case]:
    library = importlib.import_module("diffusers")
    names = [name for name in dir(library) if _is_module(_member(library, name), library.ModelMixin)]

    def make(name: str) -> nn.Module:
        cls = getattr(library, name)
        return cls(**_shallow_arguments(inspect.signature(cls).parameters))

    return _made_by("diffusers", make, [name for name in names if name != "ModelMixin"])


def _shallow_arguments(parameters: Mapping[str, inspect.Parameter]) -> dict[str, int]:
    """Return arguments for two layers, or for as many as it takes that what is done at each n-th layer is done once."""
    numbers = {name: each.default for name, each in parameters.items() if type(each.default) is int}
    depths = {name: numbers[name] for name in _DEPTHS if name in numbers}
    steps = [
        number
        for name, number in numbers.items()
        if name not in depths and re.search(r"blocks?$|layers?$|interval", name) and number <= _MOST_LAYERS
    ]
    return dict.fromkeys(depths, max([_LAYERS, *steps]))


def _member(module: Any, name: str) -> Any:
    """Return what a lazy module has under a name, None where its own imports fail."""
    try:
        return getattr(module, name)
    except Exception:  # noqa: BLE001 - an optional dependency of the library is missing.
        return None


def _is_module(value: Any, cls: type = nn.Module) -> bool:
    return isinstance(value, type) and issubclass(value, cls) and issubclass(value, nn.Module)


def _segmentation_models() -> list[Case]:
    library = importlib.import_module("segmentation_models_pytorch")
    architectures = [name for name in dir(library) if _is_module(_member(library, name))]

    def make(name: str) -> nn.Module:
        architecture, _, encoder = name.partition("-")
        return getattr(library, architecture)(encoder_name=encoder, encoder_weights=None)

    encoders = ("resnet34", "mobilenet_v2", "mit_b0")
    return _made_by("segmentation_models_pytorch", make, [f"{a}-{e}" for a in architectures for e in encoders])


def _classes_of(package: str) -> list[Case]:
    """Return the classes of a package that have a forward of their own."""
    found: list[Case] = []
    modules = list(_modules(package))
    calls = _calls_in(package)
    for module in modules:
        path = getattr(module, "__file__", None)
        if not path or not path.endswith(".py"):
            continue
        text = Path(path).read_text(encoding="utf-8-sig")
        index = calls.completed(discover(path, text), text)
        tree = ast.parse(text)
        names = [each.qualname for each in index.targets]
        slice_, written = slice_of(tree, text, path, names), calls_of(index.targets)
        loaded = Loaded(module, tree, slice=slice_, settings=index.settings, calls=written)
        for target in index.targets:
            cls = index.model_class(target.qualname)
            owner = getattr(module, target.qualname.partition(".")[0], None)
            if target.kind == "class" and cls is not None and cls.forward is not None and _is_module(owner):
                name = f"{module.__name__.removeprefix(package + '.')}.{target.qualname}"
                whole = replace(target, wholes=(*_around(target, index, loaded), *target.wholes))
                found.append(Case(package, name, partial(_class, package, name, whole, loaded, "")))
    return found


def _calls_in(package: str) -> Calls:
    """Return what the files of a package, or of the one around it, say about each other's classes."""
    calls = Calls(_folder_of(package))
    calls.look()
    return calls


def _folder_of(package: str) -> str:
    """Return the folder of a package, or of the one around it, which is the project that is open; "" for a module."""
    path = Path(str(sys.modules[package.partition(".")[0]].__file__))
    return str(path.parent) if path.name == "__init__.py" else ""


def _around(target: TraceTarget, index: ModelIndex, loaded: Loaded) -> Iterator[Whole]:
    """Yield the classes of a target's file of which it is a part, then those of which these are: a file shows it so."""
    found, around = {target.qualname}, [target.qualname]
    while around:
        around = [
            each.qualname
            for each in index.targets
            if each.kind == "class"
            and each.qualname not in found
            and not loaded.mentions.get(each.qualname, frozenset()).isdisjoint(around)
        ]
        found.update(around)
        yield from (
            Whole(index.path, each.qualname, each.constructs, each.inputs)
            for each in index.targets
            if each.qualname in around
        )


def _class(package: str, name: str, target: TraceTarget, loaded: Loaded, hint: str, real: bool) -> Model:
    """Return the model of a class, with the arguments of `hint` where nothing is said of them."""
    built = build(target, loaded, hint)
    if not isinstance(built, Built):
        raise built.error or ValueError(f"no arguments were inferred; tried {built.tried}")
    said = (*filter(None, [built.inputs]), *(each.expression for each in target.inputs))
    if not real or built.construct is None:

        def other(found: InferredInputs) -> Fitting | None:
            part = in_wholes(target, loaded)
            if part is not None and part.construct is not None and part.inputs:
                way = part.construct.expression if built.is_made_up else ""
                return Fitting(built_as(way), part.inputs)
            stopped = found.stopped.error if found.stopped is not None else None
            shown = shown_by_heir(target, loaded, built.root, [stopped]) or made_ready(target, loaded, built, [stopped])
            if shown is not None and shown.construct is not None:
                case = built_as(shown.construct.expression, replace(target, constructs=()))
                return inputs_for(case, case.build(), _SECONDS_OF_OTHERS)
            fitted = fit(target, loaded, built, found)
            if fitted is None or fitted.built.construct is None:
                return None
            return Fitting(built_as(fitted.built.construct.expression), fitted.inputs)

        def built_as(way: str, target: TraceTarget = target) -> Case:
            return Case(package, name, partial(_class, package, name, target, loaded, way))

        return Model(built.root, scope_of(loaded, target.qualname), said, other)
    ways = (Construct(built.construct.expression, "call"),)
    built = build(TraceTarget(target.qualname, "class", target.name, ways, wholes=target.wholes), loaded, real=True)
    if not isinstance(built, Built):
        raise built.error or ValueError("built without weights and not with them")
    return Model(built.root, scope_of(loaded, target.qualname), said)


def _modules(package: str) -> Iterator[ModuleType]:
    """Import all modules of a package, as far as they can be imported beside stand-ins for packages that are absent."""
    if importlib.util.find_spec(package.partition(".")[0]) is None:
        raise ModuleNotFoundError(f"{package} is not installed: it cannot be measured")
    modules: list[ModuleType] = []
    waiting = [package]
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        while waiting:
            name = waiting.pop(0)
            try:
                importing(partial(importlib.import_module, name))
            except (Exception, SystemExit):  # A script, or something that needs what nobody stands in for.
                if name == package:
                    raise
                continue
            modules.append(sys.modules[name])
            waiting += [each for each in _inside(modules[-1]) if not each.endswith("__main__")]
    yield from modules


def _inside(package: ModuleType) -> Iterator[str]:
    """Yield the names of the modules in a package, those of folders without an `__init__.py` among them."""
    folders = list(getattr(package, "__path__", ()))
    known = [each.name for each in pkgutil.iter_modules(folders)]
    bare = {file.parent.name for folder in folders for file in Path(folder).glob("*/*.py") if file.stem.isidentifier()}
    yield from (
        f"{package.__name__}.{each}" for each in (*known, *sorted(bare.difference(known))) if each.isidentifier()
    )


LIBRARIES: Final[dict[str, Callable[[], list[Case]]]] = {
    "torchvision": _torchvision,
    "timm": _timm,
    "transformers": _transformers,
    "diffusers": _diffusers,
    "vit_pytorch": partial(_classes_of, "vit_pytorch"),
    "kornia": partial(_classes_of, "kornia"),
    "monai": partial(_classes_of, "monai.networks"),
    "open_clip": _open_clip,
    "segmentation_models_pytorch": _segmentation_models,
}
"""What is measured, by the name of the library."""
