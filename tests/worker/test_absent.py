"""Packages that are not installed, and what can be built all the same."""

import ast
import importlib
import importlib.metadata
import math
import sys
import typing
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import fxengine
from fxworker.absent import is_stand_in
from fxworker.arguments import Search
from fxworker.building import attempt
from fxworker.importing import give_starred, importing, is_still_absent
from tests.worker.harness import of

pytestmark = pytest.mark.usefixtures("imports_undone")


def imported(tmp_path, text, name="project_file", package=""):
    (tmp_path / f"{name}.py").write_text(text)
    missing = importing(lambda: importlib.import_module(package + name))
    return sys.modules[package + name], [each.name for each in missing]


def test_what_does_not_need_the_package_is_there(tmp_path):
    module, missing = imported(
        tmp_path,
        "import no_such_thing\n"
        "from no_such_thing.deep.er import name, other as another\n"
        "LIMIT = no_such_thing.LIMIT\n"
        "no_such_thing.set_threads(0)\nno_such_thing.options['a'] = 1\n"
        "@no_such_thing.jit\ndef f(x): return x + 1\n"
        "@name(parallel=True)\nclass C: pass\n"
        "class D(no_such_thing.Base, metaclass=type): pass\n"
        "def g(x: name | None = None, y: 'list[another.Kind]' = another.default): return isinstance(x, name)\n",
    )
    assert missing == ["no_such_thing"]
    assert module.f(1) == 2
    assert module.C().__class__ is module.C
    assert module.g(3) is False
    assert is_stand_in(module.another)


CHECKER = """
def checked(function):
    for name, hint in function.__annotations__.items():
        if not isinstance(hint, type):
            raise TypeError(f"{function.__name__}() parameter {name!r} type hint {hint!r} is no type")
    function.is_checked = True
    return function
"""


def test_what_checks_types_gives_back_what_is_annotated_with_it(tmp_path):
    (tmp_path / "checker.py").write_text(CHECKER)
    module, missing = imported(
        tmp_path,
        "from checker import checked\nfrom no_such_thing import Kind\n"
        "@checked\ndef f(x: Kind): return x + 1\n"
        "@checked\ndef g(x: int): return x + 2\n",
    )
    assert missing == ["no_such_thing"]
    assert (module.f(1), module.g(1)) == (2, 3)
    assert (hasattr(module.f, "is_checked"), module.g.is_checked) == (False, True)


def test_what_checks_types_still_refuses_what_is_wrong_by_itself(tmp_path):
    (tmp_path / "checker.py").write_text(CHECKER)
    with pytest.raises(TypeError, match="is no type"):
        imported(tmp_path, "import no_such_thing\nfrom checker import checked\n@checked\ndef f(x: 3): return x\n")


def test_a_class_that_is_handed_to_it_is_not_what_it_decorates(tmp_path):
    module, _ = imported(
        tmp_path,
        "from no_such_thing import register\n"
        "class Kind:\n    def __init__(self, a, b): pass\n"
        "@register(Kind)\ndef f(x): return x + 1\n"
        "@register(object)\ndef g(x): return x + 2\n"
        "@register\nclass Other: pass\n",
    )
    assert (module.f(1), module.g(1), module.Other.__name__) == (2, 3, "Other")


def test_a_module_that_the_project_lacks_is_stood_in_for(tmp_path):
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "__init__.py").write_text("")
    module, missing = imported(
        tmp_path / "whole",
        "from torch import nn\nfrom .lost import Block\nfrom whole.gone.deeper import scale\n"
        "class Net(Block):\n"
        "    def __init__(self):\n        super().__init__()\n        self.inner, self.fc = Block(4), nn.Linear(4, 2)\n"
        "    def forward(self, x): return self.fc(self.inner(scale(x)))\n",
        name="net",
        package="whole.",
    )
    assert missing == ["whole.lost", "whole.gone"]
    assert isinstance(attempt(module.Net).fc, nn.Linear)


def test_so_is_one_that_a_published_package_lacks_where_it_is_the_project(tmp_path, monkeypatch):
    (tmp_path / "published").mkdir()
    (tmp_path / "published" / "__init__.py").write_text("")
    (tmp_path / "published-1.0.dist-info").mkdir()
    (tmp_path / "published-1.0.dist-info" / "RECORD").write_text("published/__init__.py,,\n")
    monkeypatch.chdir(tmp_path)
    _, missing = imported(tmp_path, "import published.lost\n", name="from_inside")
    assert missing == ["published.lost"]


def test_what_a_package_of_the_project_has_not_is_no_module_of_it(tmp_path):
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "__init__.py").write_text("")
    with pytest.raises(ImportError, match="cannot import name 'Block'"):
        imported(tmp_path, "from bare import Block\n", name="asking")


def test_a_module_may_have_something_absent_mixed_in(tmp_path):
    module, _ = imported(
        tmp_path,
        "import torch\nfrom no_such_thing import FromParams\n"
        "class Net(torch.nn.Module, FromParams):\n"
        "    def __init__(self):\n        super().__init__()\n        self.fc = torch.nn.Linear(4, 2)\n"
        "    def forward(self, x): return self.fc(x)\n",
    )
    assert module.Net()(torch.ones(1, 4)).shape == (1, 2)


def test_it_is_unpacked_into_as_many_as_are_wanted(tmp_path):
    module, _ = imported(tmp_path, "import no_such_thing\na, b = no_such_thing.make()\nc = list(no_such_thing.all)\n")
    assert is_stand_in(module.a)
    assert is_stand_in(module.b)
    assert module.c == []


def test_so_it_is_where_the_rest_is_taken_too(tmp_path):
    module, _ = imported(
        tmp_path,
        "import no_such_thing\nfrom torch import nn\na, b, *_ = no_such_thing.make()\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, width):\n"
        "        super().__init__()\n"
        "        self.first, *self.rest = no_such_thing.streams(width, dim=width)\n",
    )
    assert is_stand_in(module.b)
    assert isinstance(module.Net(4).first, nn.Module)


def test_a_scripted_function_that_calls_it_is_left_as_it_is(tmp_path):
    text = (
        "import torch\nimport no_such_thing\n"
        "@torch.jit.script\ndef f(x):\n    return no_such_thing.scatter(x, x)\n"
        "@torch.jit.script\ndef g(x):\n    return x * 2\n"
    )
    module, missing = imported(tmp_path, text)
    assert missing == ["no_such_thing"]
    assert module.f.__code__.co_names == ("no_such_thing", "scatter")
    assert isinstance(module.g, torch.jit.ScriptFunction)


def test_a_scripted_function_is_compiled_where_nothing_is_missing(tmp_path):
    (tmp_path / "other.py").write_text("import torch\n@torch.jit.script\ndef f(x):\n    return unknown(x)\n")
    with pytest.raises(RuntimeError, match="undefined value unknown"):
        importlib.import_module("other")


def test_using_it_later_says_what_is_missing(tmp_path):
    module, _ = imported(tmp_path, "import no_such_thing\nclass D(no_such_thing.Base): pass\n")
    for use in (lambda: module.no_such_thing.imread("x"), module.D):
        with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_thing'"):
            use()


@pytest.mark.parametrize(
    "guard",
    [
        "try:\n    import no_such_thing\n    HAS = True\nexcept ImportError:\n    HAS = False\n",
        "try:\n    from no_such_thing import x\n    HAS = 1\nexcept (KeyError, ModuleNotFoundError):\n    HAS = 0\n",
        "import importlib.util\nHAS = importlib.util.find_spec('no_such_thing') is not None\n",
        "import contextlib\nHAS = False\nwith contextlib.suppress(ImportError):\n    import no_such_thing as HAS\n",
        "try:\n    import inner\n    HAS = True\nexcept Exception:\n    HAS = False\n",
    ],
)
def test_code_that_is_prepared_for_it_sees_that_it_is_not_there(tmp_path, guard):
    (tmp_path / "inner.py").write_text("import no_such_thing\n")
    module, missing = imported(tmp_path, guard)
    assert not module.HAS
    assert not missing


GUARDED = """
from torch import nn
try:
    from no_such_thing import Cell
    HAS = True
except ImportError:
    HAS = False

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        if not HAS:
            raise ImportError("install it")
        self.cell, self.fc = Cell(4), nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x)
"""


