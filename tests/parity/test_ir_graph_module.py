"""Graph modules behave as torch.fx's do: state, code, calls, errors, copies, saving, TorchScript."""

import copy
import inspect
import io
import operator
import pickle
import re
import sys
import traceback
import typing
import warnings

import pytest
import torch
import torch.fx
import torch.fx.graph_module
from torch import nn
from torch.package import PackageExporter, PackageImporter

import fxengine.graph
import fxengine.graph_module
import fxengine.tracer

LIBRARIES = {"torch.fx": torch.fx, "fxengine": fxengine}


@pytest.fixture(params=list(LIBRARIES))
def library(request):
    return LIBRARIES[request.param]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("scale", torch.full((3,), 2.0))
        self.plain = torch.full((3,), 5.0)
        self.linear = nn.Linear(3, 3)
        self.note = "text"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.layers = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.unused = nn.Linear(1, 1)
        self.bias = nn.Parameter(torch.zeros(3))


def build(library):
    graph = library.graph.Graph()
    x = graph.placeholder("x")
    y = graph.call_module("layers.0", (x,))
    y = graph.call_function(operator.mul, (y, graph.get_attr("block.weight")))
    y = graph.call_function(operator.add, (y, graph.get_attr("block.scale")))
    y = graph.call_function(operator.add, (y, graph.get_attr("block.plain")))
    y = graph.call_module("block.linear", (y,))
    graph.output((y, graph.get_attr("block.note")))
    return graph


def module_of(library, root=None):
    return library.graph_module.GraphModule(Net().eval() if root is None else root, build(library))


def small(library, function=torch.relu, *args):
    """Return a module that applies a function to its input."""
    graph = library.graph.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(function, (x, *args)))
    return library.graph_module.GraphModule({}, graph)


def state_of(module):
    return {
        "parameters": [name for name, _ in module.named_parameters()],
        "buffers": [name for name, _ in module.named_buffers()],
        "modules": [(name, type(child).__name__) for name, child in module.named_modules()],
        "state_dict": list(module.state_dict()),
        "training": module.training,
        "class": type(module).__name__,
        "code": module.code,
        "text": str(module),
    }


def test_attributes_are_taken_from_the_root():
    root = Net().eval()
    theirs, ours = (module_of(library, root) for library in LIBRARIES.values())
    assert state_of(ours) == state_of(theirs)
    assert ours.block.weight is root.block.weight
    x = torch.randn(2, 3)
    assert torch.equal(ours(x)[0], theirs(x)[0])


def test_attributes_from_a_dict():
    net = Net()
    attributes = {
        "layers.0": net.layers[0],
        "block.weight": net.block.weight,
        "block.scale": net.block.scale,
        "block.plain": net.block.plain,
        "block.linear": net.block.linear,
        "block.note": "text",
    }
    theirs, ours = (module_of(library, attributes) for library in LIBRARIES.values())
    assert state_of(ours) == state_of(theirs)
    assert "block.plain" in dict(ours.named_buffers())


def test_a_nested_attribute_does_not_wipe_out_what_is_around_it(library):
    graph = library.graph.Graph()
    graph.output((graph.get_attr("a.b.weight"), graph.get_attr("a.b"), graph.get_attr("a")))
    outer = nn.Module()
    outer.b = nn.Linear(1, 1)
    other = nn.Parameter(torch.ones(1))
    module = library.graph_module.GraphModule({"a.b.weight": other, "a.b": outer.b, "a": outer}, graph)
    assert module.a.b.weight is other


def test_refused_roots(library):
    with pytest.raises(RuntimeError, match="that target was not provided in ``root``"):
        module_of(library, {})
    with pytest.raises(RuntimeError, match="Unsupported type"):
        library.graph_module.GraphModule(3, build(library))
    with pytest.raises(AttributeError):
        module_of(library, nn.Module())
    with pytest.raises(AssertionError, match="Expected a Graph instance"):
        module_of(library).graph = 3


def test_class_name(library):
    module = library.graph_module.GraphModule(Net(), build(library), class_name="Chosen")
    assert type(module).__name__ == "Chosen"
    assert repr(module).startswith("Chosen(")
    assert module._get_name() == "Chosen"


def test_each_instance_has_a_class_of_its_own(library):
    first, second = small(library), small(library, torch.neg)
    assert type(first) is not type(second)
    assert type(first).forward is not type(second).forward
    again = type(first).__new__(type(first))
    assert type(again).__mro__[1] is library.graph_module.GraphModule

    class Derived(library.graph_module.GraphModule):
        pass

    derived = Derived(nn.Module(), small(library).graph)
    assert isinstance(derived, Derived)
    assert type(derived).__mro__[1] is Derived
    assert type(copy.deepcopy(derived)).__mro__[1] is Derived


