"""Torch's compiler, which takes as long to load as torch, stays unloaded."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys, torch
from fxworker.tracing import warm_up
warm_up()
x = torch.empty(4, device="meta")
{}
assert "torch._dynamo" not in sys.modules
"""


@pytest.mark.parametrize("call", ["x.std()", "x.bool().all()", "torch.logical_not(x != 0)", "x.softmax(0).log()"])
def test_kernels_without_data_do_not_load_the_compiler(call: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(call)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