def test_a_file_that_only_raises_without_it_is_not_prepared_for_it(worker, model):
    assert of(worker.trace(model(GUARDED)), "Net").status == "complete"
    # Where it does something else as well, it is.
    text = GUARDED.replace("no_such_thing", "no_such_other") + "WAY = 'fast' if HAS else 'plain'\n"
    (problem,) = of(worker.trace(model(text)), "Net").problems
    assert problem.message == "`Net()` cannot be built: ImportError: install it"


KEPT = """
from torch import nn
try:
    from no_such_thing import Cell, Mixin
    ERROR = None
    HAS = True
except ImportError as error:
    Mixin = object
    Cell = None
    ERROR = error
    HAS = False

class Net(nn.Module, Mixin):
    def __init__(self):
        if ERROR is not None:
            raise ImportError("install it") from ERROR
        if not HAS:
            raise ImportError("install it")
        super().__init__()
        self.cell, self.fc = Cell(4), nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x)
"""


def test_one_that_keeps_the_error_and_another_base_is_not_prepared_for_it(worker, model):
    assert of(worker.trace(model(KEPT)), "Net").status == "complete"


CALLED = """
from torch import nn
try:
    from no_such_thing import Cell
except ImportError:
    Cell = None

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = Cell(4)
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x)
"""


def test_a_file_that_calls_it_in_any_case_is_not_prepared_for_it(worker, model):
    assert of(worker.trace(model(CALLED)), "Net").status == "complete"
    text = CALLED.replace("= Cell(4)", "= None if Cell is None else Cell(4)").replace("no_such_thing", "no_such_other")
    assert not worker.trace(model(text)).problems


TOLD = """
import logging
logger = logging.getLogger(__name__)
try:
    from no_such_thing import vit, Cell
except:
    logger.warning("install it")

KINDS = {"vit": vit}
"""


def test_a_file_that_uses_it_and_only_tells_that_it_is_not_there_is_not_prepared_for_it(tmp_path):
    module, missing = imported(tmp_path, TOLD)
    assert missing == ["no_such_thing"]
    assert is_stand_in(module.KINDS["vit"])


@pytest.mark.parametrize(
    "more",
    [
        "Cell = vit = None\n",
        "try:\n    Cell()\nexcept NameError:\n    Cell = None\n",
        "def vit(): pass\n",
    ],
)
def test_one_that_has_something_else_then_is_prepared(tmp_path, more):
    text = TOLD.partition("KINDS")[0].replace("no_such_thing", "no_such_other")
    _, missing = imported(tmp_path, f"{text}{more}")
    assert not missing
    _, missing = imported(tmp_path, text, name="without_use")
    assert not missing


def test_what_is_read_from_what_else_was_imported_is_no_preparation(worker, model):
    text = CALLED.replace("no_such_thing", "no_such_package").replace("    Cell = None", "    Cell = rest = None")
    text = text.replace("    from no_such", "    import no_such_package as rest\n    from no_such", 1)
    text = (
        text.replace("Cell = rest = None", "Cell = None\n    rest = None") + "def use(x):\n    return rest.twice(x)\n"
    )
    assert of(worker.trace(model(text)), "Net").status == "complete"


def test_what_a_file_imports_is_prepared_for_it_in_any_case(tmp_path):
    module, missing = imported(tmp_path, GUARDED)
    assert not missing
    assert not module.HAS


@pytest.mark.parametrize(
    ("use", "severity"),
    [("def log(x): no_such_thing.log(x)", "information"), ("KINDS = [no_such_thing.log]", "error")],
)
def test_what_an_imported_file_does_without_is_no_error(worker, tmp_path, use, severity):
    (tmp_path / ".git").mkdir()
    guarded = "try:\n    import no_such_thing\nexcept ImportError:\n    pass\n\n"
    (tmp_path / "helping.py").write_text(f"{guarded}\ndef twice(x):\n    return 2 * x\n\n{use}\n")
    text = "from torch import nn\nfrom helping import twice\n\nclass Net(nn.Module):\n    def forward(self, x):\n"
    (tmp_path / "net.py").write_text(f"{text}        return twice(x)\n")
    report = worker.trace(tmp_path / "net.py")
    assert [(each.code, each.severity) for each in report.problems] == [("FX101", severity)]
    assert of(report, "Net").status == "complete"
    (tmp_path / "other.py").write_text(f"{text}        return x + 1\n")
    report = worker.trace(tmp_path / "other.py")
    assert [each.severity for each in report.problems] == (["warning"] if severity == "error" else [])


@pytest.mark.parametrize("use", ["", "LAYER = nn.Linear if Cell is None else Cell\n"])
def test_nothing_in_the_place_of_what_only_raises_without_it_is_no_preparation(worker, model, use):
    text = GUARDED.replace("    HAS = True\n", "").replace("    HAS = False", "    print('none')\n    Cell = None")
    (target,) = worker.trace(model(text.replace("not HAS", "Cell is None") + use)).targets
    assert (target.status == "complete") is (not use)


def test_a_file_with_a_class_of_it_is_not_prepared_for_it(tmp_path):
    text = "try:\n    from no_such_thing import Base\nexcept ImportError:\n    Base = None\n"
    module, missing = imported(tmp_path, text + "class Net(Base): pass\n")
    assert missing == ["no_such_thing"]
    assert is_stand_in(module.Net)
    module, _ = imported(tmp_path, text.replace("thing", "other") + "if Base:\n    class Net(Base): pass\n", "prepared")
    assert module.Base is None


def test_code_that_is_prepared_for_what_it_does_to_fail_sees_it_fail(tmp_path):
    module, missing = imported(
        tmp_path,
        "import no_such_thing\n"
        "def device():\n"
        "    try:\n        return no_such_thing.driver().kind\n    except Exception:\n        return 'cpu'\n"
        "def checked():\n    try:\n        return no_such_thing.driver()\n    finally:\n        pass\n"
        "DEVICE, CHECKED = device(), checked()\n",
    )
    assert module.DEVICE == "cpu"
    assert is_stand_in(module.CHECKED)
    assert missing == ["no_such_thing"]


def test_its_metaclasses_are_some(tmp_path):
    module, _ = imported(
        tmp_path,
        "from abc import ABCMeta\n"
        "from torch import nn\n"
        "from no_such_thing import DocumentingMeta, Shared\n"
        "class OwnMeta(DocumentingMeta):\n"
        "    def __new__(mcs, name, bases, body):\n"
        "        made = super().__new__(mcs, name, bases, body)\n"
        "        made.documented = True\n"
        "        return made\n"
        "class BothMeta(DocumentingMeta, ABCMeta): pass\n"
        "class Mixin(Shared, metaclass=OwnMeta):\n"
        "    def __init__(self, width):\n"
        "        super().__init__()\n"
        "        self.width = width\n"
        "class Net(Mixin, nn.Module):\n"
        "    def __init__(self, width):\n"
        "        super().__init__(width)\n"
        "        self.fc = nn.Linear(self.width, 4)\n"
        "    def forward(self, x): return self.fc(x)\n"
        "class Plain(nn.Module, metaclass=DocumentingMeta):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.fc = nn.Linear(8, 4)\n"
        "class Abstract(metaclass=BothMeta): pass\n",
    )
    assert module.Net(8).fc.in_features == 8
    assert module.Net.documented
    assert module.Plain().fc.in_features == 8
    assert type(module.Abstract) is module.BothMeta


def test_its_exceptions_can_be_caught_raised_and_inherited_from(tmp_path):
    module, missing = imported(
        tmp_path,
        "import warnings\nimport no_such_thing\n"
        "from no_such_thing import NotFoundError, SlowWarning\n"
        "warnings.filterwarnings('ignore', category=SlowWarning)\n"
        "class Own(no_such_thing.errors.StrangeError): pass\n"
        "def read(path):\n"
        "    try:\n        return open(path)\n"
        "    except (NotFoundError, no_such_thing.errors.StrangeError):\n        return None\n"
        "    except FileNotFoundError:\n        return path\n"
        "def tell():\n"
        "    try:\n        raise no_such_thing.NotFoundError('gone')\n"
        "    except NotFoundError as error:\n        return str(error)\n",
    )
    assert missing == ["no_such_thing"]
    assert module.read("/no/such/file") == "/no/such/file"
    assert module.tell() == "gone"
    assert issubclass(module.Own, Exception)


