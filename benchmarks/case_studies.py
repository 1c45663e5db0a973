"""What the passes of docs/passes do for real networks, in figures: nodes, time, error, size, balance.

Networks are torchvision's and timm's with random weights and norms that have seen data; pictures are noise. Times are
the best of several runs, side by side; ratios above 1 mean that the pass made it faster.

    python benchmarks/case_studies.py [fuse_conv_bn|quantization|pipelining|cost_analysis|lowering ...] [--threads N]
"""

import argparse
import importlib
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _timing import best_of
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fxengine import symbolic_trace
from fxengine.passes.cost_analysis import analyse_costs
from fxengine.passes.fuse_conv_bn import fuse_conv_bn
from fxengine.passes.lowering import lower, torch_compile, torchscript
from fxengine.passes.operator_support import create_op_support
from fxengine.passes.pipelining import split_into_stages
from fxengine.passes.quantization import quantize, saved_bytes
from fxengine.profiling import calibrate, profile
from tests.support import corpus

SIDE = 128
REPEATS = 7


def network(name: str, side: int = SIDE, device: str = "cpu") -> nn.Module:
    """A network in evaluation mode, its norms with the statistics of what goes through it."""
    corpus.prepare()
    library, _, model = name.partition(":")
    torch.manual_seed(0)
    with torch.device(device):
        if library == "timm":
            options = {"img_size": side} if "vit" in model else {}
            made = importlib.import_module("timm").create_model(model, **options)
        else:
            made = importlib.import_module("torchvision.models").get_model(model)
    if device == "cpu":
        for norm in made.modules():
            if isinstance(norm, nn.modules.batchnorm._BatchNorm):
                norm.momentum = None
        made.train()(torch.randn(8, 3, side, side))
    return made.eval()


def relative_error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return ((found - expected).norm() / expected.norm()).item()


def time_ratio(before: Callable[..., Any], after: Callable[..., Any], x: torch.Tensor, repeats: int = REPEATS) -> float:
    """How many times as fast the second is, by the clock on the wall."""
    times = best_of(repeats, lambda: before(x), lambda: after(x), clock=time.perf_counter)
    return times[0] / times[1]


def study_fuse_conv_bn() -> None:
    print(f"{'':34} {'nodes':>12} {'time ratio':>11} {'error':>9}")
    for name in ("torchvision:resnet18", "torchvision:resnet50", "torchvision:mobilenet_v2", "timm:efficientnet_b0"):
        model = network(name)
        traced = symbolic_trace(model)
        fused = fuse_conv_bn(traced)
        x = torch.randn(1, 3, SIDE, SIDE)
        ratio = time_ratio(traced, fused, x)
        nodes = f"{len(traced.graph.nodes)} → {len(fused.graph.nodes)}"
        print(f"{name:34} {nodes:>12} {ratio:11.2f} {relative_error(fused(x), traced(x)):9.1e}")


def study_quantization() -> None:
    print(f"{'':34} {'error':>7} {'same answer':>12} {'size ratio':>11} {'time ratio':>11}")
    for name in ("torchvision:resnet18", "torchvision:resnet50", "timm:vit_tiny_patch16_224"):
        model = network(name)
        quantized = quantize(model, [torch.randn(8, 3, SIDE, SIDE) for _ in range(2)])
        x = torch.randn(16, 3, SIDE, SIDE)
        expected, found = model(x), quantized(x)
        same = (expected.argmax(1) == found.argmax(1)).float().mean().item()
        ratio = time_ratio(model, quantized, x, 3)
        size = saved_bytes(model) / saved_bytes(quantized)
        print(f"{name:34} {relative_error(found, expected):7.3f} {same:12.0%} {size:11.2f} {ratio:11.2f}")


