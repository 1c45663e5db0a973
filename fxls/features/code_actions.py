"""What can be done at a place: fixes of its problems, examples of how a model is built and fed, views, profiles."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from lsprotocol import types as lsp

from fxls.discovery.index import ModelClass, Parameter
from fxls.features.code_lens import devices
from fxls.features.ignoring import ignored
from fxls.features.places import PlacedProblem, overlaps, target_reports
from fxls.features.problems import problems
from fxls.features.wording import shortened
from fxls.lsp_ext import PROFILE, RETRACE, SHOW_CODE, SHOW_GRAPH
from fxls.snapshot import Snapshot
from fxworker.wire import LOCALS, Fix, Span

_LONGEST_TITLE: Final = 80
_GUESSES: Final = (
    (r"^(?:in_)?(?:chans|channels)$|^in_(?:planes|ch)$|^c_in$|^channel$", "3"),
    (r"kernel|^ks?$", "3"),
    (r"stride|dilation|groups|^num_layers$|^n_?layers?$|depth|blocks|repeat", "1"),
    (r"heads", "4"),
    (r"image_?size|img_?size|resolution|height|width", "224"),
    (r"patch", "16"),
    (r"classes|labels|^num_outputs?$", "10"),
    (r"vocab|num_embeddings|n_?tokens", "1000"),
    (r"length|seq|context|positions", "128"),
    (r"drop|prob|rate|^eps|alpha|beta|scale|ratio|momentum|^p$", "0.1"),
    (r"dim|size|channels|planes|features|hidden|width|inner|embed|units|^d_|^n_|^num_|^[cdnmk]$", "64"),
    (r"bias|use_|is_|with_|enable|causal|bidirectional", "False"),
)  # fmt: skip
_BY_ANNOTATION: Final = {
    "int": "64",
    "float": "0.1",
    "bool": "False",
    "str": "''",
    "list[int]": "[64, 64]",
    "tuple[int, int]": "(64, 64)",
    "Sequence[int]": "(64, 64)",
}


def code_actions(snapshot: Snapshot, range_: lsp.Range, context: lsp.CodeActionContext) -> list[lsp.CodeAction]:
    """Return the actions for a range, of the kinds that the client asks for."""
    span = snapshot.mapper.span(range_)
    actions = [
        *_fixes(snapshot, span, context),
        *_examples(snapshot, span, context),
        *_ignores(snapshot, span, context),
        *_views(snapshot, span),
    ]
    return [action for action in actions if _wanted(action, context.only)]


def _wanted(action: lsp.CodeAction, only: Iterable[lsp.CodeActionKind | str] | None) -> bool:
    if only is None:
        return True
    kind = str(getattr(action.kind, "value", action.kind))
    kinds = [str(getattr(each, "value", each)) for each in only]
    return any(not each or kind == each or kind.startswith(f"{each}.") for each in kinds)


def _fixes(snapshot: Snapshot, span: Span, context: lsp.CodeActionContext) -> Iterator[lsp.CodeAction]:
    """Yield the fixes of the problems at a place; a verified first one is what the client may apply unasked.

    One that mends several problems is one action, for all of them.
    """
    found: list[lsp.CodeAction] = []
    for placed in _problems_in(snapshot, span):
        shown = _shown(placed, snapshot, context)
        for number, fix in enumerate(placed.problem.fixes):
            title, edit = f"{fix.title}{_proof(fix)}", _edit(snapshot, fix, carried=not placed.found_here)
            preferred = True if number == 0 and fix.verified else None
            same = next((each for each in found if (each.title, each.edit) == (title, edit)), None)
            if same is not None:
                same.diagnostics = [*(same.diagnostics or ()), *(shown or ())] or None
                same.is_preferred = same.is_preferred or preferred
            elif edit is not None:
                kind = lsp.CodeActionKind.QuickFix
                found.append(lsp.CodeAction(title, kind=kind, diagnostics=shown, edit=edit, is_preferred=preferred))
    yield from found


def _proof(fix: Fix) -> str:
    """Return what is known of a fix, in parentheses."""
    if not fix.verified:
        return " (not verified)"
    return f" ({fix.proof})" if fix.proof else ""


def _ignores(snapshot: Snapshot, span: Span, context: lsp.CodeActionContext) -> Iterator[lsp.CodeAction]:
    """Yield what ignores each of the problems at a place."""
    offered: set[tuple[str, int]] = set()
    for placed in _problems_in(snapshot, span):
        code, line = placed.problem.code, placed.span.line
        if not placed.found_here and (code, line) not in offered:
            offered.add((code, line))
            fix = ignored(snapshot, placed.span, code)
            yield lsp.CodeAction(
                title=fix.title,
                kind=lsp.CodeActionKind.QuickFix,
                diagnostics=_shown(placed, snapshot, context),
                edit=_edit(snapshot, fix, carried=False),
            )


def _problems_in(snapshot: Snapshot, span: Span) -> list[PlacedProblem]:
    return [each for each in problems(snapshot) if overlaps(each.span, span)]


def _shown(placed: PlacedProblem, snapshot: Snapshot, context: lsp.CodeActionContext) -> list[lsp.Diagnostic] | None:
    """Return the client's own diagnostics that a problem is."""
    place = snapshot.mapper.range(placed.span)
    found = [each for each in context.diagnostics if each.code == placed.problem.code and each.range == place]
    return found or None


