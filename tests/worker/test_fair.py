"""What is no fault of a model is not told as one, and what is wrong with it however it is built is told where it is."""

import pytest

from tests.worker.harness import all_problems, of, only_problem

HEAD = "import torch\nfrom torch import nn\n\n\n"

CAUGHT = """def fitted(a, b):
    try:
        solution = torch.linalg.lstsq(a, b).solution
    except:
        print("lstsq failed")
    return solution


class Net(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.weight = nn.Parameter(fitted(torch.rand(dim, dim), torch.rand(dim, 1)))

    def forward(self, x):
        return x @ self.weight
"""

BRANCHES = """class Net(nn.Module):
    def __init__(self, equal=None, above=None):
        super().__init__()
        if equal:
            solver = nn.Linear(4, equal)
        elif above:
            solver = nn.Linear(4, above)
        self.solver = solver

    def forward(self, x):
        return self.solver(x)
"""

UNKNOWN = """class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nnn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x)
"""

STAND_IN = """import no_such_package


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = no_such_package.load("tiny")
        self.size = no_such_package.SIZE, no_such_package.SIZE

    def forward(self, x):
        return nn.functional.interpolate(x, self.size)
"""

FETCHED = """from urllib.request import urlopen


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        with urlopen("http://words.invalid/list") as found:
            self.embed = nn.Embedding(len(found.read()), 4)

    def forward(self, x):
        return self.embed(x)
"""

INDEXED = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.randn(16, 4), persistent=False)

    def forward(self, steps: torch.LongTensor):
        rows = self.table[steps]
        return rows.relu()
"""

MASKED = """class Net(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)

    def forward(self, x, mask=None):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = q @ k.transpose(-2, -1)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return scores.softmax(-1) @ v
"""

MASKED_BEFORE = MASKED.replace(
    "        return scores",
    "        if scores.shape[1] > 8:\n            scores = scores[:, :8]\n        return scores",
)

MASKED_LATE = MASKED.replace(
    "        if mask", "        if scores.max() > 10:\n            scores = scores / 2\n        if mask"
)

RECORD = """from dataclasses import dataclass


@dataclass
class Dims:
    n_vocab: int
    n_text_state: int
    n_text_head: int


class Net(nn.Module):
    def __init__(self, dims: Dims):
        super().__init__()
        self.embed = nn.Embedding(dims.n_vocab, dims.n_text_state)
        self.attend = nn.MultiheadAttention(dims.n_text_state, dims.n_text_head)
        self.norm = nn.LayerNorm(dims.n_text_state)

    def forward(self, tokens):
        x = self.embed(tokens)
        return self.norm(x + self.attend(x, x, x)[0])
"""


@pytest.fixture
def trace(worker, tmp_path):
    def traced(text):
        path = tmp_path / "net.py"
        path.write_text(HEAD + text)
        return worker.trace(path)

    return traced


def test_what_code_catches_of_a_tensor_without_values_is_built_with_some(trace):
    report = trace(CAUGHT)
    assert all_problems(report) == []
    assert of(report, "Net").status == "complete"


def test_defaults_that_leave_out_every_branch_are_no_way_to_build_it(trace):
    report = trace(BRANCHES)
    assert [each.severity for each in all_problems(report)] in ([], ["information"])


def test_a_name_that_nothing_has_is_wrong_with_any_arguments(trace):
    problem = only_problem(trace(UNKNOWN))
    assert (problem.code, problem.severity, problem.location.span.line) == ("FX102", "error", 8)
    assert "name 'nnn' is not defined" in problem.message


def test_what_the_constructor_of_a_module_is_given_is_wrong_with_any_arguments(trace):
    text = UNKNOWN.replace("super().__init__()", "super().__init__(width)").replace("nnn", "nn")
    problem = only_problem(trace(text))
    assert (problem.code, problem.severity, problem.location.span.line) == ("FX102", "error", 7)
    (target,) = trace(text.replace("(width)", "(*[width][:0])", 1)).targets
    assert (target.status, target.problems) == ("complete", ())


def test_what_stands_in_for_a_missing_package_is_no_fault_of_the_model(trace):
    assert {each.code for each in all_problems(trace(STAND_IN))} == {"FX101"}


def test_that_the_network_is_closed_is_no_error(trace):
    problem = only_problem(trace(FETCHED))
    assert (problem.code, problem.severity) == ("FX102", "warning")


def test_an_index_into_a_tensor_of_the_model_is_one_problem(trace):
    problem = only_problem(trace(INDEXED))
    assert problem.code == "FX002"
    assert problem.message == (
        "`self.table[steps]` takes items of a tensor that is not in the graph by `steps`, which is symbolic"
    )
    assert problem.hint.startswith("`torch.index_select(self.table, 0, steps)`")


def test_an_optional_input_that_the_graph_needs_is_fed(trace):
    net = of(trace(MASKED), "Net")
    assert net.status == "complete"
    assert net.inputs.expression == "torch.randn(2, 8), torch.ones(2, 2, dtype=torch.bool)"
    assert all(node.tensor is not None for node in net.nodes if node.name in {"masked_fill", "softmax", "matmul_1"})


def test_an_optional_input_that_the_graph_needs_behind_a_question_for_data_is_fed(trace):
    net = of(trace(MASKED_LATE), "Net")
    assert net.inputs.expression == "torch.randn(2, 8), torch.ones(2, 2, dtype=torch.bool)"
    assert all(node.tensor is not None for node in net.nodes if node.name in {"masked_fill", "softmax", "matmul_1"})


def test_what_follows_from_an_optional_input_is_decided(trace):
    net = of(trace(MASKED_BEFORE), "Net")
    assert net.inputs.expression == "torch.randn(2, 8), torch.ones(2, 2, dtype=torch.bool)"
    assert [(each.code, each.value, each.severity) for each in net.problems] == [("FX001", "False", "warning")]


def test_a_number_is_called_by_what_it_counts_and_by_which_part_has_it(trace):
    net = of(trace(RECORD), "Net")
    assert net.construct.expression == "Net(dims=Dims(n_vocab=1000, n_text_state=64, n_text_head=4))"


QUESTION = """class Net(nn.Module):
    def __init__(self, {name}):
        super().__init__()
        self.fc = nn.Linear({name}, 2)

    def forward(self, x):
        if x.shape[-1] == 64:
            x = x * 2
        return self.fc(x)
