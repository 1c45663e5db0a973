"""Profiling one target: built for real with random weights, traced, and measured on the device that was asked for."""

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import nn

from fxengine._lazy_graph_module import (
    _LazyGraphModule as LazyGraphModule,  # pyright: ignore[reportPrivateUsage] — torch.fx's name for it.
)
from fxengine.capturing import capture
from fxengine.exploration import Diagnosis, diagnose
from fxengine.graph_module import GraphModule
from fxengine.inputs import infer_inputs
from fxengine.profiling import (
    ProfileOptions,
    ProfileResult,
    profile,
    result_from_dict,
    result_to_dict,
    to_markdown,
    to_trace,
)
from fxengine.profiling.measuring import arguments_on
from fxworker import sandbox
from fxworker.argument_lists import arguments_of
from fxworker.building import Unbuilt, build, here, scope_of
from fxworker.loading import Document, Loaded, load
from fxworker.offline import go_offline
from fxworker.reporting import Reporter
from fxworker.texts import digest
from fxworker.wire import Problem, ProfileReport, ProfileRequest

OnProgress: TypeAlias = Callable[[float, str], None]


def measure(request: ProfileRequest, on_progress: OnProgress) -> ProfileReport:
    """Return the profile of a target; what keeps it from being made is a problem in it."""
    on_progress(0.0, "loading")
    go_offline()
    document = Document.of(request)
    document.enter(request)
    loaded = load(request, document)
    reporter = Reporter(document.path, request.text)
    name = request.target.qualname
    if loaded.tree is None or name.partition(".")[0] in loaded.broken:
        return failed(request, *(reporter.import_failed(failure) for failure in loaded.failures))
    on_progress(0.02, "building")
    with _at(request.device):
        built = build(request.target, loaded, real=True)
    if isinstance(built, Unbuilt):
        return failed(request, reporter.not_built(request.target, built))
    on_progress(0.05, "tracing")
    with _at(request.device):
        diagnosis = diagnose(built.root, user_paths=(document.path,))
    profiled = partial(_profiled, request, built.root, diagnosis, loaded, on_progress)
    try:
        try:
            result = profiled()
        except Exception:  # noqa: BLE001 — It may want an accelerator, which is asked of each call only where it must be.
            with _at(request.device):
                result = profiled()
        if result is None:
            return failed(request, *(reporter.tracing_problem(each, request.target) for each in diagnosis.problems))
    except Exception as error:  # noqa: BLE001 — The user's model runs here, on real data.
        return failed(request, reporter.not_run(request.target, error))
    return replace(
        failed(request),
        status="complete",
        denied="",
        rows=reporter.profile_rows(result),
        markdown=to_markdown(result),
        data=json.dumps(result_to_dict(result)),
        trace=json.dumps(to_trace(result)),
    )


def _at(device: str) -> contextlib.AbstractContextManager[None]:
    """Let models run where they are measured: on the processor, if it is that, whatever their code names."""
    return here() if device == "cpu" else contextlib.nullcontext()


def failed(request: ProfileRequest, *problems: Problem) -> ProfileReport:
    """Return the answer to a request that gave no profile."""
    name, text = request.target.qualname, digest(request.text)
    return ProfileReport(
        request.id, request.path, text, name, request.device, "failed", problems=problems, denied=sandbox.denied()
    )


def _profiled(
    request: ProfileRequest, root: Any, diagnosis: Diagnosis, loaded: Loaded, on_progress: OnProgress
) -> ProfileResult | None:
    """Return the profile of a model; None where neither a trace nor a capture gave a graph."""
    inputs, kwargs = _inputs(request, root, diagnosis, loaded)
    graph_module = _graph_of(request, root, diagnosis, inputs, kwargs or {})
    if graph_module is None:
        return None
    return profile(
        graph_module,
        root,
        inputs,
        kwargs=kwargs,
        device=request.device,
        options=ProfileOptions(threads=os.cpu_count()),
        progress=lambda fraction, message: on_progress(0.1 + 0.9 * fraction, message),
        previous=result_from_dict(json.loads(request.previous)) if request.previous else None,
    )


def _graph_of(
    request: ProfileRequest, root: Any, diagnosis: Diagnosis, inputs: Any, kwargs: dict[str, Any]
) -> GraphModule | None:
    """Return the graph of a model: the trace, or, where something stops that, the capture for these inputs."""
    if diagnosis.complete:
        return LazyGraphModule(diagnosis.root, diagnosis.graph)  # Run node by node, so it needs no code.
    place = torch.device(request.device)  # What is asked of devices is decided by where the model will run.
    if isinstance(root, nn.Module):
        root.to(place)
    with _at(request.device):
        return capture(root, arguments_on(place, inputs, kwargs), user_paths=(request.path,)).graph_module


def _inputs(
    request: ProfileRequest, root: Any, diagnosis: Diagnosis, loaded: Loaded
) -> tuple[Any, dict[str, Any] | None]:
    """Return what `profile` is to be fed: the first inputs of the request that can be made, or inferred ones."""
    scope = scope_of(loaded)
    for inputs in request.target.inputs:
        try:
            return arguments_of(inputs.expression, scope)
        except Exception:  # noqa: BLE001, S112 — User code; the next way to feed the model is tried.
            continue
    return infer_inputs(root, diagnosis.graph), None
