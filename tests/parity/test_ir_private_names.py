"""Names with an underscore that people use all the same: they are where torch.fx has them, and do the same."""

import importlib
from types import SimpleNamespace

import pytest
import torch
import torch.fx
from torch import nn

import fxengine
from fxengine import _symbolic_trace as our_tracing
from fxengine import _utils as our_descriptions
from tests.support.parity import neutral

NAMES = {
    "_symbolic_trace": (
        "CURRENT_PATCHER HAS_VARSTUFF PH PHBase PHWithMeta ProxyableClassMeta Tracer _ConstantAttributeType _Patcher "
        "_PatchedFn _PatchedFnDel _PatchedFnSetAttr _PatchedFnSetItem _assert_is_none _autowrap_check "
        "_constant_attribute_types _create_wrapped_func _create_wrapped_method _find_proxy _is_fx_tracing_flag "
        "_maybe_revert_all_patches _new_patcher _orig_module_call _orig_module_getattr _patch_function "
        "_patch_wrapped_functions _proxyable_classes _transfer_attrs _wrapped_fns_to_patch _wrapped_methods_to_patch "
        "base_types is_fx_symbolic_tracing is_fx_tracing map_aggregate wrap Graph GraphModule ParameterProxy Proxy "
        "Scope ScopeContextManager TracerBase"
    ),
    "_lazy_graph_module": "_force_skip_lazy_graph_module_flag _use_lazy_graph_module_flag",
    "_pytree": (
        "_dict_flatten_spec _dict_flatten_spec_exact_match _list_flatten_spec _list_flatten_spec_exact_match "
        "_namedtuple_flatten_spec _tuple_flatten_spec _tuple_flatten_spec_exact_match"
    ),
    "_utils": "_format_graph_code first_call_function_nn_module_stack get_node_context lazy_format_graph_code",
    "config": "disable_progress do_not_emit_stack_traces verbose_progress",
    "graph": (
        "CodeGen PythonCode _BoxedCodeGen _CustomBuiltin _Namespace _PyTreeCodeGen _PyTreeInfo _color_codes _color_fns "
        "_custom_builtins _format_target _illegal_names _is_from_torch _legal_ops _node_list _override_sym_repr "
        "_parse_stack_trace _register_custom_builtin _snake_case dtype_abbrs inplace_methods magic_methods "
        "py_sym_types reflectable_magic_methods"
    ),
    "graph_module": (
        "FX_GRAPH_MODULE_FILE_PREFIX _CodeOnlyModule _EvalCacheLoader _WrappedCall _assign_attr _copy_attr _del_attr "
        "_exec_with_source _forward_from_src _get_attr _get_attr_via_attr_list _has_attr _loader _metadata_hash "
        "_method_from_src _print_readable"
    ),
    "node": (
        "BaseArgumentTypes _find_module_of_method _get_qualified_name _side_effectful_functions "
        "_side_effectful_need_to_be_preserved_pre_dispatch _type_repr base_types has_side_effect"
    ),
    "operator_schemas": "_nonzero_schemas",
    "passes.graph_drawer": "HAS_PYDOT",
    "passes.infra.partitioner": "_DependencyViewer",
    "passes.operator_support": "_get_arg_dtype",
    "passes.reinplace": "_get_all_later_node_usages _get_view_inverse_node_usages",
    "passes.runtime_assert": "_get_example_value _get_sym_val",
    "passes.utils.matcher_with_name_node_map_utils": "_split_to_graph_and_name_node_map",
    "proxy": "_COPY_META_FIELDS MetaProxy ParameterProxy Scope ScopeContextManager",
    "subgraph_rewriter": "_replace_attributes",
}


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in NAMES.items() for name in names.split()]
)
def test_the_name_is_there(module, name):
    ours = getattr(importlib.import_module(f"fxengine.{module}"), name)
    if hasattr(importlib.import_module(f"torch.fx.{module}"), name):  # Older torch lacks some.
        theirs = getattr(importlib.import_module(f"torch.fx.{module}"), name)
        assert callable(ours) == callable(theirs)
        assert isinstance(ours, type) == isinstance(theirs, type)


@pytest.mark.parametrize("name", ["HAS_VARSTUFF", "_constant_attribute_types", "_ConstantAttributeType"])
def test_the_value_is_the_same(name):
    assert getattr(our_tracing, name) == getattr(torch.fx._symbolic_trace, name)