def test_what_is_called_an_error_and_not_raised_is_what_a_model_measures(tmp_path):
    module, _ = imported(
        tmp_path,
        "import warnings\nfrom torch import nn\n"
        "from no_such_thing import MeanSquaredError, NotFoundError, SlowWarning\n"
        "MEASURED = MeanSquaredError(squared=False)\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, width):\n        super().__init__()\n"
        "        if width < 0:\n            raise NotFoundError('no width') from None\n"
        "        warnings.warn('slow', SlowWarning)\n"
        "        self.error = MeanSquaredError(squared=False)\n",
    )
    with pytest.warns(Warning, match="slow"):
        net = module.Net(8)
    assert isinstance(net.error, nn.Module)
    assert is_stand_in(module.MEASURED)
    with pytest.raises(module.NotFoundError, match="no width"):
        module.Net(-1)


def test_what_it_decorates_has_what_the_decorator_gives_it(tmp_path):
    module, _ = imported(
        tmp_path,
        "import no_such_thing\n"
        "def tuned(f): return f.arg_names, f.params and f\n"
        "@tuned\n@no_such_thing.jit\ndef f(x): return x + 1\n"
        "def plain(x): return x\n",
    )
    assert is_stand_in(module.f[0])
    assert not hasattr(module.plain, "arg_names")
    with pytest.raises(AttributeError, match="arg_names"):
        imported(tmp_path, "import no_such_thing\ndef plain(x): return x\nplain.arg_names\n", "other")


def test_functions_that_tell_classes_apart_leave_out_those_of_it(tmp_path):
    module, _ = imported(
        tmp_path,
        "import no_such_thing\nfrom functools import singledispatch, singledispatchmethod\n"
        "@singledispatch\ndef encode(x): return 'any'\n"
        "@encode.register(no_such_thing.Frame)\ndef _(x): return 'frame'\n"
        "@encode.register\ndef series(x: no_such_thing.Series): return 'series'\n"
        "encode.register(no_such_thing.Index, series)\n"
        "@encode.register\ndef _(x: int): return 'int'\n"
        "class Coder:\n"
        "    @singledispatchmethod\n    def code(self, x): return 'any'\n"
        "    @code.register(no_such_thing.Frame)\n    def _(self, x): return 'frame'\n"
        "    @code.register(str)\n    def _(self, x): return 'text'\n",
    )
    assert [module.encode(1.0), module.encode(1), module.series(1)] == ["any", "int", "series"]
    assert [module.Coder().code(1), module.Coder().code("")] == ["any", "text"]


def test_modules_take_what_was_made_of_it_before(tmp_path):
    module, _ = imported(
        tmp_path,
        "import no_such_thing\nfrom torch import nn\n"
        "METRICS = (no_such_thing.Accuracy(classes=3), no_such_thing.Score())\n"
        "ready = nn.Sequential(nn.Linear(4, 4), no_such_thing.Gate(4))\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, metrics=METRICS):\n"
        "        super().__init__()\n        self.metrics = nn.ModuleList(metrics)\n",
    )
    assert len(module.ready) == len(attempt(module.Net).metrics) == 2
    with pytest.raises(TypeError, match="is not a Module subclass"):
        torch.nn.ModuleList([3])


def test_an_abstract_class_leaves_out_those_of_it(tmp_path):
    module, _ = imported(
        tmp_path,
        "import no_such_thing\nfrom abc import ABC\n"
        "class Encoder(ABC): ...\n"
        "Encoder.register(no_such_thing.Pieces)\nEncoder.register(str)\n",
    )
    assert issubclass(str, module.Encoder)
    with pytest.raises(TypeError, match="Can only register classes"):
        module.Encoder.register(1)


REGISTRY = """
import no_such_thing
TABLE, NAMES = {}, set()

def register(cls):
    if cls.__name__ in TABLE:
        raise KeyError(f"{cls.__name__} is already registered")
    assert cls.__name__ not in NAMES, "a class has this name"
    TABLE[cls.__name__] = cls
    NAMES.add(cls.__name__)
    return cls
"""


def test_what_an_import_that_is_made_again_has_registered_is_registered_anew(tmp_path):
    (tmp_path / "registry.py").write_text(REGISTRY)
    (tmp_path / "parts.py").write_text(
        "import no_such_thing\nfrom registry import register\n"
        "@register\nclass One: pass\n"
        "@no_such_thing.jit\ndef f(x): return x\n"
        "f.arg_names\n"
    )
    module, _ = imported(tmp_path, "import parts, registry\n")
    assert {"One": module.parts.One} == module.registry.TABLE


def test_a_registry_may_keep_its_tables_in_a_table(tmp_path):
    (tmp_path / "registry.py").write_text(
        "class Registry:\n"
        "    tables = {'models': {}}\n"
        "    @classmethod\n"
        "    def register(cls, name):\n"
        "        def wrap(made):\n"
        "            if name in cls.tables['models']:\n"
        "                raise KeyError(f'{name} is already registered')\n"
        "            cls.tables['models'][name] = made\n"
        "            return made\n"
        "        return wrap\n"
    )
    (tmp_path / "parts.py").write_text(
        "import no_such_thing\nfrom registry import Registry\n"
        "@Registry.register('one')\nclass One: pass\n"
        "@no_such_thing.jit\ndef f(x): return x\n"
        "f.arg_names\n"
    )
    module, _ = imported(tmp_path, "import parts, registry\n")
    assert {"one": module.parts.One} == module.registry.Registry.tables["models"]


def test_what_two_definitions_of_a_module_are_called_is_its_mistake(tmp_path):
    (tmp_path / "registry.py").write_text(REGISTRY)
    (tmp_path / "parts.py").write_text(
        "from registry import register\n@register\nclass One: pass\n"
        "class Other: pass\nOther.__name__ = 'One'\nregister(Other)\n"
    )
    with pytest.raises(KeyError, match="One is already registered"):
        imported(tmp_path, "import parts\n")


def test_its_version_is_new_enough(tmp_path):
    text = "import importlib.metadata as m\nimport no_such_thing\nv = m.version('no-such-thing')\n"
    module, missing = imported(tmp_path, text)
    assert int(module.v.partition(".")[0]) > 100
    assert missing == ["no_such_thing"]
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("another-one")


def test_another_try_around_it_prepares_for_nothing(tmp_path):
    _, missing = imported(tmp_path, "try:\n    import no_such_thing\nfinally:\n    pass\n")
    assert missing == ["no_such_thing"]


def test_a_module_that_an_installed_package_lacks_is_a_mistake(tmp_path):
    with pytest.raises(ModuleNotFoundError, match="no_such_part"):
        imported(tmp_path, "import json.no_such_part\n")


def test_a_module_that_another_version_of_a_package_had_is_stood_in_for(tmp_path):
    installed(tmp_path, "signals", "hann = 1\n")
    (tmp_path / "older.py").write_text("from signals.windows import hamming\nfrom torch._six import inf\n")
    module, missing = imported(tmp_path, "from older import hamming, inf\nimport signals.windows.flat\n")
    assert missing == ["signals.windows", "torch._six"]
    assert is_stand_in(module.hamming)
    assert is_still_absent()
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'torch\.fashion'"):
        imported(tmp_path, "import torch.fashion\n", name="mistaken")
    _, missing = imported(tmp_path, "try:\n    import signals.new\nexcept ImportError: pass\n", name="prepared")
    assert missing == []


def test_what_is_imported_of_a_package_that_had_it_in_another_version_is_stood_in_for(tmp_path):
    installed(tmp_path, "signals", "hann = 1\nfrom signals import windows\n")
    (tmp_path / "signals" / "windows.py").write_text("import signals\n")
    installed(tmp_path, "filters", "from signals import hamming\nimport numpy as np\nWIDTH = 3\n")
    text = "from filters import WIDTH, hamming\nfrom signals.windows import flat\nfrom signals import hann\n"
    module, missing = imported(tmp_path, f"{text}class Net(flat):\n    width = WIDTH + hann\n")
    assert (module.Net.width, missing) == (4, ["signals.hamming", "signals.windows.flat"])
    (error,) = importing(lambda: exec("from signals import hamming, blackman", {"__name__": "project_file"}))
    assert str(error).startswith("cannot import name 'blackman' from 'signals'")
    with pytest.raises(ImportError, match="cannot import name 'Linaer'"):
        imported(tmp_path, "from torch.nn import Linaer\n", name="mistaken")


