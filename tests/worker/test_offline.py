"""Models that want their weights from the network are built without."""

import subprocess
import sys
import time
import types

import pytest

from fxworker.offline import without_weights
from fxworker.wire import Limits
from tests.worker.harness import of

PRETRAINED = """
import os
import urllib.request
import torch
from torch import nn
from torch.hub import load_state_dict_from_url

URL = "https://download.pytorch.org/models/resnet18-f37072fd.pth"

class Net(nn.Module):
    def __init__(self, pretrained=True):
        super().__init__()
        self.fc = nn.Linear(3, 4)
        if pretrained:
            weights = load_state_dict_from_url(URL)
            self.load_state_dict({key: value for key, value in weights.items() if "fc" in key})

    def forward(self, x):
        return self.fc(x)

class Fetched(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)
        torch.hub.download_url_to_file(URL, "/tmp/no-such-folder/weights.pth")
        self.load_state_dict(torch.load("/tmp/no-such-folder/weights.pth")["model"])

    def forward(self, x):
        return self.fc(x)

class Apart(nn.Module):
    def __init__(self):
        super().__init__()
        torch.hub.download_url_to_file(URL, "/tmp/no-such-folder/weights.pth")
        self.fc = nn.Linear(3, 4)
        self.mean, self.deviation = torch.load("/tmp/no-such-folder/weights.pth")

    def forward(self, x):
        return self.fc(x)

class Retrieved(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)
        if not os.path.exists("/tmp/no-such-folder/fetched.pth"):
            urllib.request.urlretrieve(URL, "/tmp/no-such-folder/fetched.pth")
        self.load_state_dict(torch.load("/tmp/no-such-folder/fetched.pth"))

    def forward(self, x):
        return self.fc(x)
"""

WAITING = """
import socket, time
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.host = "none"
        for _ in range(3):
            try:
                socket.create_connection(("10.255.255.1", 80), timeout=5)
            except OSError as error:
                self.host = type(error).__name__

    def forward(self, x):
        return x + (self.host == "ConnectionRefusedError")
"""


def test_weights_that_would_be_downloaded_are_absent(worker, model):
    report = worker.trace(model(PRETRAINED))
    assert of(report, "Net").status == "complete"
    assert of(report, "Fetched").status == "complete"
    assert of(report, "Retrieved").status == "complete"


def test_connections_are_refused_at_once(worker, model):
    started = time.monotonic()
    net = of(worker.trace(model(WAITING)), "Net")
    assert net.status == "complete"
    assert "True" in net.code
    assert time.monotonic() - started < 10


def test_what_absent_weights_lack_is_said_in_words(worker, model):
    text = """
from torch import load, nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, load("/no/such/weights.pt").width)

    def forward(self, x):
        return self.fc(x)
"""
    (problem,) = of(worker.trace(model(text)), "Net").problems
    assert "'weights that are absent' object has no attribute 'width'" in problem.message


def test_what_absent_weights_are_written_into_stays_as_it_is(worker, model):
    text = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)
        one, other = torch.load("/no/such/weights.pt"), torch.load("/no/such/others.pt")
        self.fc.weight.data.copy_(torch.cat([one["fc"]["weight"], other["weight"]], dim=1))
        self.fc.bias.data.copy_(0.5 * (one["bias"] + other["bias"]))

    def forward(self, x):
        return self.fc(x)
"""
    assert of(worker.trace(model(text)), "Net").status == "complete"


def test_absent_weights_have_what_code_cannot_do_without(worker, model):
    text = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        stored = torch.load("/no/such/weights.pt")
        assert "state_dict" in stored and "optimizer" in stored
        for key in ("state_dict", "epoch"):
            if key not in stored:
                raise ValueError(f"no {key}")
        if "module" in stored:
            raise ValueError("of several devices")
        self.fc = nn.Linear(3, 8 if "wide" in stored else 4)
        self.load_state_dict(stored["state_dict"])

    def forward(self, x):
        return self.fc(x)
"""
    net = of(worker.trace(model(text)), "Net")
    assert (net.status, net.facts.parameters) == ("complete", 16)


def test_nothing_is_installed(worker, model):
    text = """
import subprocess, sys
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.why = ""
        try:
            subprocess.check_call([sys.executable, "-m", "pip", "install", "no-such-thing"])
        except OSError as error:
            self.why = type(error).__name__
        self.told = subprocess.check_output(["echo", "pip installs"], text=True).strip()

    def forward(self, x):
        return x + (self.why == "ConnectionRefusedError" and self.told == "pip installs")
"""
    net = of(worker.trace(model(text)), "Net")
    assert "True" in net.code


def test_nothing_is_compiled(worker, model):
    text = """
import os, subprocess, sys
from torch import nn

def told(*command):
    try:
        return subprocess.check_output(command, text=True).strip()
    except OSError as error:
        return str(error)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.compiled = [told(*each) for each in (
            ["make", "-C", "csrc"],
            ["/usr/bin/g++", "-shared", "op.cpp"],
            ["ninja", "-v"],
            [sys.executable, "setup.py", "build_ext", "--inplace"],
        )]
        self.shell = os.system("cd csrc && make"), os.system("true")
        self.other = told("echo", "a make-up of op.cpp")

    def forward(self, x):
        refused = set(self.compiled) == {"fxls runs files without compiling extensions"}
        return x + (refused and self.shell == (127 << 8, 0) and self.other == "a make-up of op.cpp")
"""
    net = of(worker.trace(model(text)), "Net")
    assert "True" in net.code