def test_dtypes_have_the_same_short_names():
    theirs = torch.fx.graph.dtype_abbrs
    assert {dtype: fxengine.graph.dtype_abbrs[dtype] for dtype in theirs} == theirs


def test_settings_have_the_same_defaults():
    for name in NAMES["config"].split():
        assert getattr(fxengine.config, name) == getattr(torch.fx.config, name)


@pytest.fixture(params=[torch.fx, fxengine], ids=["torch.fx", "fxengine"])
def engine(request):
    return request.param


class TestPatcher:
    def test_replacements_end_with_the_statement(self, engine):
        namespace = {"f": abs}
        with engine._symbolic_trace._Patcher() as patcher:
            patcher.patch(namespace, "f", lambda x: x)
            patcher.patch(namespace, "f", lambda x: -x)
            patcher.patch(namespace, "len", lambda x: 7)
            assert namespace["f"](3) == -3
            assert namespace["len"]([]) == 7
            kinds = [type(patched).__name__ for patched in patcher.patches_made]
        assert kinds == ["_PatchedFnSetItem", "_PatchedFnSetItem", "_PatchedFnDel"]
        assert namespace == {"f": abs}
        assert patcher.patches_made == []

    def test_methods(self, engine):
        class Owner:
            def f(self):
                return 1

        original = Owner.f
        with engine._symbolic_trace._Patcher() as patcher:
            patcher.patch_method(Owner, "f", lambda self: 2)
            assert Owner().f() == 2
            patcher.revert_all_patches()
            assert Owner().f() == 1
            assert patcher.reapply_all_patches() is patcher.patches_made
            assert Owner().f() == 2
        assert Owner.f is original

    def test_what_is_marked_stays(self, engine):
        def marked():
            return 1

        setattr(marked, "__fx_already_patched", True)  # As a string: else Python mangles the name.
        namespace = {"f": marked}
        with engine._symbolic_trace._Patcher() as patcher:
            patcher.patch(namespace, "f", lambda: 2)
            assert namespace["f"] is marked

    def test_a_name_without_meaning(self, engine):
        with engine._symbolic_trace._Patcher() as patcher, pytest.raises(KeyError):
            patcher.patch({}, "no such name", lambda: 2)

    def test_visits(self, engine):
        patcher = engine._symbolic_trace._Patcher()
        things = [{}, {}]
        assert [patcher.visit_once(thing) for thing in (things[0], things[1], things[0])] == [True, True, False]

    def test_the_current_patcher(self, engine):
        tracing = engine._symbolic_trace
        namespace = {"f": abs}
        assert tracing.CURRENT_PATCHER is None
        with tracing._new_patcher() as outer:
            outer.patch(namespace, "f", lambda x: 0)
            with tracing._new_patcher() as inner:
                assert tracing.CURRENT_PATCHER is inner
            assert tracing.CURRENT_PATCHER is outer
            with tracing._maybe_revert_all_patches():
                assert namespace["f"] is abs
            assert namespace["f"](5) == 0
        assert tracing.CURRENT_PATCHER is None
        assert namespace["f"] is abs

    def test_without_a_patcher_nothing_is_reverted(self, engine):
        with engine._symbolic_trace._maybe_revert_all_patches():
            assert engine._symbolic_trace.CURRENT_PATCHER is None

    def test_autowrapped_functions_record(self, engine):
        tracing = engine._symbolic_trace
        namespace = {"f": torch.sigmoid, "_hidden": torch.sigmoid, "g": torch.relu}
        tracer = tracing.Tracer()
        tracer.graph = engine.Graph()
        proxy = engine.Proxy(tracer.graph.placeholder("x"), tracer)
        with tracing._Patcher() as patcher:
            for _ in range(2):
                tracing._autowrap_check(patcher, namespace, {id(torch.sigmoid)})
            recorded = namespace["f"](proxy)
            assert len(patcher.patches_made) == 1
            assert namespace["_hidden"] is torch.sigmoid
        assert (recorded.node.op, recorded.node.target) == ("call_function", torch.sigmoid)
        assert recorded.node.meta["is_wrapped"]
        assert namespace["f"] is torch.sigmoid

    def test_wrapped_functions_record(self, engine, monkeypatch):
        tracing = engine._symbolic_trace
        namespace = {"f": torch.sigmoid}

        class Owner:
            def method(self, value):
                return value

        monkeypatch.setitem(tracing._wrapped_fns_to_patch, (id(namespace), "f"), namespace)
        monkeypatch.setitem(tracing._wrapped_fns_to_patch, (id(namespace), "len"), namespace)
        monkeypatch.setattr(tracing, "_wrapped_methods_to_patch", tracing._wrapped_methods_to_patch)
        tracing._wrapped_methods_to_patch.append((Owner, "method"))
        graph = engine.Graph()
        proxy = engine.Proxy(graph.placeholder("x"))
        original = Owner.method
        try:
            with tracing._Patcher() as patcher:
                tracing._patch_wrapped_functions(patcher)
                recorded = [namespace["f"](proxy), namespace["len"](proxy), Owner().method(3), namespace["len"]([1])]
        finally:
            tracing._wrapped_methods_to_patch.remove((Owner, "method"))
        assert [value.node.target for value in recorded[:2]] == [torch.sigmoid, len]
        assert recorded[2:] == [3, 1]
        assert Owner.method is original
        assert namespace == {"f": torch.sigmoid}


