"""What a person is offered for a class that nobody can build: the construction that came furthest."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.worker.harness import Worker, all_problems, marked, of

Write = Callable[..., Path]

CONFIGURED = """from dataclasses import dataclass

from torch import nn


@dataclass
class Config:
    width: int
    plan: str


class Net(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.fc = nn.Linear(config.width, {"wide": 8}[config.plan[::-1].weird()])

    def forward(self, x):
        return self.fc(x)
"""


def test_what_came_furthest_is_offered_each_time(worker: Worker, model: Write) -> None:
    path = model(CONFIGURED)
    for _ in range(2):
        (problem,) = of(worker.trace(path), "Net").problems
        assert problem.code == "FX103"
        (fix,) = problem.fixes
        (edit,) = fix.edits
        assert edit.text.startswith("# fx: Net(")
        assert "width=" in edit.text
        assert "plan=" in edit.text
        assert edit.location.span.line == CONFIGURED[: CONFIGURED.index("class Net")].count("\n") + 1


LIBRARY = """SETTINGS = {}


def settings():
    if not SETTINGS:
        raise RuntimeError("no configuration was loaded")
    return SETTINGS
"""

NET = """from torch import nn

from library import settings


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(settings()["width"], 8)

    def forward(self, x):
        return self.fc(x)
"""


def test_what_another_file_refuses_to_make_asks_for_a_way_to_build_it(
    worker: Worker, model: Callable[..., Path]
) -> None:
    model(LIBRARY, "library.py")
    (problem,) = of(worker.trace(model(NET)), "Net").problems
    assert (problem.code, problem.severity) == ("FX103", "information")
    assert problem.explanation == "tried `Net()`: RuntimeError: no configuration was loaded"


def test_what_this_file_does_wrong_is_an_error_wherever_it_is_refused(
    worker: Worker, model: Callable[..., Path]
) -> None:
    wrong = NET.replace('settings()["width"]', '{}["width"]')
    model(LIBRARY, "library.py")
    (problem,) = of(worker.trace(model(wrong)), "Net").problems
    assert (problem.code, problem.severity) == ("FX102", "error")


SHORT_CALL = """from torch import nn


class Inner(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fc = nn.Linear(config.width, config.width)

    def forward(self, x):
        return self.fc(x)


class Outer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(x)
"""


def test_a_call_that_always_lacks_an_argument_is_an_error_at_the_call(
    worker: Worker, model: Callable[..., Path]
) -> None:
    report = worker.trace(model(SHORT_CALL))
    (problem,) = of(report, "Outer").problems
    assert (problem.code, problem.severity) == ("FX102", "error")
    assert marked(SHORT_CALL, problem.location) == "Inner()"
    assert not of(report, "Inner").problems


UNKNOWN_PART = """from torch import nn


class Loss(nn.Module):
    def __init__(self, part: nn.Module):
        super().__init__()
        self.part = part

    def forward(self, x):
        if type(self.part).__name__[::-1] != "weN":
            raise ValueError(f"unknown kind of part: {self.part}")
        return self.part(x)
"""


def test_what_is_said_of_a_stand_in_is_no_problem_of_the_model(worker: Worker, model: Write) -> None:
    (problem,) = of(worker.trace(model(UNKNOWN_PART)), "Loss").problems
    assert (problem.code, problem.severity) == ("FX103", "information")
    assert "unknown kind of part: Identity()" in problem.explanation
    said = UNKNOWN_PART.replace("class Loss", "# fx: Loss(nn.Identity())\nclass Loss")
    (problem,) = of(worker.trace(model(said)), "Loss").problems
    assert (problem.code, problem.severity) == ("FX009", "error")


HEADS = """from torch import nn


class Net(nn.Module):
    def __init__(self, width, heads=5):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads)

    def forward(self, x):
        return self.attention(x, x, x)[0]


if __name__ == "__main__":
    Net(64)
"""


def test_a_call_of_the_file_that_the_constructor_refuses_is_an_error(worker: Worker, model: Write) -> None:
    (problem,) = of(worker.trace(model(HEADS)), "Net").problems
    assert (problem.code, problem.severity) == ("FX102", "error")
    assert problem.message.startswith("`Net(64)` cannot be built: AssertionError")
    assert marked(HEADS, problem.location) == "nn.MultiheadAttention(width, heads)"


def test_a_call_that_is_to_fail_or_that_others_decide_is_none(worker: Worker, model: Write) -> None:
    awaited = HEADS.replace("    Net(64)\n", "    try:\n        Net(64)\n    except AssertionError:\n        pass\n")
    told = HEADS.replace(
        "class Net(nn.Module):\n", 'class Net(nn.Module):\n    """Made as `Net(64)`.\n\n    >>> Net(64)\n    """\n\n'
    )
    for text in (awaited, told.partition("\n\nif __name__")[0] + "\n"):
        assert not of(worker.trace(model(text)), "Net").problems


@pytest.mark.parametrize(
    ("function", "refused"),
    [
        ("def main():\n    width = 64\n    return Net(width)\n", True),
        ("def make(width=64):\n    return Net(width)\n", False),
        ("def make(count=64):\n    width = count\n    return Net(width)\n", False),
    ],
)
def test_what_a_parameter_decides_is_not_what_the_file_says(
    worker: Worker, model: Write, function: str, refused: bool
) -> None:
    text = HEADS.partition("\n\nif __name__")[0] + f"\n\n{function}"
    assert bool(of(worker.trace(model(text)), "Net").problems) is refused


PLAIN = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, rate=0.01, heads=("age", "mood")):
        super().__init__()
        self.heads = nn.ModuleDict({each: nn.Linear(4, 4) for each in heads})
        self.rate = nn.Parameter(torch.tensor(rate))

    def forward(self, x):
        return self.heads["age"](x) * self.rate


net = Net()
"""


def test_a_default_that_the_constructor_refuses_is_no_other_one(worker: Worker, model: Write) -> None:
    assert not of(worker.trace(model(PLAIN)), "Net").problems
    for old, new, said in (
        ("torch.tensor(rate)", "rate", "AttributeError: 'float' object has no attribute"),
        ('"mood"', '"mood.fine"', "KeyError: "),
    ):
        (problem,) = of(worker.trace(model(PLAIN.replace(old, new))), "Net").problems
        assert problem.message.startswith(f"`Net()` cannot be built: {said}")


CALLED = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({"age": nn.Linear(4, 4)})
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return [head(x) for head in self.heads]


net = Net()
net(torch.randn(2, 4))
"""


def test_what_cannot_be_called_is_no_matter_of_the_trace(worker: Worker, model: Write) -> None:
    (problem,) = of(worker.trace(model(CALLED)), "Net").problems
    assert (problem.code, problem.message) == ("FX009", "TypeError: 'str' object is not callable")
    assert marked(CALLED, problem.location) == "head(x)"


def test_what_a_graph_calls_in_vain_is_said_as_python_says_it(worker: Worker, model: Write) -> None:
    for body, said in (
        ("self.scale(x)", "'Tensor' object is not callable"),
        ('self.heads["age"]([x, x])', "linear(): argument 'input' (position 1) must be Tensor, not list"),
    ):
        text = CALLED.replace("[head(x) for head in self.heads]", body)
        (problem,) = of(worker.trace(model(text)), "Net").problems
        assert (problem.code, problem.message) == ("FX201", f"does not fit: {said}")


def test_an_array_that_is_indexed_by_a_tensor_is_foreign_to_the_trace(worker: Worker, model: Write) -> None:
    text = CALLED.replace("nn.Parameter(torch.ones(4))", "torch.ones(4).numpy()")
    text = text.replace("[head(x) for head in self.heads]", "self.scale[x.argmax(-1)]")
    problem, *_ = of(worker.trace(model(text)), "Net").problems
    assert problem.code == "FX006"
    assert marked(text, problem.location) == "self.scale[x.argmax(-1)]"


SLIP = """from torch import nn


class Net(nn.Module):
    def __init__(self, vocabulary, dim):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.rnn = nn.LSTM(dim, dim, num_layers=2)
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.ReLU())

    def forward(self, x):
        return self.head(self.rnn(self.embed(x))[0])
