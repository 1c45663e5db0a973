"""The engine under a torch that lacks what came after the oldest supported version: it imports, traces and runs."""

import subprocess
import sys

OLDER = """
import contextlib, sys
import torch, torch.fx, torch.fx.traceback, torch.types
import torch._inductor

# What came after torch 2.6 is taken away before the engine is imported.
sys.modules["torch._inductor.compiler_bisector"] = None
traceback = torch.fx.traceback
for name in ("NodeSource", "NodeSourceAction", "get_current_replay_node", "_is_preserving_node_seq_nr", "annotate"):
    if hasattr(traceback, name):
        delattr(traceback, name)

@contextlib.contextmanager
def set_current_meta(node):
    traceback.current_meta, before = node.meta.copy(), traceback.current_meta
    try:
        yield
    finally:
        traceback.current_meta = before

traceback.set_current_meta = set_current_meta
del torch.types.py_sym_types
for name in ("OpOverload", "OpOverloadPacket", "HigherOrderOperator"):
    cls = getattr(torch._ops, name)
    if "__class_getitem__" in dir(cls):
        cls.__class_getitem__ = None
"""

TASKS = """
import importlib, pkgutil
import fxengine

skipped = {"fxengine.experimental.proxy_tensor", "fxengine.interop"}
torchs = {"symbolic_shapes", "sym_node", "recording", "validator", "_constant_symnode", "_dynamism", "_size_hinting",
          "dynamic_spec", "_backward_state", "_config"}
for module in pkgutil.walk_packages(fxengine.__path__, "fxengine."):
    if module.name not in skipped and module.name.rpartition(".")[2] not in torchs:
        importlib.import_module(module.name)

from torch import nn
from fxengine.passes.graph_transform_observer import GraphTransformObserver

net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
traced = fxengine.symbolic_trace(net)
x = torch.rand(3, 2)
assert torch.equal(fxengine.Interpreter(traced).run(x), net(x))
assert torch.equal(fxengine.Transformer(traced).transform()(x), net(x))
fxengine.replace_pattern(traced, lambda x: x.relu(), lambda x: x.sigmoid())
GraphTransformObserver(traced, "dead", subsystem="passes").apply_graph_pass(fxengine.Graph.eliminate_dead_code)
assert not fxengine.diagnose(net).problems
"""


def test_the_engine_runs_without_what_came_later():
    done = subprocess.run([sys.executable, "-c", OLDER + TASKS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
