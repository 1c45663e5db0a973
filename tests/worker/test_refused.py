"""Statements that are needed and that nobody wants to run: what is told, what is offered, and what a choice does."""

import textwrap

import pytest

from fxworker.costs import cost_of
from tests.worker.harness import all_problems, marked, of, only_problem

HEAD = "import torch\nfrom torch import nn\n"


def net(expression: str, name: str = "Net") -> str:
    return textwrap.dedent(f"""
        class {name}(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear({expression}, 3)

            def forward(self, x):
                return self.fc(x)
        """)


COSTLY = {
    "images = torchvision.datasets.CIFAR10('x', download=True)\nwidth = len(images.classes)": "it reads a data set",
    "frame = pd.read_csv('train.csv')\nwidth = frame.shape[1]": "it reads a data set",
    "response = requests.get('http://example.org')\nwidth = len(response.text)": "it downloads something",
    "width = int(input('width? '))": "it waits for input",
    "width = int(subprocess.check_output(['nproc']))": "it runs another program",
    "for width in range(3):\n    loss(width).backward()": "it trains a model",
    "class Words(torch.utils.data.Dataset):\n    size = 4\nwords = Words()\nwidth = words.size": "it reads a data set",
    "def vocabulary():\n    return load_dataset('imdb')\nwidth = len(vocabulary())": "it reads a data set",
    "history = trainer.fit(3)\nwidth = history": "it trains a model",
}
IMPORTS = HEAD + "import subprocess\n"


@pytest.mark.parametrize("statements", COSTLY)
def test_what_is_needed_and_not_executed_is_told_where_it_is_used(worker, model, statements):
    text = f"{IMPORTS}{statements}\n{net('width')}"
    problem = only_problem(worker.trace(model(text)))
    assert (problem.code, problem.severity) == ("FX101", "warning")
    assert problem.message.endswith(f"is not executed since {COSTLY[statements]}")
    assert marked(text, problem.location) == "width"
    (related,) = problem.related
    assert related.location.span.line <= text.split("\n").index("") + 1


@pytest.mark.parametrize("statements", COSTLY)
def test_what_nothing_needs_is_not_spoken_of(worker, model, statements):
    report = worker.trace(model(f"{IMPORTS}{statements}\n{net('4')}"))
    assert of(report, "Net").status == "complete"
    assert all_problems(report) == []


def applied(text: str, fix) -> str:
    lines = text.split("\n")
    for edit in fix.edits:
        span = edit.location.span
        assert (span.column, span.end_line, span.end_column) == (0, span.line, 0)
        lines[span.line - 1] = edit.text + lines[span.line - 1]
    return "\n".join(lines)


def test_one_may_say_what_it_is(worker, model):
    text = f"{HEAD}words = load_dataset('imdb')\nvocab_size = len(words)\n{net('vocab_size')}"
    said, executed = only_problem(worker.trace(model(text))).fixes
    assert applied(text, said).split("\n")[3:5] == ["# fx: vocab_size = 1000", "vocab_size = len(words)"]
    report = worker.trace(model(applied(text, said)))
    assert of(report, "Net").facts.parameters == 3 * 1000 + 3
    assert all_problems(report) == []
    assert applied(text, executed).split("\n")[2:4] == ["# fx: run", "words = load_dataset('imdb')"]


@pytest.mark.parametrize("choice", ["# fx: run\n%s", "%s  # fx: run", "# fx: run\n# as always\n%s"])
def test_one_may_let_it_be_executed(worker, model, choice):
    data = "class Words(torch.utils.data.Dataset):\n    size = 4\n"
    text = f"{HEAD}{data}{choice % 'words = Words()'}\nwidth = words.size\n{net('width')}"
    report = worker.trace(model(text))
    assert of(report, "Net").status == "complete"
    assert all_problems(report) == []


def test_a_value_may_go_on_in_the_next_comment(worker, model):
    text = f"{HEAD}# fx: sizes = [4,\n#   5]\nsizes = pd.read_csv('x')\n{net('sizes[1]')}"
    assert of(worker.trace(model(text)), "Net").facts.parameters == 18