"""


def test_inputs_of_a_model_with_other_arguments_answer_nothing(worker, tmp_path):
    path = tmp_path / "net.py"
    path.write_text(HEAD + QUESTION.format(name="hidden"))
    assert only_problem(worker.trace(path)).value == "True"
    problem = only_problem(worker.edit(path, HEAD + QUESTION.format(name="patch_size")))
    assert (problem.code, problem.value) == ("FX001", "False")


ASKED_FOR = """# fx: inputs {"picture": torch.rand(2, 3, 8, 8)}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def features(self, data):
        given = data.get("features")
        return given if given is not None else {"coarse": self.conv(data["picture"])}

    def forward(self, data):
        x = self.features(data)["coarse"].flatten(1)
        return x[x > 0.5]
"""

CALLED = """# fx: inputs torch.rand(2, 3, 8, 8)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        x = self.conv(x)
        scale = x.mean()
        x = scale(x) if callable(scale) else x * scale
        return x[x > 0.5]
"""


@pytest.mark.parametrize("text", [ASKED_FOR, CALLED])
def test_what_a_model_gets_past_before_it_asks_for_data_is_no_fault_of_its(trace, text):
    found = all_problems(trace(HEAD + text))
    assert not [each.message for each in found if each.code == "FX201"]


def test_imports_in_a_circle_are_told_as_such(worker, tmp_path):
    path = tmp_path / "net.py"
    (tmp_path / "other.py").write_text("from net import Net\n")
    path.write_text(f"from other import thing\n{HEAD}{MASKED}")
    problem = only_problem(worker.trace(path, roots=(str(tmp_path),)))
    assert problem.code == "FX101"
    assert "cannot import name 'Net' from partially initialized module 'net'" in problem.message
    assert "most likely due to a circular import" in problem.message


TOO_WIDE = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 16)
        self.head = nn.Linear(32, 2)

    def forward(self, x):
        x = self.body(x).relu()
        return self.head(x)
"""


def test_layers_that_do_not_go_together_are_told_where_they_meet(trace):
    problem = only_problem(trace(TOO_WIDE))
    assert (problem.code, problem.severity, problem.location.span.line) == ("FX201", "warning", 13)
    assert "16 is the output of `self.body = nn.Linear(8, 16)`" in problem.explanation
    assert "32 is in_features of `self.head = nn.Linear(32, 2)`" in problem.explanation


def test_layers_that_were_made_with_numbers_that_nobody_wrote_are_not_told(trace):
    text = TOO_WIDE.replace("(self):", "(self, width, depth):").replace("(32, 2)", "(width * depth + 3, 2)")
    assert [each.code for each in all_problems(trace(text))] in ([], ["FX202"])


WRAPPER = """class Outside:
    def __init__(self, net):
        self.net = net

    @property
    def __class__(self):
        return type(self.net)

    def __getattr__(self, name):
        return getattr(self.net, name)


class Net(nn.Module):
    def __new__(cls, *args, **kwargs):
        made = super().__new__(cls)
        made.__init__(*args, **kwargs)
        return Outside(made)

    def __init__(self, width=4):
        super().__init__()
        self.fc = nn.Linear(width, 2)

    def forward(self, x):
        return self.fc(x)
"""

HANDED_ON = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.ReLU()

    def forward(self, *args, **kwargs):
        return self.act(*args, **kwargs)
"""


def test_what_only_says_that_it_is_a_module_stands_for_the_one_that_it_has(trace):
    report = trace(WRAPPER)
    assert all_problems(report) == []
    assert of(report, "Net").status == "complete"


def test_keywords_that_are_handed_on_are_told_where_they_are(trace):
    found = {each.location.span.column: each.message for each in all_problems(trace(HANDED_ON))}
    assert found == {
        25: "`args` is unpacked, but `*args` is one symbolic value while tracing",
        33: "`kwargs` is unpacked, but `**kwargs` is one symbolic value while tracing",
    }