def test_a_package_that_is_imported_again_is_the_one_that_its_modules_know(tmp_path):
    installed(tmp_path, "signals", "hann = 1\n")
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "__init__.py").write_text("from net.model import *\nfrom signals import hamming\nWIDTH = 3\n")
    (tmp_path / "net" / "layers.py").write_text("class Layer: ...\n")
    (tmp_path / "net" / "model.py").write_text(
        "import net.layers\nclass Net:\n    def __init__(self):\n"
        "        self.layer, self.width = net.layers.Layer(), net.WIDTH\n"
    )
    module, missing = imported(tmp_path, "from net import Net\n")
    assert (module.Net().width, missing) == (3, ["signals.hamming"])


def test_what_a_package_says_to_have_by_another_name_is_that_to_what_is_imported(tmp_path):
    (tmp_path / "numbered.py").write_text(
        "float_64 = float\n"
        "def __getattr__(name):\n"
        "    if name == 'old_float':\n"
        "        raise AttributeError('`nb.old_float` was removed in the 2.0 release. Use `nb.float_64` instead.')\n"
        "    if name == 'old_int':\n"
        "        raise AttributeError(\"module 'numbered' has no attribute 'old_int'.\\n\"\n"
        "            '`nb.old_int` was a deprecated alias for the builtin `int`. Use `int` by itself.')\n"
        "    raise AttributeError(f\"module 'numbered' has no attribute {name!r}\")\n"
    )
    (tmp_path / "kinds.py").write_text("import numbered as nb\nKINDS = [nb.old_float, nb.old_int]\n")
    with pytest.raises(AttributeError, match="old_float"):
        importing(lambda: exec("import numbered as nb\nnb.old_float", {"__name__": "project_file"}))
    found = {"__name__": "project_file"}
    missing = [each.name for each in importing(lambda: exec("from kinds import KINDS", found))]
    assert (found["KINDS"], missing) == ([float, int], ["numbered.old_float", "numbered.old_int"])
    (tmp_path / "odd.py").write_text("import numbered as nb\nnb.very_odd\n")
    with pytest.raises(AttributeError, match="very_odd"):
        imported(tmp_path, "import odd\n", name="of_odd")


def test_what_numpy_has_no_longer_is_what_took_its_place_to_what_is_imported(tmp_path, monkeypatch):
    for name in ("bool8", "product"):
        monkeypatch.setattr(np, name, None, raising=False)  # So that they are gone again afterwards.
        delattr(np, name)
    (tmp_path / "kinds.py").write_text("import numpy as np\nKINDS = {np.bool8: np.product}\n")
    module, missing = imported(tmp_path, "from kinds import KINDS\n")
    assert (module.KINDS, missing) == ({np.bool_: np.prod}, ["numpy.bool8", "numpy.product"])
    for name in ("prodct", "bool8"):
        monkeypatch.delattr(np, "bool8", raising=False)
        with pytest.raises(AttributeError, match=name):
            importing(lambda name=name: exec(f"import numpy as np\nnp.{name}", {"__name__": "project_file"}))


@pytest.mark.parametrize("text", ["from torn.inner import lost", "import torn.lost"])
def test_what_a_package_has_not_that_it_asks_itself_for_makes_it_a_broken_one(tmp_path, text):
    installed(tmp_path, "torn", f"{text}\n")
    (tmp_path / "torn" / "inner.py").write_text("")
    (error,) = importing(lambda: importlib.import_module("torn"))
    assert str(error).startswith("'torn' is installed and cannot be imported: ")
    assert error.name == "torn"


def test_the_way_to_the_import_is_known(tmp_path):
    (tmp_path / "inner.py").write_text("\n\nimport no_such_thing\n")
    (tmp_path / "outer.py").write_text("import inner\n")
    (error,) = importing(lambda: importlib.import_module("outer"))
    lines = []
    way = error.__traceback__
    while way is not None:
        lines.append((way.tb_frame.f_code.co_filename.rpartition("/")[2], way.tb_lineno))
        way = way.tb_next
    assert lines[-2:] == [("outer.py", 1), ("inner.py", 3)]


def test_a_package_that_is_installed_meanwhile_is_noticed(tmp_path):
    imported(tmp_path, "import no_such_thing\n")
    assert is_still_absent()
    (tmp_path / "no_such_thing.py").write_text("")
    importlib.invalidate_caches()
    assert not is_still_absent()


def test_a_compiled_part_of_a_package_may_be_absent(tmp_path):
    (tmp_path / "ops").mkdir()
    (tmp_path / "ops" / "__init__.py").write_text("from . import _C\nfrom ops.sampling_cuda import forward\n")
    module, missing = imported(tmp_path, "import ops\nclass Sampling:\n    pass\n")
    assert missing == ["ops._C", "ops.sampling_cuda"]
    assert module.Sampling()
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'ops\._C'"):
        module.ops._C.sample(1)
    assert is_still_absent()
    (tmp_path / "ops" / "_C.py").write_text("")
    importlib.invalidate_caches()
    assert not is_still_absent()


def test_it_can_be_computed_with_while_something_is_imported(tmp_path):
    module, _ = imported(
        tmp_path,
        "import no_such_thing\nimport os\n"
        "flag = no_such_thing.A + 'b' | 1.0 * no_such_thing.B\n"
        "scale = 2.0\nscale *= no_such_thing.C\n"
        "rows = no_such_thing.table[(no_such_thing.table['kind'] == 'b').values].values\n"
        "A = no_such_thing.A\nsame = bool(A == 'a'), A == A, [1, A, 2].index(A)\n"
        "new = no_such_thing.parse('2') >= no_such_thing.parse('1')\n"
        "old = no_such_thing.parse('2') < (1, 2)\n"
        "place = os.path.join(no_such_thing.data, 'x')\nsize = int(no_such_thing.size)\n"
        "import numpy as np\nrate = np.sqrt(no_such_thing.mass / no_such_thing.energy) * no_such_thing.length\n",
    )
    assert is_stand_in(module.rate) or float(module.rate) == 1.0
    assert is_stand_in(module.flag)
    assert is_stand_in(module.scale)
    assert is_stand_in(module.rows)
    assert module.same == (False, True, 1)
    assert (module.new, module.old, module.size) == (True, False, 0)
    with pytest.raises(ModuleNotFoundError, match="no_such_thing"):
        module.no_such_thing.A + 1
    with pytest.raises(ModuleNotFoundError, match="no_such_thing"):
        assert module.no_such_thing.A < 1


def test_a_part_of_a_package_that_several_fill_may_be_absent(tmp_path, monkeypatch):
    (tmp_path / "installed" / "shared" / "one").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path / "installed"))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    _, missing = imported(tmp_path, "import shared.one\nfrom shared.two.deeper import thing\n")
    assert missing == ["shared.two"]


def test_so_may_one_of_the_projects_own_packages(tmp_path, monkeypatch):
    (tmp_path / "own" / "one").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    _, missing = imported(tmp_path, "import own.one\nimport own.two\n")
    assert missing == ["own.two"]


def test_what_is_called_for_nothing_that_is_kept_does_nothing(tmp_path):
    module, _ = imported(
        tmp_path,
        "import torch\nfrom no_such_thing import trunc\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        trunc(self, std=0.02)\n        trunc(*[self])\n        self.made = True\n"
        "    def used(self): return trunc(self)\n"
        "    def kept(self): x = trunc(self)\n"
        "    def forward(self, x):\n        trunc(x, x)\n        return x\n",
    )
    net = module.Net()
    assert net.made
    for method in (net.used, net.kept, lambda: net(1)):
        with pytest.raises(ModuleNotFoundError, match="no_such_thing"):
            method()


def test_a_base_that_is_called_a_module_is_torchs(tmp_path):
    module, _ = imported(
        tmp_path,
        "import torch\nimport no_such_thing as nt\n"
        "class Net(nt.LightningModule):\n"
        "    def __init__(self, width):\n        super().__init__(width=width)\n"
        "        self.save_hyperparameters()\n        self.fc = torch.nn.Linear(width, 2)\n"
        "    def forward(self, x):\n        self.log('x', 1)\n        return self.fc(x)\n"
        "    def rate(self): return self.hparams.rate\n"
        "class Data(nt.LightningDataModule): pass\n",
    )
    net = module.Net(4)
    assert net(torch.ones(3, 4)).shape == (3, 2)
    assert not hasattr(net, "trainer")
    assert not issubclass(module.Data, torch.nn.Module)


