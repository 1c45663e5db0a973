"""Reports of models that an edit did not concern, moved to where their code is now."""

from dataclasses import replace

import pytest
from lsprotocol import types as lsp

from fxls.document import Document
from fxls.reusing import completed, known_of
from fxls.settings import Settings
from fxls.text.edits import Carry, difference
from fxworker.texts import digest
from fxworker.wire import (
    Construct,
    Edit,
    Enclosed,
    Fix,
    Frame,
    Guard,
    Inputs,
    Location,
    Misfit,
    NodeInfo,
    Origin,
    Problem,
    Related,
    Size,
    Span,
    TargetReport,
    TraceReport,
    TraceRequest,
    TraceTarget,
)

PATH = "/work/net.py"
TEXT = "class Edited:\n    pass\n\n\nclass Kept:\n    x = 1\n"
AT = Span(6, 8, 6, 9)


def at(span, path=PATH):
    return Location(path, span)


def kept(moved=0, key="k"):
    """Return a report that speaks of places in every way, `moved` lines below where they are in the text."""

    def down(span):
        return replace(span, line=span.line + moved, end_line=span.end_line + moved)

    here, far = at(down(AT)), at(Span(3, 0, 3, 1), "/work/far.py")
    origin = Origin((Frame("forward", far), Frame("forward", here)), "part", "Part")
    node = NodeInfo(0, "x", "placeholder", "x", "()", "{}", (), (), None, "", origin, None)
    fix = Fix("mend", (Edit(here, "y"),), verified=False)
    problem = Problem(
        "FX001", "error", "no", here, target="Kept", origin=origin, related=(Related(far, "there"),), fixes=(fix,),
        misfit=Misfit(((2, 3),), (Size(3), Size(4, "in_features", 1, built=here)), at_layer=True),
    )  # fmt: skip
    name = down(Span(5, 6, 5, 10))
    return TargetReport(
        "Kept", "class", name, "partial", Construct("Kept()", "call", here), Inputs("1", "call", far),
        nodes=(node, node), code="code", problems=(problem,), guards=(Guard("x", "1", here),), key=key,
        encloses=(Enclosed("Part", "part"),),
    )  # fmt: skip


def report(text, *targets, dependencies=()):
    return TraceReport(1, PATH, digest(text), "partial", targets, dependencies=dependencies)


def stub(moved=0):
    return TargetReport("Kept", "class", Span(5 + moved, 6, 5 + moved, 10), "partial", key="k", unchanged=True)


def target(moved=0):
    return TraceTarget("Kept", "class", Span(5 + moved, 6, 5 + moved, 10))


def carry(new):
    change = difference(TEXT, new)
    return Carry.identity().then([change] if change is not None else [])


def test_every_place_moves_with_the_text():
    new = TEXT.replace("    pass", "    a = 1\n    b = 2\n    pass")
    last = report(TEXT, kept(), dependencies=("/work/lazy.py",))
    found = completed(report(new, stub(2), dependencies=("/work/far.py",)), last, carry(new), (target(2),))
    assert found is not None
    assert found.targets == (kept(2),)
    assert found.dependencies == ("/work/far.py", "/work/lazy.py")
    assert found.digest == digest(new)
    first, second = found.targets[0].nodes
    assert first.origin is second.origin


def test_a_report_without_unchanged_targets_is_what_it_is():
    whole = report(TEXT, kept())
    assert completed(whole, None, Carry.identity(), ()) is whole


@pytest.mark.parametrize("new", [TEXT.replace("x = 1", "y = 1"), TEXT.replace("x = 1", "  x = 1")])
def test_a_place_that_an_edit_touched_is_not_guessed(new):
    assert completed(report(new, stub()), report(TEXT, kept()), carry(new), (target(),)) is None


def test_what_is_not_known_is_not_made_up():
    assert completed(report(TEXT, stub()), None, Carry.identity(), (target(),)) is None
    assert completed(report(TEXT, stub()), report(TEXT), Carry.identity(), (target(),)) is None
    assert completed(report(TEXT, stub()), report(TEXT, kept(key="")), Carry.identity(), (target(),)) is None


def test_a_way_to_build_is_where_the_request_has_it():
    way = Construct("Kept()", "call", at(Span(9, 0, 9, 6)))
    found = completed(
        report(TEXT, stub()), report(TEXT, kept()), Carry.identity(), (replace(target(), constructs=(way,)),)
    )
    assert found is not None
    assert found.targets[0].construct == way


def typed(document, version, line, text):
    start = lsp.Position(line - 1, 0)
    document.change(version, [lsp.TextDocumentContentChangePartial(lsp.Range(start, start), text)])


def test_a_document_knows_its_last_report_until_it_is_outdated():
    document = Document("file:///work/net.py", 1, TEXT, "utf-16")
    document.asked()
    assert document.known == ()
    assert document.answer(report(TEXT, kept()))
    assert document.known == known_of(report(TEXT, kept()))
    typed(document, 2, 2, "    a = 1\n")
    typed(document, 3, 2, "    b = 1\n")
    assert document.known
    document.asked()
    typed(document, 4, 1, "import typed_meanwhile\n")
    asked = TraceRequest(1, PATH, TEXT, (target(2),))
    found = document.completed(report(TEXT, stub(2)), asked)
    assert found is not None
    assert found.targets == (kept(2),)
    document.outdated()
    assert document.known == ()


def test_fixes_that_were_found_later_are_looked_for_again():
    document = Document("file:///work/net.py", 1, TEXT, "utf-16")
    document.asked()
    answer = report(TEXT, kept())
    document.answer(answer)
    mended = replace(answer, targets=(replace(kept(), code="mended"),))
    document.mended(answer, mended)
    assert document.snapshot(Settings(), trusted=True).report is mended
    document.asked()
    found = document.completed(report(TEXT, stub()), TraceRequest(1, PATH, TEXT, (target(),)))
    assert found is not None
    assert found.targets[0].code == "code"