"""

SUPER = "        super().__init__()\n"
FIRST = "`Net.__init__` has to call `super().__init__()` before it gives the module any parts"


@pytest.mark.parametrize(
    ("right", "wrong", "place", "said"),
    [
        (SUPER, "", "self.embed", FIRST),
        (SUPER, "        super().__init__\n", "self.embed", FIRST),
        ("super().__init__()", "super.__init__()", "super.__init__()", "of 'super' object needs an argument"),
        ("super().__init__()", "super(Net).__init__(a=1)", "super(Net).__init__(a=1)", "takes no keyword arguments"),
        ("super().__init__()", "super(nn.Linear, self).__init__()", "super(nn.Linear, self)", "must be an instance"),
        ("nn.LSTM", "nn.Lstm", "nn.Lstm", "has no attribute 'Lstm': is `nn.LSTM` meant?"),
        ("(dim, dim), nn", "(self.dim, dim), nn", "self.dim", "has no attribute 'dim': is `dim` meant?"),
        ("nn.LSTM", "LSTM", "LSTM", "name 'LSTM' is not defined: is `nn.LSTM` meant?"),
        ("nn.LSTM", "nn.LTSM", "nn.LTSM", "has no attribute 'LTSM': is `nn.LSTM` meant?"),
        (
            "nn.LSTM(dim, dim",
            "nn.LSTM(dim, math.prod([dim])",
            "math",
            "'math' is not defined: `import math` is missing",
        ),
        ("num_layers", "depth", "nn.LSTM(dim, dim, depth=2)", "unexpected keyword argument 'depth'"),
        ("nn.Linear(dim, dim)", "nn.Linear(dim)", "nn.Linear(dim)", "missing 1 required positional argument"),
        ("nn.LSTM(dim, dim, num", "nn.LSTM(0, 1, num", "nn.LSTM(0, 1, num_layers=2)", "greater than zero"),
        ("nn.ReLU()", "nn.ReLU", "nn.Sequential(nn.Linear(dim, dim), nn.ReLU)", "ReLU is not a Module subclass"),
        (
            "(nn.Linear(dim, dim), nn.ReLU())",
            "([nn.Linear(dim, dim), nn.ReLU()])",
            "nn.Sequential([nn.Linear(dim, dim), nn.ReLU()])",
            "list is not a Module subclass",
        ),
    ],
)
def test_what_no_arguments_mend_is_told_where_the_constructor_fails(
    right: str, wrong: str, place: str, said: str, worker: Worker, model: Callable[..., Path]
) -> None:
    text = SLIP.replace(right, wrong, 1)
    (problem,) = of(worker.trace(model(text)), "Net").problems
    assert (problem.code, problem.severity, marked(text, problem.location)) == ("FX102", "error", place)
    assert said in problem.message


@pytest.mark.parametrize("right", ["nn.LSTM(dim, dim", "nn.Linear(dim, dim)"])
def test_what_a_parameter_decides_may_be_right_with_other_arguments(
    right: str, worker: Worker, model: Callable[..., Path]
) -> None:
    wrong = right.replace("dim, dim", "dim, vocabulary.nothing").replace("nn.L", "nn.L", 1)
    report = of(worker.trace(model(SLIP.replace(right, wrong, 1))), "Net")
    assert all(each.code != "FX102" for each in report.problems)


HANDED = """from torch import nn