def test_what_fails_can_be_said_too(worker, model):
    text = f"{HEAD}hidden = open('/no/such/file')\n{net('hidden')}"
    problem = next(each for each in all_problems(worker.trace(model(text))) if "No such file" in each.message)
    (fix,) = problem.fixes
    assert "# fx: hidden = " in fix.title


def test_what_is_read_from_a_file_that_is_missing_can_be_said_as_it_is_used(worker, model):
    lines = "import json\nwith open('/no/such/file') as f:\n    config = json.load(f)\n"
    used = net("config['hidden'] + config.get('more', 2)")
    text = f"{HEAD}{lines}{used}"
    (fix,) = only_problem(worker.trace(model(text))).fixes
    assert "# fx: config = {'hidden': 64, 'more': None}" in fix.title
    mended = applied(text, fix).replace("None", "1")
    assert of(worker.trace(model(mended)), "Net").facts.parameters == 3 * 65 + 3
    text = f"{HEAD}vocab = open('/no/such/words')\n{net('len(vocab)')}"
    (fix,) = only_problem(worker.trace(model(text))).fixes
    assert of(worker.trace(model(applied(text, fix))), "Net").facts.parameters == 3 * 1000 + 3


def test_what_fails_says_what_depends_on_it_and_offers_that(worker, model):
    lines = ["text = open('/no/such/file').read()", "chars = sorted(set(text))", "vocab_size = len(chars)"]
    text = HEAD + "\n".join(lines) + "\n" + net("vocab_size")
    problem = only_problem(worker.trace(model(text)))
    assert marked(text, problem.related[0].location) == "vocab_size"
    (fix,) = problem.fixes
    assert applied(text, fix).split("\n")[4] == "# fx: vocab_size = 1000"
    assert of(worker.trace(model(applied(text, fix))), "Net").status == "complete"


def test_an_absent_package_that_nothing_speaks_of_is_no_error(worker, model):
    report = worker.trace(model(f"{HEAD}import package_of_nobody\n{net('4')}"))
    assert of(report, "Net").status == "complete"
    assert [(each.code, each.severity) for each in all_problems(report)] == [("FX101", "warning")]


def test_a_block_loses_what_is_costly_and_keeps_the_rest(worker, model):
    text = f"{HEAD}if torch.__version__:\n    width = 4\n    data = pd.read_csv('x')\n    train()\n{net('width')}"
    assert of(worker.trace(model(text)), "Net").status == "complete"


def test_what_needs_what_a_block_loses_goes_with_it(worker, model):
    lines = ("data = load_dataset('x')", "data.sort()", "count = len(data)", "width = 4")
    block = "try:\n    " + "\n    ".join(lines) + "\nexcept ValueError:\n    pass\n"
    assert of(worker.trace(model(f"{HEAD}{block}{net('width')}")), "Net").status == "complete"
    text = f"{HEAD}{block}{net('count')}"
    problem = only_problem(worker.trace(model(text)))
    assert (problem.code, marked(text, problem.location)) == ("FX101", "count")
    assert "it reads a data set" in problem.message + problem.explanation
    assert marked(text, problem.related[0].location) == "data = load_dataset('x')"


def test_an_edit_that_begins_to_need_it_is_told(worker, model):
    path = model("")
    text = f"{HEAD}scale = len(load_dataset('imdb'))\n{net('4')}"
    assert all_problems(worker.edit(path, text)) == []
    worker.edit(path, text + "\n")
    report = worker.edit(path, text.replace("self.fc(x)", "self.fc(x) * scale"))
    assert [each.code for each in all_problems(report)] == ["FX101"]


@pytest.mark.parametrize(
    "statement",
    [
        "import datasets",
        "model.train()",
        "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')",
        "weights = torch.load('x.pt')",
        "args = parser.parse_args()",
        "config = json.load(open('config.json'))",
        "model = torchvision.models.resnet18(pretrained=True)",
        "steps = [step for step in range(3)]",
        "for name in names:\n    registry[name] = make(name)",
        "backward = functools.partial(run, reverse=True)",
        "loaders = {'train': make_loader}",
    ],
)
def test_ordinary_statements_cost_nothing(statement):
    import ast

    assert cost_of(ast.parse(statement).body[0], {}) == ""
