"""Models whose own ways to fetch their weights fail are built without these."""

import pytest

from fxworker.leaving_out import with_calls_left_out
from tests.worker.harness import of

FETCHING = """
import shutil
import urllib.request
import no_such_package
from torch import nn
from weights import fill

URL = "https://example.org/net.npz"

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)
        self.fetch(URL)

    def fetch(self, url):
        with urllib.request.urlopen(url) as answer, open("/tmp/net.npz", "wb") as file:
            shutil.copyfileobj(answer, file)

    def forward(self, x):
        return self.fc(x)

class Filled(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 5)

    def forward(self, x):
        return self.fc(x)

def filled():
    net = Filled()
    fill(net, URL)
    return net

class Made(nn.Module):
    def __init__(self):
        super().__init__()
        self.make(URL)

    def make(self, url):
        self.fc = nn.Linear(3, len(urllib.request.urlopen(url).read()))

    def forward(self, x):
        return self.fc(x)
"""

WEIGHTS = """
import no_such_package

def fill(net, path):
    if no_such_package.is_address(path):
        for name, parameter in net.named_parameters():
            parameter.data = no_such_package.fetch(path)[name]
"""


PUBLISHED = """
import os
import torch
from torch import nn
import tools.web

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)
        path = os.path.expanduser("~/.net/net.pt")
        if not os.path.exists(path):
            tools.web.download("https://example.org/net.pt", path)
        self.fc.load_state_dict(torch.load(path))

    def forward(self, x):
        return self.fc(x)
"""

WEB = """
from urllib.request import urlopen

def download(url, path):
    data = urlopen(url).read()
    open(path, "wb").write(data)
"""


def test_a_function_of_a_module_in_a_package_is_left_out(worker, model):
    model("", "tools/__init__.py")
    model(WEB, "tools/web.py")
    (target,) = worker.trace(model(PUBLISHED)).targets
    assert target.status == "complete"


CHECKED = """
import hashlib
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)
        self.load()

    def load(self):
        self.fc.load_state_dict(torch.load(found("net.pt")))

    def forward(self, x):
        return self.fc(x)

def found(path):
    md5 = hashlib.md5(b"what stands in for it").hexdigest()
    assert md5 == "d507d7349b931f0638a25a48a722f98a", md5
    return path
"""


def test_what_loads_a_file_that_is_not_the_one_it_should_be_is_left_out(worker, model):
    (target,) = worker.trace(model(CHECKED)).targets
    assert target.status == "complete"


@pytest.fixture
def report(worker, model):
    model(WEIGHTS, "weights.py")
    return worker.trace(model(FETCHING))


def test_a_method_that_fetches_weights_is_left_out_without_the_network(report):
    assert of(report, "Net").status == "complete"


def test_a_function_that_fills_weights_is_left_out_without_its_package(report):
    assert of(report, "Filled").status == "complete"


def test_a_method_that_makes_a_part_is_not_left_out(report):
    (problem,) = of(report, "Made").problems
    assert "without the network" in problem.message


def test_what_fails_for_another_reason_is_not_done_again():
    done = []

    def work():
        done.append(1)
        raise ValueError("too wide")

    with pytest.raises(ValueError, match="too wide"):
        with_calls_left_out(work)
    assert done == [1]
