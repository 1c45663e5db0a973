"""Findings for programs: our JSON, SARIF 2.1.0, and the annotations of GitHub Actions."""

import json
import os
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from fxls import __version__
from fxls.cli.findings import FileFindings, Finding, Place, Sources
from fxls.features.wording import headline
from fxls.rules import rule_text
from fxworker.wire import Edit, Fix, Severity, TargetReport

_LEVELS: Final[dict[Severity, str]] = {
    "error": "error",
    "warning": "warning",
    "information": "note",
    "hint": "note",
}
_ANNOTATIONS: Final[dict[Severity, str]] = {
    "error": "error",
    "warning": "warning",
    "information": "notice",
    "hint": "notice",
}


def to_json(files: Sequence[FileFindings], sources: Sources) -> str:
    """Return one object with all targets and problems; lines and columns count from 1, columns count code points."""
    document = {
        "version": 1,
        "targets": [_target(file, target) for file in files for target in file.targets],
        "problems": [_problem(finding, sources) for file in files for finding in file.findings],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def to_github(files: Sequence[FileFindings]) -> str:
    """Return a workflow command for each finding, which GitHub shows at its lines."""
    lines: list[str] = []
    for file in files:
        for finding in file.findings:
            place, problem = finding.place, finding.problem
            properties = {
                "file": place.path,
                "line": place.line,
                "endLine": place.end_line,
                "col": place.column,
                "endColumn": max(place.end_column - 1, place.column),
                "title": f"fxls {problem.code}",
            }
            if place.end_line != place.line:
                del properties["col"], properties["endColumn"]
            written = ",".join(f"{name}={_escaped_property(str(value))}" for name, value in properties.items())
            message = "\n".join(part for part in (headline(problem), problem.explanation, problem.hint) if part)
            lines.append(f"::{_ANNOTATIONS[problem.severity]} {written}::{_escaped(message)}\n")
    return "".join(lines)


def to_sarif(files: Sequence[FileFindings], sources: Sources) -> str:
    """Return a SARIF log of one run."""
    findings = [finding for file in files for finding in file.findings]
    codes = sorted({finding.problem.code for finding in findings})
    rules = [{"id": code, "help": {"text": rule_text(code), "markdown": rule_text(code)}} for code in codes]
    driver = {"name": "fxls", "version": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, codes.index(finding.problem.code), sources) for finding in findings],
    }
    document = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _target(file: FileFindings, target: TargetReport) -> dict[str, Any]:
    return {
        "path": file.shown,
        "qualname": target.qualname,
        "construct": target.construct.expression if target.construct is not None else None,
        "construct_from": target.construct.source if target.construct is not None else None,
        "inputs": target.inputs.expression if target.inputs is not None else None,
        "inputs_from": target.inputs.source if target.inputs is not None else None,
        "status": target.status,
        "nodes": file.nodes.get(target.qualname, 0),
        "reached_end": target.reached_end,
        "cut": target.cut,
        "guards": [{"expression": guard.expression, "value": guard.value} for guard in target.guards],
        "ms": round(target.timings.total, 1),
    }


def _problem(finding: Finding, sources: Sources) -> dict[str, Any]:
    problem, place = finding.problem, finding.place
    return {
        "path": place.path,
        "line": place.line,
        "column": place.column,
        "end_line": place.end_line,
        "end_column": place.end_column,
        "code": problem.code,
        "severity": problem.severity,
        "message": problem.message,
        "target": finding.targets[0] if finding.targets else problem.target,
        "kind": problem.kind,
        "value": problem.value,
        "instances": list(problem.instances),
        "related": [
            {"path": step.path, "line": step.line, "column": step.column, "message": message}
            for step, message in ((sources.place(each.location), each.message) for each in problem.related)
        ],
        "fixes": [_fix(fix, sources) for fix in problem.fixes],
    }


def _fix(fix: Fix, sources: Sources) -> dict[str, Any]:
    written = {"title": fix.title, "verified": fix.verified, "edits": [_edit(edit, sources) for edit in fix.edits]}
    return {**written, "proof": fix.proof} if fix.proof else written


def _edit(edit: Edit, sources: Sources) -> dict[str, Any]:
    place = sources.place(edit.location)
    return {
        "path": place.path,
        "line": place.line,
        "column": place.column,
        "end_line": place.end_line,
        "end_column": place.end_column,
        "text": sources.written(edit),
    }


def _result(finding: Finding, rule: int, sources: Sources) -> dict[str, Any]:
    problem = finding.problem
    text = "\n\n".join(part for part in (headline(problem), problem.explanation, problem.hint) if part)
    result: dict[str, Any] = {
        "ruleId": problem.code,
        "ruleIndex": rule,
        "level": _LEVELS[problem.severity],
        "message": {"text": text},
        "locations": [_location(finding.place)],
    }
    if problem.related:
        result["relatedLocations"] = [
            {"id": number, **_location(sources.place(each.location)), "message": {"text": each.message}}
            for number, each in enumerate(problem.related)
        ]
    fixes = [_sarif_fix(fix, sources) for fix in problem.fixes if fix.verified and fix.edits]
    if fixes:
        result["fixes"] = fixes
    return result


def _location(place: Place) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": {"uri": quote(os.fsencode(place.path))}, "region": _region(place)}}


def _region(place: Place) -> dict[str, int]:
    return {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
    }


def _sarif_fix(fix: Fix, sources: Sources) -> dict[str, Any]:
    changes: dict[str, list[dict[str, Any]]] = {}
    for edit in fix.edits:
        place = sources.place(edit.location)
        replacement = {"deletedRegion": _region(place), "insertedContent": {"text": sources.written(edit)}}
        changes.setdefault(place.path, []).append(replacement)
    return {
        "description": {"text": fix.title},
        "artifactChanges": [
            {"artifactLocation": {"uri": quote(os.fsencode(path))}, "replacements": replacements}
            for path, replacements in changes.items()
        ],
    }


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escaped_property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
