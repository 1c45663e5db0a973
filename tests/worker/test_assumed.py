"""What models need of statements that cannot be executed is assumed as the file uses it, and told."""

import ast

import pytest

from fxworker.assuming import assumed_value
from tests.worker.harness import all_problems, marked, of, only_problem
from tests.worker.test_refused import HEAD, net


@pytest.mark.parametrize(
    ("statements", "expression", "parameters"),
    [
        ("frame = pd.read_csv('x.csv')\nnum_users = frame.user.nunique()", "num_users", 1000),
        ("import os\nworld_size = int(os.environ['SIZE_OF_NOTHING'])", "8 // world_size", 8),
        ("with open('/no/config.yaml') as f:\n    cfg = load(f)", "cfg['model']['hidden']", 64),
        ("with open('/no/config.yaml') as f:\n    cfg = load(f)", "cfg.net.depth + len(cfg.net.hidden)", 66),
        ("words = open('/no/words').read()\nsignals = len(words)", "signals", 64),
        ("kind = ''\nif kind == 'grey':\n    nc = 1\nelif kind == 'rgb':\n    nc = 3", "nc", 1),
        ("import os\nNAME = os.environ['NAME_OF_NOTHING']", "len(NAME) + 2", 2),
        ("weights = torch.tensor(open('/no/weights').read()).float()", "len(weights)", 10),
        ("from absent_tables import get_dims\ndims = get_dims()", "sum(each for at, each in enumerate(dims))", 128),
        ("labels = [each.strip() for each in open('/no/labels')]", "len(labels)", 10),
        ("import package_of_nobody\ncfg = package_of_nobody.load('x.yaml')", "cfg.model.hidden", 64),
        ("import absent_cfg\ncfg = absent_cfg.load('x.yaml')\ncfg.merge_with_cli()", "cfg.model.hidden", 64),
        ("cfg = open('/no/config')", "cfg.width * sum(k for k in cfg.mults)", 192),
        ("from absent_config import cfg, WIDTH", "cfg.model.hidden + WIDTH", 128),
        ("import absent_config as config", "config.HIDDEN", 64),
        ("from .absent_config import CFG", "CFG['hidden']", 64),
        ("if len(open('/no/words').read()) > 3:\n    wide, deep = 6, 2", "wide * deep", 12),
    ],
)
def test_what_cannot_be_known_is_assumed_as_it_is_used(worker, model, statements, expression, parameters):
    report = worker.trace(model(f"{HEAD}{statements}\n{net(expression)}"))
    assert of(report, "Net").status == "complete"
    assert of(report, "Net").facts.parameters == 3 * parameters + 3
    assert {each.code for each in all_problems(report)} == {"FX101"}
    assert not any("has no attribute" in each.message for each in all_problems(report))
    assert any("a guess" in each.explanation for each in all_problems(report))


def test_what_follows_from_an_assumption_is_computed(worker, model):
    lines = f"{HEAD}cfg = open('/no/config')\nwidth = 2 * cfg['hidden']\n"
    report = worker.trace(model(lines + net("width") + net("cfg['hidden']", "Other")))
    assert of(report, "Net").facts.parameters == 3 * 128 + 3
    assert of(report, "Other").facts.parameters == 3 * 64 + 3


def test_a_default_of_a_parameter_may_be_assumed(worker, model):
    lines = f"{HEAD}vocab = open('/no/vocab').read()\nvocab_size = len(vocab)\n"
    text = lines + net("width").replace("__init__(self)", "__init__(self, width=vocab_size)")
    assert of(worker.trace(model(text)), "Net").facts.parameters == 3 * 1000 + 3


def test_what_an_assumption_does_not_fit_is_no_fault_of_the_file(worker, model):
    used = net("[*width][1]")
    text = f"{HEAD}width = open('/no/width').read()\nother = width.strip() + 1\n{used}"
    problem = only_problem(worker.trace(model(text)))
    assert (problem.code, marked(text, problem.location)) == ("FX101", "open('/no/width')")


def test_what_a_model_raises_with_an_assumption_is_a_doubt(worker, model):
    forward = "if limit['hidden'] > 3:\n            raise ValueError(limit)\n        return self.fc(x)"
    text = f"{HEAD}limit = open('/no/limits')\n{net('4').replace('return self.fc(x)', forward)}"
    raised = next(each for each in all_problems(worker.trace(model(text))) if each.code == "FX009")
    assert raised.severity == "warning"
    assert "built with `limit = {'hidden': 64}`, a guess" in raised.explanation


def test_where_nothing_tells_what_it_is_nothing_is_assumed(worker, model):
    text = f"{HEAD}zzz = open('/no/such/file')\n{net('zzz')}"
    assert of(worker.trace(model(text)), "Net").status == "not traced"
    tree = ast.parse("words = read()\nwords.rows(3)")
    assert assumed_value("words", tree.body[0], tree) == ""


def test_a_branch_that_is_not_taken_and_that_nothing_needs_is_not_spoken_of(worker, model):
    text = f"{HEAD}if torch.__version__ == 'old':\n    width = 3\n{net('4')}"
    assert all_problems(worker.trace(model(text))) == []


def test_a_package_is_needed_though_an_import_that_nothing_needs_asks_for_it_first(worker, model):
    lines = "import package_of_nobody.one as one\nimport package_of_nobody.two as two\n"
    text = f"{HEAD}{lines}{net('two.width()')}"
    problem = only_problem(worker.trace(model(text)))
    assert (problem.severity, marked(text, problem.location)) == ("error", "import package_of_nobody.two as two")


def test_a_part_that_has_a_name_of_its_own_is_the_same(worker, model):
    lines = "m = cfg.model\n        width, depth = m.width, m.depth\n        "
    text = f"{HEAD}cfg = open('/no/config')\n{net('width * depth').replace('self.fc = ', lines + 'self.fc = ')}"
    assert of(worker.trace(model(text)), "Net").facts.parameters == 3 * 128 + 3


def test_a_class_of_a_missing_package_is_not_assumed(worker, model):
    text = f"{HEAD}from package_of_nobody import GAT, Config\n{net('GAT(3).width + Config(4).width')}"
    assert "a guess" not in only_problem(worker.trace(model(text))).explanation


ONE = "torch.ones(1).numpy()"


@pytest.mark.parametrize(
    ("name", "use", "expected"),
    [
        ("matrix", "nn.Embedding.from_pretrained(torch.FloatTensor(matrix))", "torch.ones(10, 64).numpy()"),
        ("edges", "torch.from_numpy(edges)", "torch.ones(10).numpy()"),
        ("matrix", "torch.tensor(matrix), matrix.shape[1]", "torch.ones(10, 64).numpy()"),
        (
            "env",
            "torch.FloatTensor((env.space.high - env.space.low) / 2)",
            f"type('env', (), {{'space': type('space', (), {{'high': {ONE}, 'low': {ONE}}})()}})()",
        ),
    ],
)
def test_what_a_tensor_is_made_of_is_an_array(name, use, expected):
    tree = ast.parse(f"{name} = load()\nmade = {use}\n")
    assert assumed_value(name, tree.body[0], tree) == expected


def test_what_a_model_keeps_and_calls_is_not_assumed():
    tree = ast.parse("net = load()\nclass Net:\n    def forward(self, x): return self.net(x).view(net.width)\n")
    assert assumed_value("net", tree.body[0], tree) == ""