def test_a_default_that_is_not_there_is_to_be_given(tmp_path):
    module, _ = imported(
        tmp_path,
        "from dataclasses import dataclass\nimport torch\nfrom no_such_thing import MISSING\n"
        "@dataclass\nclass HeadConfig:\n    num_classes: int = MISSING\n    bias: bool = True\n"
        "class Head(torch.nn.Module):\n"
        "    def __init__(self, cfg: HeadConfig):\n"
        "        super().__init__()\n        self.fc = torch.nn.Linear(4, cfg.num_classes + 1)\n",
    )
    expression, _ = Search("Head", module.Head, vars(module), partial(attempt, real=False)).run()
    assert expression == "Head(cfg=HeadConfig(num_classes=10))"


def test_what_a_constructor_makes_of_it_is_a_part_without_a_forward(tmp_path):
    module, _ = imported(
        tmp_path,
        "import copy\nimport torch\nfrom no_such_thing import Conv, build_norm, get_world_size, make_encoder\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self, width):\n        super().__init__()\n"
        "        self.conv = copy.deepcopy(Conv(3, width, 3))\n"
        "        self.norm_name, norm = build_norm(dict(type='BN'), width)\n"
        "        self.add_module(self.norm_name, norm)\n"
        "        self.encoder = make_encoder()\n"
        "        self.fc = torch.nn.Linear(self.encoder.num_features, width // get_world_size())\n"
        "    def forward(self, x): return self.fc(self.norm(self.conv(x)))\n",
    )
    net = module.Net(8)
    assert [(name, type(each).__name__) for name, each in net.named_children()] == [
        ("conv", "Conv"), ("norm", "build_norm"), ("encoder", "make_encoder"), ("fc", "Linear"),
    ]  # fmt: skip
    assert net.fc.out_features == 8
    graph = fxengine.Tracer().trace(net)
    assert [str(each.target) for each in graph.nodes if each.op == "call_module"] == ["conv", "norm", "fc"]
    with pytest.raises(ModuleNotFoundError, match="no_such_thing"):
        net(torch.ones(1, 3, 8, 8))


def test_a_number_of_a_part_may_be_a_part_as_well(tmp_path):
    module, _ = imported(
        tmp_path,
        "import no_such_thing\n"
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.body = no_such_thing.make('large')\n"
        "        self.fc = nn.Linear(self.body.patch_size, 2)\n"
        "        self.body.patch_size.proj = nn.Conv2d(3, 8, 1)\n"
        "        self.body.position = nn.Parameter(self.body.embed_dim[:, ::2])\n"
        "        for at in range(len(self.body.layers)):\n"
        "            norm, block, rest = self.body.layers[at]\n"
        "            self.body.layers[at] = nn.ModuleList([norm, nn.Sequential(block), rest])\n"
        "        self.out = nn.Linear(self.body.neck[-2].weight.shape[0] * 2**2, 2 * no_such_thing.WIDTH)\n",
    )
    net = attempt(module.Net, real=False)
    assert net.fc.in_features == 4
    assert (net.out.in_features, net.out.out_features) == (256, 128)


def test_a_property_may_look_for_a_part_by_its_name(tmp_path):
    module, _ = imported(
        tmp_path,
        "import torch\nfrom no_such_thing import build_norm_layer\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.norm1_name, norm1 = build_norm_layer({'type': 'BN'}, 4, postfix=1)\n"
        "        self.add_module(self.norm1_name, norm1)\n"
        "    @property\n    def norm1(self): return getattr(self, self.norm1_name)\n"
        "    def forward(self, x): return self.norm1(x)\n",
    )
    net = attempt(module.Net)
    assert net.norm1 is net.norm1_layer


def test_a_constructor_may_import_it(tmp_path):
    module, _ = imported(
        tmp_path,
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, width):\n"
        "        super().__init__()\n"
        "        from no_such_thing.layers import Body\n"
        "        self.body = Body(width)\n"
        "        try:\n"
        "            import no_other_thing\n"
        "        except ImportError:\n"
        "            self.fast = False\n",
    )
    net = attempt(lambda: module.Net(4), real=False)
    assert isinstance(net.body, nn.Module)
    assert net.fast is False
    with pytest.raises(ModuleNotFoundError, match="no_such_thing"):
        net.body(torch.ones(1))


def test_what_is_made_another_form_of_data_is_that_data(tmp_path):
    module, _ = imported(
        tmp_path,
        "import torch\nfrom no_such_thing import EasyDict, Conf\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self, options, widths):\n        super().__init__()\n"
        "        self.options = EasyDict(options)\n        self.widths = Conf.to_container(widths, resolve=True)\n"
        "    def forward(self, x): return x\n",
    )
    net = module.Net({"inner": {"depth": 3}}, [1, 2])
    assert (net.options.inner.depth, net.widths) == (3, [1, 2])
    with pytest.raises(AttributeError, match="width"):
        _ = net.options.width


def test_a_base_of_a_class_with_a_forward_is_torchs(tmp_path):
    module, _ = imported(
        tmp_path,
        "import torch\nfrom no_such_thing import MessagePassing, Base\n"
        "class Conv(MessagePassing):\n    def forward(self, x): return x\n"
        "class Decorator(Base):\n    def run(self): return 1\n",
    )
    assert issubclass(module.Conv, torch.nn.Module)
    assert module.Conv()(3) == 3
    assert not issubclass(module.Decorator, torch.nn.Module)


def test_a_base_may_spare_its_classes_the_call_of_the_constructor_and_keep_the_arguments(tmp_path):
    module, _ = imported(
        tmp_path,
        "import torch\nfrom no_such_thing import Module\n"
        "class Net(Module):\n"
        "    def __init__(self, width, depth=2, **more):\n"
        "        self.fc = torch.nn.Linear(self.hparams.width, self.hparams['num_classes'])\n"
        "        self.depth = self.hparams.depth + self.hparams.extra\n"
        "    def forward(self, x): return self.fc(x)\n",
    )
    net = module.Net(4, extra=5)
    assert (net(torch.ones(3, 4)).shape, net.depth) == ((3, 10), 7)


def test_a_base_that_is_called_a_layer_keeps_what_it_is_made_of(tmp_path):
    module, _ = imported(
        tmp_path,
        "import torch\nfrom no_such_thing import ModulatedDeformConv2d, Head\n"
        "class Pack(ModulatedDeformConv2d):\n"
        "    def __init__(self, *args, **kwargs):\n        super().__init__(*args, **kwargs)\n"
        "        wide, high = self.kernel_size\n"
        "        self.offset = torch.nn.Conv2d(self.in_channels, self.deform_groups * 3 * wide * high, wide)\n"
        "    def forward(self, x): return self.offset(x) + self.weight.sum() * self.deform_groups\n"
        "class Own(Head):\n"
        "    def __init__(self, width):\n        super().__init__(classes=width + 1, kind='wide')\n"
        "        self.fc = torch.nn.Linear(width, self.classes)\n        self.kind = self.kind.upper()\n"
        "    def forward(self, x): return self.fc(x)\n",
    )
    pack, own = module.Pack(8, 4, 3, deform_groups=2), module.Own(4)
    assert (pack.weight.shape, pack.offset.weight.shape) == ((4, 8, 3, 3), (54, 8, 3, 3))
    assert own.fc.out_features == 5
    with pytest.raises(AttributeError, match="groups_of"):
        _ = pack.groups_of


def test_what_a_base_has_made_may_be_replaced_asked_or_taken_away(tmp_path):
    module, _ = imported(
        tmp_path,
        "import torch\nfrom no_such_thing import Net\n"
        "class Own(Net):\n"
        "    def __init__(self, width):\n        super().__init__(width)\n"
        "        del self.tail\n"
        "        self.head = torch.nn.Linear(self.head.in_features, width)\n"
        "        self.stem = self.make_stem(width)\n"
        "        self.sides = [self.out_size[0] // 2 ** at for at in range(2)]\n"
        "    def forward(self, x): return self.head(x)\n",
    )
    own = module.Own(4)
    assert (own.head.in_features, own.head.out_features) == (64, 4)
    assert isinstance(own.stem, torch.nn.Module)
    assert own.sides == [64, 32]
    assert not hasattr(own, "tail")


