"""What is done with the graph module of a generated program, written once for whichever engine made it.

Each deed takes `load`, which returns a module of torch.fx by name, torch.fx's or the engine's, a graph module of its
own and what to call it with, and returns what it made of it. Deliberately nothing in here knows the programs.
"""

import copy
import io
import operator
import pickle
import random
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

Load = Callable[[str], Any]
Deed = Callable[[Load, Any, tuple[Any, ...]], Any]


def outcome(module: Any, inputs: tuple[Any, ...]) -> Any:
    """What a module gives, or the error that it ends with."""
    torch.manual_seed(0)
    try:
        return module(*copy.deepcopy(inputs))
    except Exception as error:  # noqa: BLE001 - whatever it raises is compared.
        return f"{type(error).__name__}: {error}".partition("\n")[0]


def printed(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    texts = [str(gm.graph), gm.code, gm.print_readable(print_output=False), gm.graph.python_code("this").src]
    texts += [node.format_node() for node in gm.graph.nodes]
    texts += [str(node.normalized_arguments(gm, normalize_to_only_use_kwargs=True)) for node in gm.graph.nodes]
    verbose = gm.graph.python_code("self", verbose=True, include_stride=True, include_device=True).src
    return texts, verbose, [(node.is_impure(), node.stack_trace) for node in gm.graph.nodes]


def without_dead_code(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    changed = gm.graph.eliminate_dead_code()
    gm.delete_all_unused_submodules()
    gm.graph.lint()
    gm.recompile()
    return changed, gm, outcome(gm, inputs)


def without_repetition(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    # torch.fx forgets how inputs are taken apart, and takes 2, 2.0 and True for one number where they are equal.
    numbers = {(type(each), each) for node in gm.graph.nodes for each in node.args if isinstance(each, int | float)}
    if hasattr(gm.graph._codegen, "pytree_info") or len({number for _, number in numbers}) < len(numbers):
        return outcome(gm, inputs)
    # It merges calls of a module in training mode too, of which each draws or counts for itself.
    result = load("torch.fx.passes.dialect.common.cse_pass").CSEPass(banned_ops=set())(gm.eval())
    return result.modified, result.graph_module, outcome(result.graph_module, inputs)


def split(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    nodes = [node for node in gm.graph.nodes if node.op not in {"placeholder", "output"}]
    length = max(1, len(nodes) // 3)
    place = {node: index // length for index, node in enumerate(nodes)}
    parts = load("torch.fx.passes.split_module").split_module(gm, gm, lambda node: place.get(node, 0))
    return parts, outcome(parts, inputs)


def split_anyhow(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    draw = random.Random(len(list(gm.graph.nodes)))
    place = {node.name: draw.choice(("a", "b", None)) for node in gm.graph.nodes}
    return load("torch.fx.passes.split_module").split_module(
        gm, gm, lambda node: place[node.name], keep_original_order=draw.random() < 0.5
    )


def replaced(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    replace = load("torch.fx.subgraph_rewriter").replace_pattern
    found = [
        replace(gm, lambda x: torch.relu(x).neg(), lambda x: functional.gelu(x) + 1),
        replace(gm, lambda x, y: x + y, lambda x, y: torch.add(y, x)),
        replace(gm, lambda x, y: (x * y) - y, lambda x, y: (x - 1) * y),
        replace(gm, lambda x: x.t().t(), lambda x: x),
        replace(gm, lambda x: x.clone(), lambda x: x.contiguous()),
    ]
    said = [
        (match.anchor.name, [(key.name, value.name) for key, value in match.nodes_map.items()])
        for matches in found
        for match in matches
    ]
    return said, gm, outcome(gm, inputs)


def normalized(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    normalize = load("torch.fx.experimental.normalize")
    result = normalize.NormalizeArgs(gm).transform()
    operators = normalize.NormalizeOperators(copy.deepcopy(gm)).transform()
    return result, operators, outcome(result, inputs), outcome(operators, inputs)


def annotated(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    return load("torch.fx.experimental.schema_type_annotation").AnnotateTypesWithSchema(gm).transform()


def transformed(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    result = load("torch.fx").Transformer(gm).transform()
    return result, outcome(result, inputs)


def interpreted(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    return outcome(load("torch.fx").Interpreter(gm).run, inputs)


def interpreted_with_context(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    seen = []

    class Noting(load("torch.fx").Interpreter):
        def run_node(self, n: Any) -> Any:
            result = super().run_node(n)
            seen.append((n.name, type(result).__name__, sorted(key.name for key in self.env)))
            return result

    return outcome(Noting(gm, garbage_collect_values=True).run, inputs), seen


def shaped(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    result = outcome(load("torch.fx.passes.shape_prop").ShapeProp(gm).propagate, inputs)
    return result, [(node.name, node.meta.get("tensor_meta"), str(node.meta.get("type"))) for node in gm.graph.nodes]


def faked(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    outcome(load("torch.fx.passes.fake_tensor_prop").FakeTensorProp(gm, mode).propagate, inputs)
    return [(node.name, str(node.meta.get("val"))) for node in gm.graph.nodes]


def copied(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    other = load("torch.fx").Graph()
    names: dict[Any, Any] = {}
    result = other.graph_copy(gm.graph, names)
    other.output(result)
    again = copy.copy(gm)
    return str(other), [node.name for node in names.values()], copy.deepcopy(gm), again, outcome(again, inputs)


def pickled(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    result = pickle.loads(pickle.dumps(gm))
    return result, outcome(result, inputs)


def folded(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    result = load("torch.fx.experimental.const_fold").split_const_subgraphs(gm)
    return result, outcome(result, inputs)


def traced_again(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    result = load("torch.fx").symbolic_trace(gm)
    return result, outcome(result, inputs)


def in_a_folder(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        gm.to_folder(folder, "Written")
        text = (Path(folder) / "module.py").read_text().replace(folder, "folder")
        return text, sorted(path.name for path in Path(folder).iterdir())


def partitioned(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    if any(node.target is operator.getitem and len(node.all_input_nodes) > 1 for node in gm.graph.nodes):
        # An item whose index is computed belongs to two producers: torch.fx moves it to and fro without end.
        return outcome(gm, inputs)
    support = load("torch.fx.passes.operator_support").create_op_support(
        lambda _, node: node.op != "get_attr" and len(node.name) % 2 == 0
    )
    partitioner = load("torch.fx.passes.infra.partitioner").CapabilityBasedPartitioner(
        gm, support, allows_single_node_partition=True
    )
    partitions = partitioner.propose_partitions()
    names = [sorted(node.name for node in partition.nodes) for partition in partitions]
    return names, partitioner.fuse_partitions(partitions), outcome(gm, inputs)


def tagged(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    nodes = [node for node in gm.graph.nodes if node.op not in {"placeholder", "output", "get_attr"}]
    for index, node in enumerate(nodes):
        node.tag = f"part{index * 2 // max(1, len(nodes))}"
    tags = sorted({node.tag for node in nodes})
    result = load("torch.fx.passes.split_utils").split_by_tags(gm, tags)
    return result, outcome(result, inputs)


def edited(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    graph = gm.graph
    calls = [node for node in graph.nodes if node.op.startswith("call")]
    for index, node in enumerate(calls):
        match index % 5:
            case 0:
                with graph.inserting_after(node):
                    new = graph.call_function(torch.neg, (node,))
                node.replace_all_uses_with(new, lambda user, new=new: user is not new)
            case 1:
                with graph.inserting_before(node):
                    graph.call_method("relu", (node.all_input_nodes[0],)) if node.all_input_nodes else None
            case 2:
                node.name = "renamed"
                node.meta["mark"] = index
            case 3:
                node.prepend(graph.create_node("call_function", torch.ones, (1,), name="ones"))
            case _:
                node.kwargs = {**node.kwargs}
                node.args = tuple(node.args)
    found = [node.name for node in graph.find_nodes(op="call_function", target=torch.neg)]
    found += [node.name for node in graph.find_nodes(op="placeholder", sort=False)]
    graph.lint()
    gm.recompile()
    return found, gm, outcome(gm, inputs)


def embedded(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    fx = load("torch.fx")

    class Around(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = gm
            self.other = torch.nn.ReLU()

        def forward(self, *args: Any) -> Any:
            return self.inner(*args[: len(inputs)])

    class Through(fx.Tracer):
        def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
            return False

    around = Around()
    whole = fx.GraphModule(around, fx.Tracer().trace(around))
    return whole, fx.GraphModule(around, Through().trace(around))


def rewritten(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    optimization = load("torch.fx.experimental.optimization")
    return optimization.remove_dropout(gm), optimization.fuse(copy.deepcopy(gm).eval(), inplace=False)


def sized(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    outcome(load("torch.fx.passes.shape_prop").ShapeProp(gm).propagate, inputs)
    manipulation = load("torch.fx.passes.graph_manipulation")
    return [manipulation.get_size_of_node(gm, node) for node in gm.graph.nodes]


def tabulated(load: Load, gm: Any, inputs: tuple[Any, ...]) -> Any:
    out = io.StringIO()
    with redirect_stdout(out):
        gm.graph.print_tabular()
        gm.print_readable()
    return out.getvalue()


DEEDS: dict[str, Deed] = {
    deed.__name__: deed
    for deed in (
        printed,
        without_dead_code,
        without_repetition,
        split,
        split_anyhow,
        replaced,
        normalized,
        annotated,
        transformed,
        interpreted,
        interpreted_with_context,
        shaped,
        faked,
        copied,
        pickled,
        folded,
        traced_again,
        in_a_folder,
        partitioned,
        tagged,
        edited,
        embedded,
        rewritten,
        sized,
        tabulated,
    )
}