def study_pipelining() -> None:
    threads = torch.get_num_threads()
    print(f"batches of 8 in micro-batches of 1; time ratio to one stage with 1 thread, and with {threads}")
    print(f"{'':34} {'stages':>7} {'balance':>8} {'at best':>8} {'1 thread':>9} {f'{threads} threads':>10}")
    for name in ("torchvision:resnet18", "torchvision:mobilenet_v2", "timm:vit_tiny_patch16_224"):
        model = network(name)
        traced = symbolic_trace(model)
        one, x = torch.randn(1, 3, SIDE, SIDE), torch.randn(8, 3, SIDE, SIDE)
        measured = profile(traced, model, (one,))
        seconds = {each.name: each.timing.seconds for each in measured.nodes}
        weights = {node: seconds.get(node.name, 0.0) for node in traced.graph.nodes}
        pipeline = split_into_stages(traced, weights, threads)

        def alone(traced: nn.Module = traced, x: torch.Tensor = x) -> list[Any]:
            return [traced(part) for part in x.split(1)]

        (several,) = best_of(REPEATS, alone, clock=time.perf_counter)
        torch.set_num_threads(1)
        single, together = best_of(
            REPEATS, alone, lambda pipeline=pipeline, x=x: pipeline(x, micro_batches=8), clock=time.perf_counter
        )
        torch.set_num_threads(threads)
        print(
            f"{name:34} {len(pipeline.stages):7} {pipeline.balance:8.2f} {pipeline.ideal_speedup:8.2f}"
            f" {single / together:9.2f} {several / together:10.2f}"
        )


KNOWN = {
    "torchvision:resnet50": (4.09, 25.56, 224),
    "torchvision:vit_b_16": (17.56, 86.57, 224),
    "torchvision:mobilenet_v2": (0.30, 3.50, 224),
    "torchvision:convnext_tiny": (4.46, 28.59, 224),
    "torchvision:swin_t": (4.49, 28.29, 224),
    "torchvision:densenet121": (2.83, 7.98, 224),
}
"""What the authors give: billions of multiplications with an addition, millions of parameters, side of the picture."""


def study_cost_analysis() -> None:
    peak = calibrate(torch.device("cpu"))
    print(f"this machine: {peak.flops / 1e9:.0f} GFLOP/s, {peak.bandwidth / 1e9:.0f} GB/s")
    print(
        f"{'':28} {'GMACs':>7} {'known':>6} {'M param.':>9} {'known':>7}"
        f" {'MB alive':>9} {'FLOPs/B':>8} {'least ms':>9} {'took ms':>8}"
    )
    for name, (macs, parameters, side) in KNOWN.items():
        model = network(name, side, "meta")
        start = time.perf_counter()
        analysis = analyse_costs(model, torch.empty(1, 3, side, side, device="meta"))
        took = time.perf_counter() - start
        own = sum(parameter.numel() for parameter in model.parameters())
        least = analysis.roofline(flops=peak.flops, bandwidth=peak.bandwidth).seconds
        print(
            f"{name:28} {analysis.total.macs / 1e9:7.2f} {macs:6.2f} {own / 1e6:9.2f} {parameters:7.2f}"
            f" {analysis.peak_bytes / 1e6:9.1f} {analysis.intensity:8.1f} {least * 1e3:9.1f} {took * 1e3:8.0f}"
        )


def study_lowering() -> None:
    print("all but pools and layer norms is lowered")
    print(f"{'':34} {'back end':>12} {'parts':>6} {'failed':>7} {'left':>5} {'time ratio':>11} {'error':>9}")
    norms = (nn.functional.layer_norm, nn.functional.adaptive_avg_pool2d)
    left_out = (nn.MaxPool2d, nn.LayerNorm, nn.AdaptiveAvgPool2d)
    supports = create_op_support(
        lambda modules, node: node.target not in norms and not isinstance(modules.get(str(node.target)), left_out)
    )
    back_ends = {"torchscript": torchscript, "aot_eager": torch_compile("aot_eager"), "inductor": torch_compile()}
    for name in ("torchvision:resnet18", "timm:vit_tiny_patch16_224"):
        model = network(name)
        traced = symbolic_trace(model)
        x = torch.randn(1, 3, SIDE, SIDE)
        for label, back_end in back_ends.items():
            lowered = lower(traced, (x,), back_end, supports)
            module = lowered.module
            ratio = time_ratio(traced, module, x)
            failed = sum(part.error is not None for part in lowered.parts)
            print(
                f"{name:34} {label:>12} {len(lowered.parts):6} {failed:7} {len(lowered.interpreted):5}"
                f" {ratio:11.2f} {relative_error(module(x), traced(x)):9.1e}",
                flush=True,
            )


STUDIES: dict[str, Callable[[], None]] = {
    "fuse_conv_bn": study_fuse_conv_bn,
    "quantization": study_quantization,
    "pipelining": study_pipelining,
    "cost_analysis": study_cost_analysis,
    "lowering": study_lowering,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("studies", nargs="*", choices=[[], *STUDIES], help="by default all")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    for name in options.studies or STUDIES:
        print(f"\n{name}", flush=True)
        with torch.no_grad():
            STUDIES[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