def test_a_base_in_another_file_may_call_what_keeps_the_arguments(tmp_path):
    (tmp_path / "bases.py").write_text(
        "from no_such_thing import LightningModule\n"
        "class Base(LightningModule):\n"
        "    def __init__(self, length, width=4, weights=None):\n        super().__init__()\n"
        "        self.save_hyperparameters(ignore=['loss'])\n        self.length = length\n"
    )
    module, _ = imported(
        tmp_path,
        "import torch\nfrom bases import Base\n"
        "class Net(Base):\n"
        "    def __init__(self, dim, **kwargs):\n        super().__init__(**kwargs)\n"
        "        self.fc = torch.nn.Linear(dim, self.length)\n"
        "        if self.hparams.weights is not None: self.load_state_dict(torch.load(self.hparams.weights))\n"
        "    def forward(self, x): return self.fc(x)\n",
    )
    expression, net = Search("Net", module.Net, vars(module), attempt).run()
    assert expression == "Net(dim=64, length=32)"
    assert net.fc.out_features == 32


def test_a_base_beside_torch_s_keeps_the_arguments_too(tmp_path):
    module, _ = imported(
        tmp_path,
        "import torch\nfrom no_such_thing import HyperparametersMixin\n"
        "class Net(torch.nn.Module, HyperparametersMixin):\n"
        "    def __init__(self, dim, depth=3):\n        super().__init__()\n        self.save_hyperparameters()\n"
        "        self.hparams['cls'] = type(self)\n        self.fc = torch.nn.Linear(dim, self.hparams.depth)\n"
        "    def forward(self, x): return self.fc(x)\n",
    )
    net = module.Net(8)
    assert (net.fc.in_features, net.fc.out_features, net.hparams["cls"]) == (8, 3, module.Net)
    with pytest.raises(AttributeError, match="no_such_part"):
        _ = net.no_such_part


def test_a_base_keeps_the_configuration_that_it_is_given(tmp_path):
    module, _ = imported(
        tmp_path,
        "import torch\nfrom no_such_thing import LightningModule\n"
        "class Base(LightningModule):\n"
        "    def __init__(self, hparams, **more):\n"
        "        super().__init__()\n        self.save_hyperparameters(hparams)\n"
        "        self.hparams.setdefault('lr', 0.1)\n"
        "class Net(Base):\n"
        "    def __init__(self, hparams, **more):\n        super().__init__(hparams, **more)\n"
        "        self.fc = torch.nn.Linear(self.hparams['code'], self.hparams.lines)\n"
        "    def forward(self, x): return self.fc(x)\n",
    )
    expression, net = Search("Net", module.Net, vars(module), attempt).run()
    assert expression == "Net(hparams={'code': 64, 'lines': 64})"
    assert net.hparams == {"code": 64, "lines": 64, "lr": 0.1}


def test_a_base_keeps_what_it_is_given_beside_what_it_has(tmp_path):
    module, _ = imported(
        tmp_path,
        "import torch\nfrom no_such_thing import LightningModule, arguments_of\n"
        "class Base(LightningModule):\n"
        "    def __init__(self, loss='mse', steps=None, **more):\n"
        "        super().__init__()\n        self.save_hyperparameters(dict(arguments_of(self).items()))\n"
        "        if self.hparams.steps is None:\n            self.hparams.steps = 7\n"
        "class Net(Base):\n"
        "    def __init__(self, dim=4, **more):\n"
        "        self.save_hyperparameters()\n        super().__init__(**more)\n"
        "        self.fc = torch.nn.Linear(self.hparams.dim, self.hparams.steps)\n"
        "    def forward(self, x): return self.fc(x)\n",
    )
    expression, net = Search("Net", module.Net, vars(module), attempt).run()
    assert expression == "Net()"
    assert net.hparams == {"dim": 4, "loss": "mse", "steps": 7}


def test_classes_of_its_bases_add_its_text_to_their_own(tmp_path):
    module, _ = imported(
        tmp_path,
        "from no_such_thing import Trainer, LightningModule\n"
        "class Own(Trainer):\n    'Trains.'\n    __doc__ += Trainer.__init__.__doc__\n"
        "class Net(LightningModule):\n    'Is trained.'\n    def forward(self, x): return x\n"
        "class More(Net):\n    'Too.'\n    __doc__ += Net.__init__.__doc__\n",
    )
    assert module.Own.__doc__.startswith("Trains.")
    assert issubclass(module.More, torch.nn.Module)


def test_what_constructors_make_of_it_is_what_its_name_says(tmp_path):
    module, _ = imported(
        tmp_path,
        "import torch\nfrom torch import nn\n"
        "from no_such_thing.models.layers import DropPath, FusedLayerNorm, RMSNorm, to_2tuple, trunc_normal_\n"
        "from no_such_thing import Linear, LayerNorm\n"
        "class Block(nn.Module):\n"
        "    def __init__(self, dim, window=7, drop=0.1, norm=FusedLayerNorm):\n        super().__init__()\n"
        "        self.window = to_2tuple(window)\n        self.area = self.window[0] * self.window[1]\n"
        "        self.twice = to_2tuple(self.window)\n"
        "        self.norm, self.other = norm(dim), RMSNorm(dim, eps=1e-6)\n"
        "        self.fc, self.strange = Linear(dim, dim), LayerNorm(dim, sequence_parallel=True)\n"
        "        self.path = DropPath(drop) if drop > 0.0 else nn.Identity()\n"
        "        trunc_normal_(self.fc.weight, std=0.02)\n        self.drops = isinstance(self.path, DropPath)\n"
        "    def forward(self, x): return x + self.path(self.fc(self.other(self.norm(x))))\n",
    )
    block = module.Block(8)
    assert (block.window, block.area, block.twice, block.drops) == ((7, 7), 49, (7, 7), True)
    assert (type(block.norm), type(block.other), type(block.fc)) == (nn.LayerNorm, nn.RMSNorm, nn.Linear)
    assert type(block.path).__name__ == "DropPath"
    assert block(torch.ones(2, 8)).shape == (2, 8)
    # What takes other arguments than torch's layer is another thing.
    with pytest.raises(ModuleNotFoundError, match="no_such_thing"):
        block.strange(torch.ones(2, 8))


def test_a_sequence_that_is_not_torchs_leaves_out_what_is_none(tmp_path):
    module, _ = imported(
        tmp_path,
        "from torch import nn\n"
        "from no_such_thing.nn import Sequential\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, dim, norm=False):\n        super().__init__()\n"
        "        self.ff = Sequential(nn.Linear(dim, 3), nn.LayerNorm(3) if norm else None, nn.ReLU())\n"
        "    def forward(self, x): return self.ff(x)\n",
    )
    assert len(module.Net(8).ff) == 2
    assert module.Net(8, norm=True)(torch.ones(2, 8)).shape == (2, 3)


def test_functions_whose_names_say_what_they_do_do_it(tmp_path):
    module, _ = imported(
        tmp_path,
        "from no_such_thing.all import ifnone, is_listy, snake2camel\n"
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, dim, head_dim=None, kernels=3, norm='batch'):\n        super().__init__()\n"
        "        head_dim = ifnone(head_dim, dim // 2)\n"
        "        if not is_listy(kernels): kernels = [kernels, kernels + 2]\n"
        "        self.scale = head_dim ** -0.5\n"
        "        self.norm = getattr(nn, f'{snake2camel(norm)}Norm1d')(dim)\n"
        "        self.convs = nn.ModuleList(nn.Conv1d(dim, head_dim, each) for each in kernels)\n",
    )
    net = module.Net(8)
    assert (net.scale, type(net.norm), len(net.convs)) == (0.5, nn.BatchNorm1d, 2)