def test_extensions_that_would_be_compiled_are_stood_in_for(worker, tmp_path):
    (tmp_path / "ops.py").write_text(
        "from torch.utils.cpp_extension import load\n"
        "fused = load(name='fused', sources=['fused.cpp', 'fused_kernel.cu'])\n"
        "try:\n    fast = load(name='fast', sources=['fast.cu'])\nexcept Exception:\n    fast = None\n"
    )
    path = tmp_path / "net.py"
    path.write_text("""
from torch import nn
from torch.utils.cpp_extension import load_inline
from ops import fast, fused

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3 if fast is None else 5)
        self.own = load_inline(name="own", cpp_sources="int one() { return 1; }")

    def forward(self, x):
        return self.fc(x)

class Other(nn.Module):
    def forward(self, x):
        return fused.act(x)
""")
    report = worker.trace(path)
    (problem,) = report.problems
    assert "'fused (an extension that would be compiled)'" in problem.message
    net = of(report, "Net")
    assert net.status == "complete"
    assert not net.problems


def test_torchs_compiler_finds_no_triton_where_one_is_stood_in_for(worker, model):
    text = """
import triton
from torch import nn
from torch._inductor.runtime import triton_compat
from torch.utils._triton import has_triton_package

@triton.jit
def kernel(x):
    return x

class Net(nn.Module):
    def forward(self, x):
        return kernel(x) + (not triton_compat.HAS_TRITON and not has_triton_package())
"""
    # The compiler alone takes seconds to import.
    net = of(worker.trace(model(text), limits=Limits(seconds=60.0)), "Net")
    assert "True" in net.code


def test_what_fetches_weights_may_be_imported_on_the_way(monkeypatch):
    name = "huggingface_hub.file_download"
    monkeypatch.delitem(sys.modules, name, raising=False)

    def fetch(filename):
        raise ConnectionError(filename)

    def work():
        if name not in sys.modules:
            monkeypatch.setitem(sys.modules, name, types.SimpleNamespace(_hf_hub_download_to_cache_dir=fetch))
        return sys.modules[name]._hf_hub_download_to_cache_dir(filename=wanted)

    wanted = "model.safetensors"
    assert without_weights(work).endswith(wanted)
    wanted = "config.json"
    with pytest.raises(ConnectionError):
        without_weights(work)


@pytest.mark.parametrize(("package", "arguments"), [("gdown", ("1a2b",)), ("wget", ("https://x.org/a.pth",))])
def test_packages_that_fetch_files_fetch_no_weights(monkeypatch, package, arguments):
    def fetch(*args, **kwargs):
        raise ConnectionError(package)

    monkeypatch.setitem(sys.modules, package, types.SimpleNamespace(download=fetch))
    target = "/no/such/weights.pth"
    assert without_weights(lambda: sys.modules[package].download(*arguments, target)) == target
    with pytest.raises(ConnectionError):
        without_weights(lambda: sys.modules[package].download(*arguments, "vocab.txt"))


READ = """
import torch
from torch import nn

data = torch.load("/tmp/no-such-folder/data.pt")


class Net(nn.Module):
    def __init__(self, width=data.shape[1]):
        super().__init__()
        self.fc = nn.Linear(width, 4)

    def forward(self, x):
        return self.fc(x)
"""


def test_a_file_that_is_not_there_is_named_where_its_content_decides(worker, model):
    (problem,) = worker.trace(model(READ)).problems
    assert problem.code == "FX101"
    assert "the file 'data.pt' is not there" in problem.message


HUBS = """
import torch
from torch import nn

class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.hub.load("nobody/nowhere", "tiny", pretrained=True)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.body(x))

class Released(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.hub.load("nobody/nowhere:v1", "tiny")
        self.body.fc = nn.Linear(self.body.fc.in_features, 2)

    def forward(self, x):
        return self.body(x)

class Local(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.hub.load("no/such/folder", "tiny", source="local")

    def forward(self, x):
        return self.body(x)
"""


@pytest.mark.parametrize("name", ["Named", "Released"])
def test_a_model_of_a_repository_that_cannot_be_fetched_is_stood_in_for(worker, model, name):
    assert of(worker.trace(model(HUBS)), name).status == "complete"


def test_a_repository_in_a_folder_is_not_fetched(worker, model):
    assert of(worker.trace(model(HUBS)), "Local").status == "not traced"


def test_a_hub_that_was_imported_before_is_offline_too():
    script = """
import sys, types
hub = types.ModuleType("huggingface_hub.constants")
hub.HF_HUB_OFFLINE = False
sys.modules[hub.__name__] = hub
from fxworker.offline import go_offline
go_offline()
print(hub.HF_HUB_OFFLINE)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert ran.stdout.split() == ["True"]
