"""What plain Python goes on with from run to run: the graph is right for every run, or it is said what is not."""

import copy
import functools
import random
import types
from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn

import fxengine
from fxengine.errors import ChangingAttribute, EmbeddedDraw

X = torch.randn(2, 4)
SEEN = {}
COUNT = 0


class _Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x):
        self.step += 1
        return x * self.step


class _Rarely(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x):
        self.step += 1
        return x * 2 if self.step > 500 else x


class _Toggled(nn.Module):
    def __init__(self):
        super().__init__()
        self.flag = False

    def forward(self, x):
        self.flag = not self.flag
        return x * 2 if self.flag else x


class _Previous(nn.Module):
    def __init__(self):
        super().__init__()
        self.previous = None

    def forward(self, x):
        given = x if self.previous is None else x + self.previous
        self.previous = x
        return given


class _Appended(nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = []

    def forward(self, x):
        self.cache.append(x)
        return torch.stack(self.cache).sum(0)


class _Keys(nn.Module):
    """Has a cache that is filled in place, as that of a decoder."""

    def __init__(self):
        super().__init__()
        self.cache = None
        self.length = 0

    def forward(self, x):
        if self.cache is None:
            self.cache = torch.zeros(8, 4)
        self.cache[self.length : self.length + 2] = x
        self.length += 2
        return self.cache[: self.length].sum(0)


class _ChangedLate(nn.Module):
    """Changes a table of its own after the first run has used it."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))
        self.table = None

    def forward(self, x):
        if self.table is not None:
            return x * self.table
        self.table = self.weight.detach() * 1
        found = x * self.table
        self.table[0] = 0
        return found


class _Record:
    seen = None


class _InObject(nn.Module):
    def __init__(self):
        super().__init__()
        self.record = _Record()

    def forward(self, x):
        given = x if self.record.seen is None else x + self.record.seen
        self.record.seen = x
        return given


class _InClass(nn.Module):
    seen = None

    def forward(self, x):
        given = x if _InClass.seen is None else x + _InClass.seen
        _InClass.seen = x
        return given


class _InGlobal(nn.Module):
    def forward(self, x):
        given = x + SEEN.get("x", 0)
        SEEN["x"] = x
        return given


class _Counted(nn.Module):
    def forward(self, x):
        global COUNT  # noqa: PLW0603 - that is what is tested.
        COUNT += 1
        return x * COUNT


@functools.lru_cache
def _table(size):
    return torch.randn(size)


class _Remembered(nn.Module):
    def forward(self, x):
        return x * _table(x.shape[1])


class _Parameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x):
        self.weight = nn.Parameter(self.weight * 2)
        return x * self.weight


class _Grown(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(0, 4))

    def forward(self, x):
        self.rows = torch.cat([self.rows, x])
        return self.rows.sum(0)


class _Registered(nn.Module):
    def forward(self, x):
        if not hasattr(self, "mean"):
            self.register_buffer("mean", x.mean(0))
        return x - self.mean


class _Swapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        self.one, self.other = self.other, self.one
        return self.one(x)


class _Evaluated(nn.Module):
    def __init__(self):
        super().__init__()
        self.dropout = nn.Dropout()

    def forward(self, x):
        self.dropout.eval()
        return self.dropout(x)


def _forget():
    global COUNT  # noqa: PLW0603
    COUNT = 0
    SEEN.clear()
    _InClass.seen = None
    _table.cache_clear()


def _outputs(run, inputs):
    _forget()
    torch.manual_seed(0)
    return [run(x) for x in inputs]


def _same_in_all_runs(net):
    """Return the capture of a model; each run of its graph must do what eager mode does then."""
    _forget()
    twin = copy.deepcopy(net)
    found = fxengine.capture(net, X)
    assert (SEEN, COUNT, _InClass.seen, _table.cache_info().currsize) == ({}, 0, None, 0)
    inputs = [torch.randn(2, 4) for _ in range(3)]
    torch.testing.assert_close(_outputs(found.graph_module, inputs), _outputs(twin, inputs))
    return found


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        (_Step, "step", "x * self.step"),
        (_Rarely, "step", "x * 2"),
        (_Toggled, "flag", "def forward"),
        (_Previous, "previous", "x + self.previous"),
        (_Appended, "cache", "torch.stack(self.cache)"),
        (_Keys, "cache", "self.cache[self.length : self.length + 2]"),
        (_ChangedLate, "table", "x * self.table"),
        (_InObject, "record.seen", "x + self.record.seen"),
        (_InClass, "_InClass.seen", "x + _InClass.seen"),
        (_InGlobal, "SEEN", 'x + SEEN.get("x", 0)'),
        (_Counted, "COUNT", "x * COUNT"),
        (_Remembered, "_table", "x * _table(x.shape[1])"),
        (_Parameter, "weight", "self.weight * 2"),
        (_Grown, "rows", "torch.cat([self.rows, x])"),
        (_Registered, "mean", "x - self.mean"),
        (_Swapped, "one", "self.one(x)"),
        (_Evaluated, "dropout.training", "self.dropout(x)"),
    ],
)
def test_what_a_run_leaves_to_the_next_is_told_where_that_does_something_else(kind, name, text):
    net = kind()

    found = _same_in_all_runs(net)

    (problem,) = found.problems
    assert problem.rule is ChangingAttribute
    assert f"`{name}`" in problem.headline
    assert problem.site.text == text
    assert found.rest is not None


class _Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.step, self.outputs = 0, []

    def forward(self, x):
        self.step += 1
        self.last = x * 2
        self.outputs.append(x)
        return x + 1


class _Lazily(nn.Module):
    """Makes what it needs in its first run, of constants and of what it has learned."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))
        self.tables = {}

    def forward(self, x):
        if x.shape not in self.tables:
            mask = self.weight.exp().detach().clone()
            mask[0] = 0
            self.tables[x.shape] = (torch.arange(4.0), mask)
        steps, mask = self.tables[x.shape]
        return x * steps + mask


class _Moved(nn.Module):
    """Puts another tensor in the place of one that is no buffer."""

    def __init__(self):
        super().__init__()
        self.state = torch.zeros(2, 4)

    def forward(self, x):
        self.state = self.state * 0.5 + x
        return self.state * 2


class _InTable(nn.Module):
    def __init__(self):
        super().__init__()
        self.states = {"h": torch.zeros(2, 4)}

    def forward(self, x):
        self.states["h"].mul_(0.5).add_(x)
        return self.states["h"] * 1


class _Written(nn.Module):
    """Writes a table that it keeps to a buffer, and takes it from there in later runs, and where it is needed again."""

    def __init__(self):
        super().__init__()
        self.rates = nn.Parameter(torch.rand(4), requires_grad=False)
        self.register_buffer("table", torch.zeros(8, 4), persistent=False)
        self.length = 0

    def _rows(self, x):
        count = x.shape[0]
        if count <= self.length:
            return self._kept(count)
        rows = self._made(x, torch.arange(float(count)))
        self.table[:count] = rows.detach()
        self.length = count
        return rows

    def _made(self, _x, steps):
        return steps[:, None] * self.rates

    def _kept(self, count):
        return self.table[0:count].detach()

    def forward(self, x):
        return x * self._rows(x) + self._rows(x)


class _WrittenOfInputs(_Written):
    def _made(self, x, steps):
        return super()._made(x, steps) + x.mean()


class _ReadElsewhere(_Written):
    def _kept(self, count):
        return self.table[1 : count + 1]


class _WrittenAfterwards(_Written):
    """Changes the same buffer before, in each run."""

    def forward(self, x):
        self.table.add_(1)
        return super().forward(x)


@pytest.mark.parametrize("kind", [_WrittenOfInputs, _ReadElsewhere, _WrittenAfterwards])
def test_what_is_read_where_something_else_was_written_is_told(kind):
    (problem,) = _same_in_all_runs(kind()).problems
    assert "`length`" in problem.headline


@pytest.mark.parametrize("kind", [_Unused, _Lazily, _Moved, _InTable, _Written])
def test_what_makes_no_difference_or_is_a_step_of_the_graph_is_no_problem(kind):
    assert _same_in_all_runs(kind()).problems == ()


def _bound(x):
    return x * np.random.rand()  # noqa: NPY002


def _skipped(x):
    return x if np.random.uniform(0, 1) < 0.001 else x * 2  # noqa: NPY002


@pytest.mark.parametrize("draw", [_bound, _skipped])
def test_what_python_draws_is_told_where_it_decides(draw):
    found = fxengine.capture(draw, X)

    (problem,) = found.problems
    assert problem.rule is EmbeddedDraw
    np.random.seed(0)  # noqa: NPY002
    wanted = [draw(X) for _ in range(3)]
    np.random.seed(0)  # noqa: NPY002
    torch.testing.assert_close([found.graph_module(X) for _ in range(3)], wanted)


def test_what_python_draws_and_nobody_looks_at_is_no_problem():
    def f(x):
        np.random.uniform(0, 1)  # noqa: NPY002
        return x * 2

    assert fxengine.capture(f, X).problems == ()


def test_what_each_run_makes_and_is_handed_back_is_the_same():
    """As the windows of spectra, which are moved to where the sound is."""

    def f(x):
        window = torch.hann_window(4).to(x)
        return x * window + random.randrange(1)

    assert fxengine.capture(f, X).problems == ()


class _Nothing:
    """As the part of a cache that nothing was put into."""

    def __init__(self, chance=0.0):
        self.layers = []
        self.kind = dict
        self.chance = chance


class _Cache:
    def __init__(self, x, nothing):
        self.x = x
        self.nothing = nothing


def test_what_each_run_makes_anew_and_what_holds_the_same_is_no_difference():
    def f(x):
        np.random.uniform(0, 1)  # noqa: NPY002
        return _Cache(x * 2, _Nothing())

    found = fxengine.capture(f, X)

    assert found.problems == ()
    made = found.graph_module(X)
    assert made.nothing.layers == []
    torch.testing.assert_close(made.x, X * 2)


def test_what_each_run_makes_anew_of_what_was_drawn_is_a_difference():
    def f(x):
        return _Cache(x * 2, _Nothing(np.random.uniform(0, 1)))  # noqa: NPY002

    (problem,) = fxengine.capture(f, X).problems
    assert problem.rule is EmbeddedDraw


class _Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = torch.Generator().manual_seed(0)

    def forward(self, x):
        local = torch.Generator().manual_seed(1)
        return x + torch.rand(4, generator=self.generator) + torch.rand(4, generator=local)


class _Drawing(nn.Module):
    """Draws by functions that nobody has listed, on what is no input."""

    def forward(self, x):
        ones = torch.ones(4)
        first = nn.functional.gumbel_softmax(ones) + nn.functional.rrelu(-ones, training=True)
        return x + first


@pytest.mark.parametrize("kind", [_Generator, _Drawing])
def test_each_run_draws_its_own_random_numbers(kind):
    assert _same_in_all_runs(kind()).problems == ()


class _Making(OrderedDict):
    """Makes what it is asked for, and takes nothing by other ways."""

    def __getitem__(self, key):
        raise AssertionError(key)

    def update(self, *_):
        raise AssertionError


class _Chosen(nn.Module):
    def __init__(self):
        super().__init__()
        self.kinds = _Making(a=nn.ReLU)

    def forward(self, x):
        OrderedDict.__setitem__(self.kinds, "b", nn.Tanh)
        return x * 2


def test_containers_of_somebodys_own_class_are_asked_nothing():
    net = _Chosen()

    assert not fxengine.capture(net, X).problems

    assert list(net.kinds) == ["a"]


ELSEWHERE = types.ModuleType("elsewhere")
exec(
    """
calls = 0
table = {}

def count():
    global calls
    calls += 1
    return calls

def first(x):
    return table.setdefault("x", x)

def through(x):
    return x * count()
""",
    vars(ELSEWHERE),
)
count = ELSEWHERE.count


class _Calling(nn.Module):
    def __init__(self, step):
        super().__init__()
        self.step = step

    def forward(self, x):
        return self._helped(x)

    def _helped(self, x):
        return {"count": lambda: x * count(), "first": lambda: ELSEWHERE.first(x), "through": lambda: x * 2}[
            self.step
        ]()


class _Through(_Calling):
    def _helped(self, x):
        return ELSEWHERE.through(x)


@pytest.mark.parametrize(
    ("net", "name"),
    [(_Calling("count"), "calls"), (_Calling("first"), "table"), (_Through("through"), "calls")],
)
def test_what_a_run_leaves_behind_in_another_file_is_told_and_put_back(net, name):
    found = fxengine.capture(net, X)

    assert f"`{name}`" in found.problems[0].headline
    assert (ELSEWHERE.calls, ELSEWHERE.table) == (0, {})


def test_another_file_that_is_only_asked_is_no_problem():
    assert not fxengine.capture(_Calling("through"), X).problems


class Kept:
    """What holds the values of another, and knows it."""

    def __init__(self, values, parent):
        self.values, self.parent = values, parent


class Held:
    """An object that can be called, and keeps its tensors two steps deeper."""

    def __init__(self, **values):
        self.__dict__["kept"] = Kept(values, self)

    def __getattr__(self, name):
        kept = self.__dict__.get("kept")
        if kept is None or name not in kept.values:
            raise AttributeError(name)
        return kept.values[name]

    def __call__(self):
        return iter(self.kept.values)


class OfHeld(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, data):
        assert set(data()) == {"x", "scale"}
        return self.fc(data.x) * data.scale


def test_what_an_object_keeps_in_another_is_an_input_and_no_constant():
    root = OfHeld()
    first, other = (Held(x=torch.randn(4, 3), scale=torch.randn(2)) for _ in range(2))
    captured = fxengine.capture(root, (first,))
    assert not captured.problems
    assert not [node for node in captured.graph.nodes if node.op == "get_attr"]
    assert torch.equal(captured.graph_module(other), root(other))
    assert not torch.equal(captured.graph_module(first), captured.graph_module(other))