def test_everything_of_it_is_whatever_is_asked_for(tmp_path):
    (tmp_path / "imports.py").write_text("import torch\nfrom no_such_thing.all import *\n")
    (tmp_path / "layers.py").write_text(
        "from imports import *\nclass Layer(Module):\n    def forward(self, x): return x\n"
    )
    text = "from imports import *\nfrom layers import *\n@register\nclass Net(Layer):\n    pass\n"
    module, missing = imported(tmp_path, text)
    assert missing == ["no_such_thing"]
    assert isinstance(module.Net(), torch.nn.Module)
    tree = ast.parse("def f(x, y=register):\n    z = [other(x) for _ in thing]\n    return len(z)")
    give_starred(vars(module), tree)
    assert is_stand_in(module.other)
    assert is_stand_in(module.thing)
    assert not {"x", "y", "z", "_", "len"} & vars(module).keys()


def test_what_functions_do_by_their_names_they_do_in_a_forward_too(tmp_path):
    (tmp_path / "imports.py").write_text("import torch\nfrom torch import nn\nfrom no_such_thing.all import *\n")
    module, _ = imported(
        tmp_path,
        "from imports import *\nfrom no_such_thing import ifnone, noop\n"
        "class Net(Module):\n"
        "    def __init__(self, width):\n"
        "        self.fc = nn.Linear(width, width)\n        self.drop = noop\n"
        "    def forward(self, x, y=None):\n        return self.drop(self.fc(x)) + ifnone(y, 1)\n",
    )
    net = module.Net(4)
    x = torch.ones(2, 4)
    assert torch.equal(net(x), net.fc(x) + 1)
    assert fxengine.symbolic_trace(net).code.count("fc(x)") == 1


def test_what_a_module_hands_on_that_imports_everything_is_known_by_its_usual_name(tmp_path):
    module, missing = imported(
        tmp_path,
        "from no_such_thing import *\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, width: int, depth: Optional[int] = None, act=nnf.relu):\n"
        "        super().__init__()\n"
        "        self.fc = nn.Linear(width, int(math.sqrt(np.prod([4, 4]))))\n"
        "        self.kind = thing(OrderedDict(depth=depth))\n",
    )
    assert missing == ["no_such_thing"]
    assert attempt(lambda: module.Net(8)).fc.out_features == 4
    assert (module.nn, module.Optional, module.math) == (torch.nn, typing.Optional, math)
    assert is_stand_in(module.thing)


def test_what_it_makes_decorate_leaves_things_as_they_are(tmp_path):
    module, _ = imported(
        tmp_path,
        "from no_such_thing import decorator, delegates\n"
        "class Checked:\n"
        "    @decorator(enabled=True)\n"
        "    def wrapper(self, wrapped, instance, args, kwargs): return wrapped(*args, **kwargs)\n"
        "    def __call__(self, wrapped): return self.wrapper(wrapped)\n"
        "@Checked()\ndef f(x): return x + 1\n"
        "@delegates(Checked.__call__)\ndef g(x): return x + 2\n"
        "name = decorator.__name__\n"
        "Checked.train, Checked.valid = decorator(lambda index, each: each[index])\n",
    )
    assert is_stand_in(module.Checked.valid)
    assert (module.f(1), module.g(1), module.name) == (2, 3, "decorator")


def test_what_decorates_a_constructor_constructs(tmp_path):
    module, _ = imported(
        tmp_path,
        "import functools\nimport torch\nfrom no_such_thing import warn, Loss\n"
        "def reviewed(function):\n"
        "    @functools.wraps(function)\n"
        "    def inner(*args, **kwargs):\n        warn('under review')\n        return function(*args, **kwargs)\n"
        "    return inner\n"
        "class Net(torch.nn.Module):\n"
        "    @reviewed\n    def __init__(self):\n        super().__init__()\n        self.loss = Loss()\n"
        "    @reviewed\n    def forward(self, x): return x\n",
    )
    net = module.Net()
    assert type(net.loss).__name__ == "Loss"
    with pytest.raises(ModuleNotFoundError, match="no_such_thing"):
        net(1)


def test_it_has_the_version_that_the_code_takes(tmp_path):
    (tmp_path / "bounded.py").write_text(
        "import no_such_thing\nfrom no_such_thing.utils import digit_version\n"
        "least, most = '2.0.0rc4', '2.2.0'\n"
        "found = digit_version(no_such_thing.__version__)\n"
        "assert found >= digit_version(least) and found < digit_version(most), f'at least {least}'\n"
        "assert not digit_version('1.8') > digit_version('2.13.0')\n"
    )
    (tmp_path / "older.py").write_text(
        "import no_such_other as other\nVERSION = tuple(map(int, other.__version__.split('.')))\n"
        "if VERSION >= (2, 0):\n    raise ImportError(f'version {other.__version__} found, <2.0 is needed')\n"
    )
    (tmp_path / "between.py").write_text(
        "import no_such_third, no_such_fourth\nfrom no_such_third import parse\n"
        "third = no_such_third.__version__\n"
        "least, found, most = parse('2.0.0'), parse(third), parse('2.2.0')\n"
        "assert least <= found < most, f'no_such_third=={third} is not from {least} to {most}'\n"
        "fourth = no_such_fourth.__version__\n"
        "least, found, most = parse('0.4.0'), parse(fourth), parse('1.0.0')\n"
        "assert least <= found < most, f'no_such_fourth=={fourth} is not from {least} to {most}'\n"
    )
    module, missing = imported(tmp_path, "import bounded\nimport older\nimport between\n")
    assert missing == ["no_such_thing", "no_such_other", "no_such_third", "no_such_fourth"]
    assert (module.between.third, module.between.fourth) == ("2.0.0", "0.4.0")
    assert module.bounded.no_such_thing.__version__ == "999.0.0"
    assert module.older.VERSION == (1, 999)


def test_what_it_has_may_be_copied(tmp_path):
    module, missing = imported(
        tmp_path,
        "import copy\nfrom no_such_thing.resnet import settings\n"
        "mine = copy.deepcopy(settings)\nshallow = copy.copy(mine)\nmine['a']['url'] = 'b'\n",
    )
    assert missing == ["no_such_thing"]
    assert repr(module.shallow) == repr(module.mine) == repr(module.settings)


def test_what_is_raised_for_another_reason_is_raised(tmp_path):
    (tmp_path / "broken.py").write_text("import no_such_thing\nassert 1 > 2, 'version 1.2 is broken'\n")
    with pytest.raises(AssertionError, match="broken"):
        imported(tmp_path, "import broken\n")


def test_what_an_import_that_fails_wants_is_not_what_the_next_one_wants(tmp_path):
    (tmp_path / "failing_file.py").write_text("import no_such_thing\nraise ValueError\n")
    with pytest.raises(ValueError, match=r"^$"):
        importing(lambda: importlib.import_module("failing_file"))
    assert importing(lambda: importlib.import_module("json.tool")) == []


def test_warnings_of_its_own_kind_are_no_matter(tmp_path):
    with warnings.catch_warnings():
        before = list(warnings.filters)
        _, missing = imported(
            tmp_path,
            "import warnings\nfrom no_such_thing.errors import Insecure\n"
            "warnings.filterwarnings('ignore', category=Insecure)\nwarnings.simplefilter('ignore', Insecure)\n"
            "warnings.simplefilter('ignore', UserWarning)\n",
        )
        assert missing == ["no_such_thing"]
        assert len(warnings.filters) == len(before) + 1


def installed(tmp_path, name, text):
    """Write a package to where packages are installed to."""
    (tmp_path / f"{name}-1.0.dist-info").mkdir()
    (tmp_path / f"{name}-1.0.dist-info" / "RECORD").write_text(f"{name}/__init__.py,,\n")
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text(text)


def test_a_package_that_cannot_be_imported_is_as_good_as_not_installed(tmp_path):
    installed(tmp_path, "plots", "import no_such_cycler\nfrom plots.colours import RED\n")
    (tmp_path / "plots" / "colours.py").write_text("import no_such_cycler\nRED = 1\nraise ValueError('no cycler')\n")
    installed(tmp_path, "statistics_shown", "import plots\nfrom plots.colours import RED\nWIDTH = 3\n")
    module, missing = imported(
        tmp_path,
        "from statistics_shown import WIDTH\nfrom plots import figure\nclass Net:\n    width = WIDTH\n",
    )
    assert missing == ["no_such_cycler", "plots"]
    assert module.Net.width == 3
    assert is_stand_in(module.figure)
    assert is_still_absent()
    installed(tmp_path, "no_such_other", "")
    assert not is_still_absent()