class Pooled(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        last = self.base.get_classifier()
        self.head = nn.Conv2d(self.base.num_features, 10, 1)
        self.head.weight.data.copy_(last.weight.data.view(self.head.weight.size()))

    def forward(self, x):
        return self.head(self.base.forward_features(x))
"""


def test_what_a_part_lacks_that_is_handed_in_is_no_fault_of_the_constructor(worker: Worker, model: Write) -> None:
    report = of(worker.trace(model(HANDED)), "Pooled")
    assert all(each.code != "FX102" for each in report.problems)


METHOD = """from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = self.made(4)

    def made(self, size):
        return nn.Sequential(nn.Linear(size, size), self.last())

    def last(self):
        return nn.ReLU()

    def forward(self, x):
        return self.parts(x)
"""


@pytest.mark.parametrize(
    ("method", "right", "wrong"),
    [("made", "self, size", "size"), ("forward", "self, x", "x"), ("__init__", "__init__(self)", "__init__()")],
)
def test_a_method_without_self_is_told_at_its_name(
    method: str, right: str, wrong: str, worker: Worker, model: Callable[..., Path]
) -> None:
    text = METHOD.replace(right, wrong, 1)
    (problem,) = of(worker.trace(model(text)), "Net").problems
    assert marked(text, problem.location) == method
    assert problem.message == f"`{method}` of `Net` has no parameter `self`, which each method is given first"


UNIMPORTED = """\"\"\"A model.\"\"\"

import torch


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return F.relu(self.fc(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        return self.block(x) / math.sqrt(2)
"""


def test_an_import_that_is_missing_is_told_once_and_offered(worker: Worker, model: Callable[..., Path]) -> None:
    text = UNIMPORTED
    for statement in ("from torch import nn", "import torch.nn.functional as F", "import math"):
        told = [each for each in all_problems(worker.trace(model(text))) if f"`{statement}` is missing" in each.message]
        (problem,) = told
        ((edit,),) = (each.edits for each in problem.fixes)
        lines = text.splitlines(keepends=True)
        lines.insert(edit.location.span.line - 1, edit.text)
        text = "".join(lines)
    assert not all_problems(worker.trace(model(text)))
    imports = ["import math", "import torch", "from torch import nn", "import torch.nn.functional as F"]
    assert text.splitlines()[2:6] == imports


def test_a_name_that_is_given_elsewhere_in_the_file_is_no_missing_import(
    worker: Worker, model: Callable[..., Path]
) -> None:
    text = SLIP.replace("nn.LSTM(dim, dim", "nn.LSTM(dim, math.prod([dim])") + "\n\ndef other(math):\n    return math\n"
    assert all("is missing" not in each.message for each in all_problems(worker.trace(model(text))))


def test_a_class_in_the_place_of_what_it_makes_is_told_though_a_parameter_holds_it(
    worker: Worker, model: Callable[..., Path]
) -> None:
    text = SLIP.replace("self, vocabulary, dim)", "self, vocabulary, dim, act=nn.ReLU)").replace(
        "nn.ReLU())", "act, nn.Linear(dim, dim), act())"
    )
    (problem,) = of(worker.trace(model(text)), "Net").problems
    assert (problem.code, problem.severity) == ("FX102", "error")
    assert "ReLU is not a Module subclass" in problem.message


MEASURING = """from torch import nn


class Net(nn.Module):
    def __init__(self, head):
        super().__init__()
        self.head = head
        self.parts = nn.ModuleList([self.measure.clone()])

    @property
    def measure(self):
        return self.head.measure

    def forward(self, x):
        return self.parts[0](x)
"""


def test_what_arguments_may_give_to_a_property_or_a_list_is_no_mistake_of_the_file(
    worker: Worker, model: Callable[..., Path]
) -> None:
    found = of(worker.trace(model(MEASURING)), "Net")
    assert found.construct is not None
    assert "clone=lambda *_, **__: torch.nn.Identity()" in found.construct.expression
    assert not found.problems


METHODS = """from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def halved(x):
        return x.chunk(2, -1)[0]

    def forward(self, x):
        return self.halved(self.fc(x))
"""


def test_a_method_without_self_is_told_though_it_does_not_speak_of_it(
    worker: Worker, model: Callable[..., Path]
) -> None:
    for text in (METHODS, METHODS.replace("(self)", "(self, dim)").replace("4, 4", "dim, dim")):
        (problem,) = of(worker.trace(model(text)), "Net").problems
        said = "`halved` of `Net` has no parameter `self`, which each method is given first"
        assert (problem.message, problem.severity) == (said, "error")
        assert marked(text, problem.location) == "halved"


def test_what_makes_a_class_makes_no_model_and_any_number_of_arguments_may_be_wanted(
    worker: Worker, model: Callable[..., Path]
) -> None:
    text = """from torch import nn


def layer(name):
    return nn.ReLU if name == "relu" else nn.GELU


ACT = layer("relu")


class Net(nn.Module):
    def __init__(self, *models):
        super().__init__()
        self.width = models[0].out_features
        self.parts = nn.ModuleList(models)
        self.act = ACT()

    def forward(self, x):
        return self.act(self.parts[0](x))
"""
    assert all(each.code != "FX102" for each in all_problems(worker.trace(model(text))))