def test_recompile_and_graph_assignment(library):
    module = small(library)
    x = torch.tensor([-1.0, 2.0])
    node = module.graph.find_nodes(op="call_function", target=torch.relu)[0]
    node.target = torch.neg
    assert torch.equal(module(x), torch.relu(x))
    assert "torch.neg" in module.recompile().src
    assert torch.equal(module(x), -x)
    module.graph = small(library, torch.abs).graph
    assert torch.equal(module(x), x.abs())
    assert module.graph.owning_module is module


def test_submodules_that_are_graph_modules_are_recompiled_too(library):
    inner = small(library)
    graph = library.graph.Graph()
    graph.output(graph.call_module("inner", (graph.placeholder("x"),)))
    outer = library.graph_module.GraphModule({"inner": inner}, graph)
    next(iter(reversed(inner.graph.nodes))).prev.target = torch.neg
    outer.recompile()
    assert outer(torch.ones(1)).item() == -1
    assert outer.print_readable(print_output=False).count("def forward") == 2


def test_print_readable(capsys):
    root = Net()
    texts = []
    for library in LIBRARIES.values():
        module = module_of(library, root)
        for node in module.graph.nodes:
            node.meta["val"] = torch.zeros(2, 3)
            node.meta["stack_trace"] = 'File "m.py", line 3, in forward\n    y = f(x)\n'
        module.add_submodule("child", small(library))
        texts.append(module.print_readable(include_stride=True, include_device=True, colored=True, expanded_def=True))
        assert capsys.readouterr().out == texts[-1] + "\n"
    assert texts[1] == texts[0]


def test_the_generated_line_is_shown_when_a_call_fails(capsys):
    messages = []
    for library in LIBRARIES.values():
        module = small(library, operator.add, torch.ones(3))
        module.graph.find_nodes(op="call_function", target=operator.add)[0].args = (
            next(iter(module.graph.nodes)),
            "text",
        )
        module.recompile()
        with pytest.raises(TypeError) as caught:
            module(3)
        assert not caught.value.__suppress_context__ or caught.value.__cause__ is None
        messages.append(re.sub(r"(?s)^Traceback.*?(?=Call using)", "", capsys.readouterr().err))
    assert messages[1] == messages[0]
    assert "Call using an FX-traced Module, line 5 of the traced Module's generated forward function:" in messages[1]
    assert "<--- HERE" in messages[1]


def test_nothing_is_shown_when_a_submodule_fails(library, capsys):
    module = module_of(library)
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        module(torch.randn(2, 4))
    assert capsys.readouterr().err == ""


def test_tracebacks_and_inspect_show_generated_source(library):
    module = small(library, operator.add, "text")
    try:
        module.forward(3)
    except TypeError:
        frame = traceback.extract_tb(sys.exc_info()[2])[-1]
    assert frame.filename.startswith("<eval_with_key>")
    assert frame.line == "add = x + 'text';  x = None"
    assert "add = x + 'text'" in inspect.getsource(module.forward)
    assert list(inspect.signature(module.forward).parameters) == ["x"]


def test_traced_function_in_the_file_name(library):
    module = small(library)
    module.graph._co_fields = {"co_filename": "model.py", "co_firstlineno": 7, "co_name": "forward"}
    module.recompile()
    assert module.forward.__code__.co_filename.endswith(" from model.py:7 in forward")


def test_deepcopy(library):
    module = module_of(library)
    module.meta["self"] = module
    module.meta["list"] = [1]
    created = []
    module._register_create_node_hook(created.append)
    copied = copy.deepcopy(module)
    assert copied.meta["self"] is copied
    assert copied.meta["list"] == [1]
    assert copied.meta["list"] is not module.meta["list"]
    assert copied.block.weight is not module.block.weight
    assert copied.graph is not module.graph
    assert copied.graph.owning_module is copied
    assert copied.code == module.code
    assert type(copied).__name__ == type(module).__name__
    assert len(copied._create_node_hooks) == 1
    x = torch.randn(2, 3)
    assert torch.equal(copied(x)[0], module(x)[0])
    assert not copied.training


def test_deepcopy_keeps_preserved_attributes_and_calls_hooks(library):
    module = small(library)
    seen = []
    module._register_deepcopy_hook(seen.append)
    module.meta["_user_preserved_attributes"] = {"kept": 3}
    copied = copy.deepcopy(module)
    assert copied.kept == 3
    assert seen == [copied]
    module._unregister_deepcopy_hook(seen.append)
    assert module._deepcopy_hooks == []