def test_what_cannot_be_imported_says_why(tmp_path):
    installed(tmp_path, "plots", "raise KeyError('axes')\n")
    (tmp_path / "project_file.py").write_text("import plots\n")
    (error,) = importing(lambda: importlib.import_module("project_file"))
    assert str(error) == "'plots' is installed and cannot be imported: KeyError: 'axes'"


def test_what_a_package_of_another_version_has_not_is_stood_in_for(tmp_path):
    installed(tmp_path, "signals", "hann = 1\n")
    text = "import signals\nHANN, HAMMING = signals.hann, signals.hamming.__name__\nFLAT = signals.flat\n"
    module, missing = imported(tmp_path, f"{text}class Net:\n    width = 3\n")
    assert (module.Net.width, module.HANN, missing) == (3, 1, ["signals.hamming", "signals.flat"])
    with pytest.raises(ModuleNotFoundError, match=r"signals\.flat"):
        module.FLAT(3)
    with pytest.raises(AttributeError, match="humming"):
        importing(lambda: exec("import signals\nHUMMING = signals.humming", {"__name__": "project_file"}))


@pytest.mark.parametrize(
    "text",
    [
        "def __getattr__(name):\n    raise AttributeError(f'nothing is called {name}')\n",
        """
import sys
import typing
class Lazy(type(sys)):
    def __getattr__(self, name): return self.found(name)
    def found(self, name): raise AttributeError(f"nothing is called {name}")
sys.modules[__name__].__class__ = Lazy
""",
    ],
)
def test_so_is_what_it_has_not_that_makes_its_names_when_it_is_asked(tmp_path, text):
    installed(tmp_path, "signals", text)
    (tmp_path / "older.py").write_text("import signals\nclass Late(signals.Window): width = 3\n")
    module, missing = imported(tmp_path, "from older import Late\n")
    assert (module.Late.width, missing) == (3, ["signals.Window"])


@pytest.mark.parametrize("text", ["raise KeyError('axes')\n", "import plots\nplots.draw(None)\n"])
def test_what_the_project_does_wrong_is_its_own_mistake(tmp_path, text):
    installed(tmp_path, "plots", "def draw(what): return what.width\n")
    with pytest.raises((KeyError, AttributeError)):
        imported(tmp_path, text)


def test_what_a_registry_gives_to_a_constructor_is_called_as_a_class_is(tmp_path):
    module, _ = imported(
        tmp_path,
        "from no_such_thing import MODELS\nfrom torch import nn\n"
        "def build(kind, width):\n    return MODELS.get(kind)(width, eps=1e-5)\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.norm = build('LN', 8)\n"
        "    def forward(self, x):\n        return self.norm(x)\n",
    )
    net = module.Net()
    assert isinstance(net.norm, nn.Module)
    with pytest.raises(ModuleNotFoundError, match="no_such_thing"):
        net(torch.ones(8))


def test_a_base_of_an_absent_package_tells_where_its_parameters_are(tmp_path):
    module, _ = imported(
        tmp_path,
        "import torch\nfrom no_such_thing import LightModule\n"
        "class Net(LightModule):\n"
        "    def __init__(self):\n        super().__init__()\n        self.first = self.device\n"
        "        self.fc = torch.nn.Linear(3, 4)\n"
        "    def forward(self, x): return self.fc(x) + torch.zeros(4, device=self.device, dtype=self.dtype)\n"
        "class Placed(LightModule):\n"
        "    def place(self, device):\n        self.device = device\n",
    )
    net = module.Net().double()
    assert net.first == torch.device("cpu")
    assert net(torch.ones(1, 3).double()).dtype == torch.float64
    assert not hasattr(module.Placed(), "device")


def test_what_is_asserted_of_its_kinds_is_so(tmp_path):
    module, _ = imported(
        tmp_path,
        "from no_such_thing import Layer, Mixin, Rule\n"
        "class Known: pass\n"
        "kinds = {}\n"
        "def register(kind):\n"
        "    assert kind is None or issubclass(kind, (Known, Mixin))\n"
        "    if not (isinstance(kind, Rule) and all(issubclass(each, Mixin) for each in (kind,))):\n"
        "        raise TypeError(kind)\n"
        "    if issubclass(kind, Rule):\n        raise TypeError(kind)\n"
        "    kinds[kind.__name__] = isinstance(kind, Rule), issubclass(kind, Mixin)\n"
        "register(Layer)\nregister(Known)\n",
    )
    assert module.kinds == {"Layer": (False, False), "Known": (False, False)}


def test_what_a_package_tells_of_others_is_so_where_code_demands_it(tmp_path):
    module, missing = imported(
        tmp_path,
        "from torch import nn\n"
        "from no_such_thing import Requirement, compare_version\n"
        "IS_NEW, HAS_CODEC = compare_version('torch', '2.2'), Requirement('no_such_codec')\n"
        "if IS_NEW and HAS_CODEC:\n    from no_such_codec import codec\n"
        "if not HAS_CODEC:\n    WITHOUT = True\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        if not IS_NEW or not HAS_CODEC:\n            raise RuntimeError('not new enough')\n"
        "        assert HAS_CODEC\n"
        "        self.codec, self.kind = codec(4), 'fast' if HAS_CODEC else 'slow'\n",
    )
    assert missing == ["no_such_thing", "no_such_codec"]
    assert module.WITHOUT
    assert attempt(module.Net).kind == "slow"


def test_what_is_compared_with_it_is_as_a_constructor_demands_it(tmp_path):
    module, _ = imported(
        tmp_path,
        "from torch import nn\n"
        "from no_such_thing import LIMITS, backbone\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.body = backbone('small')\n"
        "        assert self.body.num_features == 512 and self.body.ratio < 0\n"
        "        if len(self.body.blocks) > 0 and self.body.depth > 0:\n            raise ValueError('too deep')\n"
        "        if LIMITS.lowest != LIMITS.highest or LIMITS.lowest >= 3:\n            raise ValueError('no limits')\n"
        "        self.kind = 'wide' if self.body.num_features == 512 else 'narrow'\n",
    )
    assert attempt(module.Net).kind == "narrow"


def test_the_last_of_several_kinds_is_that_of_something_absent(tmp_path):
    module, _ = imported(
        tmp_path,
        "import no_such_gym as gym\nfrom torch import nn\n"
        "def kind_of(space):\n"
        "    if isinstance(space, gym.Box):\n        return 'box'\n"
        "    elif isinstance(space, gym.Discrete):\n        return 'discrete'\n"
        "    else:\n        raise NotImplementedError(type(space))\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, name):\n"
        "        super().__init__()\n"
        "        self.kind = kind_of(gym.make(name).action_space)\n",
    )
    assert attempt(partial(module.Net, "cart")).kind == "discrete"
    with pytest.raises(NotImplementedError):
        module.kind_of(4)


def test_files_that_a_package_ships_are_there_though_what_gives_them_is_not(tmp_path):
    (tmp_path / "tables" / "data").mkdir(parents=True)
    (tmp_path / "tables" / "data" / "widths.txt").write_text("64")
    (tmp_path / "tables" / "__init__.py").write_text("")
    module, _ = imported(
        tmp_path,
        "from pkg_resources import resource_exists, resource_filename, resource_stream, resource_string\n"
        "NAME = resource_filename('tables', 'data/widths.txt')\n"
        "def width():\n"
        "    with resource_stream('tables.data', 'widths.txt') as stream:\n"
        "        return int(stream.read())\n"
        "THERE = [resource_exists('tables', each) for each in ('data/widths.txt', 'data/none.txt')]\n"
        "TEXT = resource_string('tables', 'data/widths.txt')\n",
    )
    assert (module.width(), module.THERE, module.TEXT) == (64, [True, False], b"64")
    assert str(tmp_path / "tables" / "data" / "widths.txt") == module.NAME


def test_what_is_called_as_a_metaclass_is_one_whatever_its_name(tmp_path):
    module, missing = imported(
        tmp_path,
        "from no_such_thing import Singleton, Base\n"
        "class Cache(metaclass=Singleton):\n    limit = 3\n    def size(self): return self.limit\n"
        "class Kept(Base, metaclass=Singleton):\n    limit = 4\n",
    )
    assert missing == ["no_such_thing"]
    assert module.Cache.__mro__ == (module.Cache, object)
    assert module.Cache().size() == 3
    assert module.Kept.limit == 4