def _edit(snapshot: Snapshot, fix: Fix, *, carried: bool) -> lsp.WorkspaceEdit | None:
    """Return a fix as an edit of this version of the document, None where it no longer fits it.

    Places that are `carried` are those of the text that the report is of.
    """
    edits: list[lsp.TextEdit] = []
    for edit in fix.edits:
        span = snapshot.here(edit.location) if carried else edit.location.span
        if span is None:
            return None
        edits.append(lsp.TextEdit(snapshot.mapper.range(span), snapshot.mapper.fitting(edit.text)))
    return _workspace_edit(snapshot, edits) if edits else None


def _workspace_edit(snapshot: Snapshot, edits: list[lsp.TextEdit]) -> lsp.WorkspaceEdit:
    document = lsp.OptionalVersionedTextDocumentIdentifier(uri=snapshot.uri, version=snapshot.version)
    return lsp.WorkspaceEdit(document_changes=[lsp.TextDocumentEdit(document, list(edits))])


def _examples(snapshot: Snapshot, span: Span, context: lsp.CodeActionContext) -> Iterator[lsp.CodeAction]:
    """Yield the insertion of a directive: of the way that is in use, to change it, or of one that is proposed."""
    reports = target_reports(snapshot)
    for target in snapshot.index.targets:
        found = snapshot.index.model_class(target.qualname)
        if found is None or not _at_head(found, span):
            continue
        report = reports.get(target.qualname)
        missing = [each for each in problems(snapshot) if each.problem.code == "FX103" and each.span == target.name]
        construct = report.construct if report is not None and not missing else None
        offered = any(each.problem.fixes for each in missing)
        if not offered and not any(each.source == "directive" for each in target.constructs):
            expression = _proposal(found) if construct is None else construct.expression
            yield _insertion(
                snapshot,
                found,
                expression,
                missing=_shown(missing[0], snapshot, context) if missing else None,
                kind=lsp.CodeActionKind.QuickFix if missing else lsp.CodeActionKind.RefactorRewrite,
            )
        if not any(each.source == "directive" for each in target.inputs):
            fed = report.inputs.expression if report is not None and report.inputs is not None else _fed(found)
            if fed:
                yield _insertion(
                    snapshot, found, f"inputs {fed}", missing=None, kind=lsp.CodeActionKind.RefactorRewrite
                )


def _at_head(found: ModelClass, span: Span) -> bool:
    """Whether a range touches the lines of a class from its first decorator to its name."""
    return found.header <= span.end_line and span.line <= found.name_span.end_line