def test_deepcopy_of_a_graph_longer_than_the_recursion_limit(library):
    graph = library.graph.Graph()
    x = graph.placeholder("x")
    for _ in range(sys.getrecursionlimit() + 100):
        x = graph.call_function(torch.relu, (x,))
    graph.output(x)
    copied = copy.deepcopy(graph)
    assert str(copied) == str(graph)
    copied.lint()
    assert not {id(node) for node in copied.nodes} & {id(node) for node in graph.nodes}


def test_deepcopy_of_a_graph_keeps_its_tracer_and_output(library):
    class Tracer:
        pass

    graph = library.graph.Graph(tracer_cls=Tracer)
    x = graph.placeholder("x", type_expr=int)
    graph.output((x, [x]), type_expr=typing.Any).meta["fact"] = 1
    copied = copy.deepcopy(graph)
    assert copied._tracer_cls is Tracer
    assert copied.output_node().type is typing.Any
    assert copied.output_node().meta == {"fact": 1}
    assert copied.owning_module is None


def test_copy_shares_graph_and_meta(library):
    module = module_of(library)
    module.meta["a"] = 1
    copied = copy.copy(module)
    assert copied.meta is module.meta
    assert copied.graph is module.graph
    assert copied.block.weight is module.block.weight
    replica = module._replicate_for_data_parallel()
    assert replica._is_replica
    assert replica.code == module.code


def trace(library, root):
    tracer = (torch.fx if library is torch.fx else fxengine.tracer).Tracer()
    return library.graph_module.GraphModule(root, tracer.trace(root), type(root).__name__)


class Trained(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.scale = nn.Parameter(torch.full((3,), 2.0))

    def forward(self, x, n: int = 2):
        return torch.cat([self.linear(x) * self.scale, x.relu()], dim=1) + n


def test_pickle(library):
    module = trace(library, Trained())
    module.add_submodule("kept.deep", nn.Linear(1, 1))
    module.dummy_buffer = nn.Buffer(torch.empty(1))
    module.dummy_parameter = nn.Parameter(torch.empty(1))
    module.note = "text"
    restored = pickle.loads(pickle.dumps(module))
    x = torch.randn(2, 3)
    assert torch.equal(restored(x), module(x))
    assert restored.code == module.code
    assert restored.note == "text"
    assert {name for name, _ in restored.named_parameters()} == {name for name, _ in module.named_parameters()}
    assert hasattr(restored, "dummy_buffer")
    assert restored.kept.deep.weight.shape == (1, 1)
    again = pickle.loads(pickle.dumps(restored))
    assert torch.equal(again(x), module(x))
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    assert torch.equal(torch.load(buffer, weights_only=False)(x), module(x))


def test_a_hand_made_module_is_pickled_too(library):
    module = small(library, torch.clamp, 0.0, 6.0)
    restored = pickle.loads(pickle.dumps(module))
    assert torch.equal(restored(torch.tensor([-1.0, 9.0])), torch.tensor([0.0, 6.0]))


def test_package(library):
    module = trace(library, Trained())
    for node in module.graph.nodes:
        node.meta["stack_trace"] = f"trace of {node.name}"
    file = io.BytesIO()
    with PackageExporter(file) as exporter:
        exporter.extern(["torch.**", "fxengine.**", "sys", "tests.**"])
        exporter.intern("**")
        exporter.save_pickle("model", "model.pkl", module)
    file.seek(0)
    restored = PackageImporter(file).load_pickle("model", "model.pkl")
    x = torch.randn(2, 3)
    assert torch.equal(restored(x), module(x))
    assert type(restored).__name__ == "Trained"
    assert [node.meta.get("stack_trace") for node in restored.graph.nodes] == [
        node.meta.get("stack_trace") for node in module.graph.nodes
    ]


def test_to_folder(library, tmp_path, monkeypatch):
    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)
            self.act = nn.GELU()
            self.weight = nn.Parameter(torch.ones(3))
            self.register_buffer("shift", torch.full((3,), 4.0))

        def forward(self, x):
            return self.act(self.linear(x)) * self.weight + self.shift

    name = f"saved_{'theirs' if library is torch.fx else 'ours'}"
    module = trace(library, Deep())
    with pytest.warns(UserWarning, match="Was not able to save"):
        module.to_folder(tmp_path / name, "Saved")
    monkeypatch.syspath_prepend(str(tmp_path))
    saved = __import__(name).Saved()
    x = torch.randn(2, 3)
    assert torch.equal(saved(x), module(x))