def test_finding_a_proxy(engine):
    find = engine._symbolic_trace._find_proxy
    graph = engine.Graph()
    first, last = engine.Proxy(graph.placeholder("x")), engine.Proxy(graph.placeholder("y"))
    assert find(1, [2], {"a": (3, slice(None, 4))}) is None
    assert find([first], {"a": (1, slice(None, last))}) is last


def test_a_function_with_plain_parameters(engine):
    def function(a, *rest, b=1, **others):
        return a, rest, b, others

    patched = engine._symbolic_trace._patch_function(function, 4)
    assert patched(1, 2, 3, 4) == (1, 3, 2, 4)


def test_attributes_of_a_placeholder(engine):
    class WithShape(engine._symbolic_trace.PHBase):
        def __init__(self):
            self.shape = (2, 3)

    node = SimpleNamespace()
    engine._symbolic_trace._transfer_attrs(WithShape(), node)
    assert node.shape == (2, 3)
    assert vars(node) == {"shape": (2, 3)}


def test_whether_a_trace_is_running(engine):
    seen = []

    def function(x):
        seen.append(engine._symbolic_trace._is_fx_tracing_flag)
        with engine._symbolic_trace._maybe_revert_all_patches():
            seen.append(nn.Linear(2, 2)(torch.ones(2)).shape)
        return x

    assert not engine._symbolic_trace._is_fx_tracing_flag
    engine.symbolic_trace(function)
    assert seen == [True, (2,)]


def test_proxyable_classes(engine):
    class Pair(metaclass=engine.ProxyableClassMeta):
        def __init__(self, left, right):
            self.left = left
            self.right = right

    class Plain:
        pass

    classes = engine._symbolic_trace._proxyable_classes
    assert Pair in classes
    assert Plain not in classes
    classes.setdefault(Plain)
    try:
        constant = Plain()
        graph = engine.Tracer().trace(lambda x: x.add(constant))
    finally:
        del classes[Plain]
    assert [node.target for node in graph.find_nodes(op="get_attr")] == ["_Plain_constant_0"]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        return torch.relu(self.linear(x)) + 1


def test_descriptions_of_graphs():
    described = []
    for engine in (torch.fx, fxengine):
        descriptions = importlib.import_module(f"{engine.__name__}._utils")
        traced = engine.symbolic_trace(Net())
        lazy = descriptions.lazy_format_graph_code("title", traced, 3, colored=True)
        text = str(lazy).replace(traced.forward.__code__.co_filename, "FILE")
        last = next(iter(reversed(traced.graph.nodes)))
        contexts = [
            descriptions.get_node_context(node, count) for node in (last, last.prev.prev) for count in (1, 2, 9)
        ]
        stack = descriptions.first_call_function_nn_module_stack(traced.graph)
        empty = descriptions.first_call_function_nn_module_stack(engine.Graph())
        described.append((text, contexts, str(stack), empty))
    assert described[0] == described[1]


def test_the_code_is_made_when_it_is_read():
    traced = fxengine.symbolic_trace(Net())
    lazy = our_descriptions.lazy_format_graph_code("title", traced)
    traced.graph.find_nodes(op="call_function", target=torch.relu)[0].target = torch.tanh
    traced.recompile()
    assert "torch.tanh" in str(lazy)