def _insertion(
    snapshot: Snapshot,
    found: ModelClass,
    directive: str,
    *,
    missing: list[lsp.Diagnostic] | None,
    kind: lsp.CodeActionKind,
) -> lsp.CodeAction:
    """Return the insertion of a directive above a class, indented as the class is."""
    line = snapshot.mapper.line(found.header)
    indent = line[: len(line) - len(line.lstrip())]
    place = snapshot.mapper.position(found.header, 0)
    edit = lsp.TextEdit(lsp.Range(place, place), snapshot.mapper.fitting(f"{indent}# fx: {directive}\n"))
    return lsp.CodeAction(
        title=shortened(f"Say how {found.qualname} is {_verb(directive)}: # fx: {directive}", _LONGEST_TITLE),
        kind=kind,
        diagnostics=missing,
        edit=_workspace_edit(snapshot, [edit]),
        is_preferred=True if missing else None,
    )


def _verb(directive: str) -> str:
    return "fed" if directive.startswith("inputs ") else "built"


def _proposal(found: ModelClass) -> str:
    """Return a call of a constructor with a plausible value for each parameter that needs one, for a person to mend."""
    parameters = found.init.parameters if found.init is not None else ()
    values = ", ".join(f"{each.name}={_guess(each)}" for each in parameters if each.required)
    return f"{found.qualname.rpartition(LOCALS)[2]}({values})"


def _guess(parameter: Parameter) -> str:
    """Return a plausible value of a parameter by its annotation and its name."""
    annotation = (
        parameter.annotation.removeprefix("Optional[").rstrip("]")
        if "Optional" in parameter.annotation
        else (parameter.annotation.partition("|")[0].strip())
    )
    if annotation in _BY_ANNOTATION and annotation != "int":
        return _BY_ANNOTATION[annotation]
    if not annotation and re.search(r"^(?:cfg|config|args|opts?|hparams)$", parameter.name):
        return "..."
    if annotation not in {"", "int"}:
        return f"{annotation}()" if re.fullmatch(r"[A-Za-z_][\w.]*", annotation) else "..."
    for names, value in _GUESSES:
        if re.search(names, parameter.name):
            return value
    return _BY_ANNOTATION["int"]


def _fed(found: ModelClass) -> str:
    """Return plausible inputs of a forward: one tensor for each parameter that needs one."""
    parameters = found.forward.parameters if found.forward is not None else ()
    return ", ".join("torch.randn(2, 64)" for each in parameters if each.required)


def _views(snapshot: Snapshot, span: Span) -> Iterator[lsp.CodeAction]:
    """Yield what can be shown and measured of the model whose head or variable the range is at."""
    if not snapshot.trusted:
        return
    name = _model_at(snapshot, span)
    report = target_reports(snapshot).get(name)
    if report is None:
        return
    argument = {"uri": snapshot.uri, "target": name}
    if report.construct is not None and report.facts is not None:
        for device in devices(snapshot):
            yield _command(f"Profile {name} on {device}", PROFILE, {**argument, "device": device})
    if report.nodes:
        yield _command(f"Show the graph of {name}", SHOW_GRAPH, argument)
    if report.code:
        yield _command(f"Show the generated code of {name}", SHOW_CODE, argument)
    yield _command("Trace again", RETRACE, argument)


def _model_at(snapshot: Snapshot, span: Span) -> str:
    """Return the model whose class line, `forward` line, or a variable of which, a range is at; "" for none."""
    for each in snapshot.index.classes:
        forward = each.forward.name_span if each.forward is not None else None
        if _at_head(each, span) or (
            forward is not None and forward.line <= span.end_line and span.line <= forward.line
        ):
            return each.qualname
    for target in snapshot.index.targets:
        if overlaps(target.name, span):
            return target.qualname
    return next((each.target for each in snapshot.index.variables if overlaps(each.span, span)), "")


def _command(title: str, command: str, argument: dict[str, str]) -> lsp.CodeAction:
    return lsp.CodeAction(
        title=title, kind=lsp.CodeActionKind.Empty, command=lsp.Command(title, command, arguments=[argument])
    )