def test_torchscript(library):
    graph = library.graph.Graph()
    x = graph.placeholder("x", type_expr=torch.Tensor)
    items = graph.placeholder("items", type_expr=typing.List[torch.Tensor])  # noqa: UP006
    flag = graph.placeholder("flag", type_expr=typing.Optional[int], default_value=None)  # noqa: UP045
    del flag
    y = graph.call_module("linear", (x,))
    y = graph.call_function(torch.add, (y, graph.get_attr("weight")), {"alpha": 2})
    graph.output(graph.call_function(torch.cat, ([y, x],), {"dim": 1}), type_expr=torch.Tensor)
    del items
    module = library.graph_module.GraphModule(
        {"linear": nn.Linear(3, 3), "weight": nn.Parameter(torch.ones(3))}, graph, "Scripted"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(module)
    x = torch.randn(2, 3)
    assert torch.equal(scripted(x, [x]), module(x, [x]))


def user_function(x):
    return undefined(x)  # noqa: F821 - what TorchScript is to complain about.


def test_torchscript_says_which_module_called(library):
    graph = library.graph.Graph()
    graph.output(graph.call_function(user_function, (graph.placeholder("x"),)))
    module = library.graph_module.GraphModule({}, graph, "Caller")
    with (
        pytest.warns(DeprecationWarning, match="jit"),
        pytest.raises(Exception, match=r"'user_function' is being compiled since it was called from 'Caller\.forward'"),
    ):
        torch.jit.script(module)


def test_submodules(library):
    module = module_of(library)
    assert module.add_submodule("new.deep.conv", nn.Conv1d(1, 1, 1))
    assert isinstance(module.get_submodule("new.deep.conv"), nn.Conv1d)
    assert not module.add_submodule("block.weight.impossible", nn.ReLU())
    assert module.delete_submodule("new.deep.conv")
    assert not module.delete_submodule("new.deep.conv")
    assert not module.delete_submodule("missing.deep")
    assert not module.delete_submodule("block.weight")
    module.add_submodule("block.extra", nn.Linear(1, 1))
    module.delete_all_unused_submodules()
    assert [name for name, _ in module.named_modules()] == ["", "layers", "layers.0", "block", "block.linear"]


def test_unused_submodules_keep_what_a_called_module_contains(library):
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.ReLU()))

    graph = library.graph.Graph()
    graph.output(graph.call_module("outer", (graph.placeholder("x"),)))
    module = library.graph_module.GraphModule({"outer": Outer()}, graph)
    module.delete_all_unused_submodules()
    assert "outer.inner.1.0" in dict(module.named_modules())


def test_hooks(library):
    module = small(library)
    created, erased, replaced = [], [], []
    module._register_create_node_hook(created.append)
    module._register_erase_node_hook(erased.append)
    x, relu, output = module.graph.nodes
    with module._set_replace_hook(lambda old, new, user: replaced.append((old.name, new, user.name))):
        with module.graph.inserting_after(x):
            neg = module.graph.call_function(torch.neg, (x,))
        relu.replace_input_with(x, neg)
        neg.name = "renamed"
        x.replace_all_uses_with(x)
    output.replace_input_with(relu, neg)
    module.graph.erase_node(relu)
    assert created == [neg]
    assert erased == [relu]
    assert replaced == [("x", "neg", "relu"), ("neg", "renamed", "relu"), ("x", "x", "renamed")]
    module._unregister_create_node_hook(created.append)
    module._unregister_erase_node_hook(erased.append)
    assert module._create_node_hooks == module._erase_node_hooks == []
    with pytest.raises(AssertionError, match="must be a callable"):
        module._register_create_node_hook(3)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda m: m.graph.get_attr("missing"), "Attempted to insert a get_attr Node with no underlying reference"),
        (lambda m: m.graph.get_attr("no.such.thing"), "Failed to fetch module no.such!"),
        (lambda m: m.graph.get_attr("block.note"), "Attempted to insert a get_attr Node with no underlying reference"),
    ],
)
def test_warnings_about_missing_attributes(library, edit, message):
    module = module_of(library)
    with pytest.warns(UserWarning, match=message):
        edit(module)