def test_readable_code_under_another_name():
    texts = []
    for engine in (torch.fx, fxengine):
        graph = engine.Graph()
        graph.output(graph.call_module("inner", (graph.placeholder("x"),)))
        outer = engine.GraphModule({"inner": engine.symbolic_trace(Net())}, graph)
        texts.append(neutral(engine.graph_module._print_readable(outer, "Called", print_output=False)))
        with pytest.raises(AssertionError, match="must be used on a module with a graph"):
            engine.graph_module._print_readable(SimpleNamespace(graph=None), "Called")
    assert texts[0] == texts[1]


def test_attributes_by_their_path(engine):
    model = nn.Sequential(nn.Sequential(nn.Linear(1, 1)))
    get = engine.graph_module._get_attr_via_attr_list
    assert get(model, []) is model
    assert get(model, ["0", "0", "bias"]) is model[0][0].bias
    with pytest.raises(AssertionError):
        get(model, ["1", "0"])
    with pytest.raises(AttributeError):
        get(model, ["0", "1"])


def test_how_symbolic_numbers_are_written(engine):
    usual = engine.graph.CodeGen._sym_repr
    with engine.graph._override_sym_repr(lambda number: "n"):
        assert engine.graph.CodeGen._sym_repr(3) == "n"
    assert engine.graph.CodeGen._sym_repr is usual


@pytest.mark.parametrize("verbose", [True, False])
def test_progress(engine, verbose, monkeypatch, capsys):
    monkeypatch.setattr(engine.config, "disable_progress", False)
    monkeypatch.setattr(engine.config, "verbose_progress", verbose)
    result = engine.Interpreter(engine.symbolic_trace(Net())).run(torch.rand(2))
    assert result.shape == (2,)
    shown = capsys.readouterr().err
    assert "100" in shown or "Interpreter" in shown  # Without tqdm torch shows percents alone.
    monkeypatch.setattr(engine.config, "disable_progress", True)
    engine.Interpreter(engine.symbolic_trace(Net())).run(torch.rand(2))
    assert capsys.readouterr().err == ""


def test_flags_of_lazy_modules(engine):
    lazy = engine._lazy_graph_module
    assert not lazy._use_lazy_graph_module_flag
    with lazy._use_lazy_graph_module(True):
        assert lazy._use_lazy_graph_module_flag
    with lazy._force_skip_lazy_graph_module(), lazy._use_lazy_graph_module(True):
        assert lazy._force_skip_lazy_graph_module_flag
        assert not lazy._use_lazy_graph_module_flag


def test_what_depends_on_a_node(engine):
    partitioner = importlib.import_module(f"{engine.__name__}.passes.infra.partitioner")
    traced = engine.symbolic_trace(Net())
    viewer = partitioner._DependencyViewer(traced)
    found = {node.name: sorted(each.name for each in viewer.downstreams_of(node)) for node in traced.graph.nodes}
    assert found["linear"] == ["add", "output", "relu"]
    assert found["output"] == []
    chosen = partitioner.CapabilityBasedPartitioner(traced, None)
    assert chosen.dependency_viewer.downstreams == viewer.downstreams


def test_one_hash_for_equal_code(engine):
    nodes = {0: {"name": "x", "op": "placeholder", "target": "x", "stack_trace": None}}
    assert engine.graph_module._metadata_hash("code", nodes) == torch.fx.graph_module._metadata_hash("code", nodes)
    assert engine.graph_module.FX_GRAPH_MODULE_FILE_PREFIX == torch.fx.graph_module.FX_GRAPH_MODULE_FILE_PREFIX


def test_containers_by_their_specification(engine):
    values = [3, {"b": 1, "a": (2, 4)}]
    spec = torch.utils._pytree.tree_structure(values)
    inner = torch.utils._pytree.tree_structure(values[1])
    flat = engine._pytree
    assert flat.tree_flatten_spec(values, spec) == torch.utils._pytree.tree_leaves(values)
    assert flat._dict_flatten_spec(values[1], inner) == [values[1][key] for key in inner.context]
    assert flat._dict_flatten_spec_exact_match(values[1], inner)
    assert not flat._list_flatten_spec_exact_match([1, 2, 3], spec)