def test_lint_looks_targets_up():
    refusals = []
    for library in LIBRARIES.values():
        for target, op in (
            ("missing", "get_attr"),
            ("block.missing.deep", "call_module"),
            ("block.note", "call_module"),
            ("block.weight", "call_module"),
        ):
            module = module_of(library)
            with module.graph.inserting_before(module.graph.output_node()):
                module.graph.create_node(op, target)
            with pytest.raises(RuntimeError) as caught:
                module.graph.lint()
            refusals.append(str(caught.value))
        module = module_of(library)
        next(iter(module.graph.nodes)).target = torch.relu
        with pytest.raises(ValueError, match="a str is expected") as wrong:
            module.graph.lint()
        refusals.append(str(wrong.value))
    half = len(refusals) // 2
    assert refusals[half:] == refusals[:half]


def test_dead_code_in_submodules_that_are_read(library):
    inner = small(library)
    with inner.graph.inserting_before(inner.graph.output_node()):
        inner.graph.call_function(torch.neg, (next(iter(inner.graph.nodes)),))
    graph = library.graph.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(map, (graph.get_attr("body"), x)))
    outer = library.graph_module.GraphModule({"body": inner}, graph)
    outer.add_submodule("not_read", inner)
    assert outer.graph.eliminate_dead_code()
    assert "neg" not in outer.body.code
    assert not outer.graph.eliminate_dead_code()


class Effectful(nn.Module):
    _is_impure = True

    def forward(self, x):
        return x


def test_an_impure_module_stays(library):
    graph = library.graph.Graph()
    x = graph.placeholder("x")
    graph.call_module("effect", (x,))
    graph.call_module("none", (x,))
    graph.output(x)
    module = library.graph_module.GraphModule({"effect": Effectful(), "none": nn.ReLU()}, graph)
    module.graph.eliminate_dead_code()
    assert [node.target for node in module.graph.nodes if node.op == "call_module"] == ["effect"]


def test_a_custom_code_generator(library):
    class ListCodeGen(library.graph.CodeGen):
        def gen_fn_def(self, free_vars, maybe_return_annotation):
            names = ", ".join(free_vars)
            return (
                f"def forward(self, args_list: List[torch.Tensor]){maybe_return_annotation}:\n    {names} = args_list"
            )

        def additional_globals(self):
            return [("List", typing.List)]  # noqa: UP006

        def process_inputs(self, *inputs):
            assert len(inputs) == 1
            return inputs[0]

        def generate_output(self, output_args):
            return f"return {output_args!r}, 'end'"

    graph = library.graph.Graph()
    a, b = graph.placeholder("a"), graph.placeholder("b")
    graph.output(graph.call_function(operator.add, (a, b)))
    graph.set_codegen(ListCodeGen())
    module = library.graph_module.GraphModule({}, graph)
    assert module([1, 2]) == (3, "end")
    assert graph.process_inputs([1, 2]) == [1, 2]
    assert type(copy.deepcopy(module).graph._codegen) is ListCodeGen
    assert list(inspect.signature(module.forward).parameters) == ["args_list"]


def test_boxed_code(library):
    graph = library.graph.Graph()
    a, b = graph.placeholder("a", type_expr=int), graph.placeholder("b", default_value=3)
    graph.output(graph.call_function(operator.add, (a, b)))
    graph.set_codegen(library.graph._BoxedCodeGen())
    module = library.graph_module.GraphModule({}, graph)
    arguments = [1, 2]
    assert module(arguments) == 3
    assert arguments == []
    assert module._boxed_call


def test_a_transformer_of_code_is_in_force_until_the_end_of_the_with_statement(library, capsys):
    module = small(library)
    with module.graph.on_generate_code(lambda former: lambda body: ["print('outer')\n", *body]):
        with module.graph.on_generate_code(lambda former: lambda body: ["print('inner')\n", *former(body)]):
            module.recompile()
        module(torch.ones(1))
        assert capsys.readouterr().out == "inner\nouter\n"
        module.recompile()
        module(torch.ones(1))
        assert capsys.readouterr().out == "outer\n"
    module.recompile()
    module(torch.ones(1))
    assert capsys.readouterr().out == ""


def test_insertion_point_without_a_with_statement(library):
    module = small(library)
    graph = module.graph
    graph.inserting_before(graph.output_node())
    graph.call_function(torch.neg, (next(iter(graph.nodes)),))
    graph.call_function(torch.abs, (next(iter(graph.nodes)),))
    assert [node.name for node in graph.nodes] == ["x", "relu", "neg", "abs_1", "output"]


def test_torch_compile_takes_graph_modules(library):
    module = trace(library, Trained())
    x = torch.randn(2, 3)
    compiled = torch.compile(module, backend="eager", fullgraph=library is torch.fx)
    assert torch.allclose(compiled(x), module(x))
