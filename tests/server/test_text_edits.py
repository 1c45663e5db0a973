"""Applying changes and carrying spans, against a model that gives every character an identity."""

from hypothesis import given, settings
from hypothesis import strategies as st
from lsprotocol import types as lsp

from fxls.discovery.assignments import Assignment, Assignments
from fxls.text.edits import Carry, Change, apply_changes, difference
from fxls.text.mapper import Mapper
from fxworker.wire import Span

TEXTS = st.text(alphabet="ab é\U0001f600\t\n\r", max_size=40) | st.text(alphabet="ab é\U0001f600\n", max_size=40)
ENCODINGS = st.sampled_from(["utf-8", "utf-16", "utf-32"])


def partial(mapper: Mapper, start: int, end: int, text: str) -> lsp.TextDocumentContentChangePartial:
    first, last = mapper.at_offset(start), mapper.at_offset(end)
    return lsp.TextDocumentContentChangePartial(lsp.Range(mapper.position(*first), mapper.position(*last)), text)


def edit(text: str, events, encoding: str = "utf-16") -> tuple[str, tuple[Change, ...]]:
    """The text after changes, and the changes; its mapper is as one that is made of it."""
    mapper, changes = apply_changes(Mapper(text, encoding), events)
    new = Mapper(mapper.text, encoding)
    assert mapper.encoding == new.encoding
    assert mapper.lines(1, mapper.line_count) == new.lines(1, new.line_count)
    return mapper.text, changes


def edited(text: str, *edits: tuple[str, str]) -> tuple[str, Carry]:
    """Replace the first occurrence of each old piece by the new one."""
    carry = Carry.identity()
    for old, new in edits:
        start = text.index(old)
        text, changes = edit(text, [partial(Mapper(text), start, start + len(old), new)])
        carry = carry.then(changes)
    return text, carry


def span_of(text: str, piece: str) -> Span:
    mapper = Mapper(text)
    start = text.index(piece)
    return Span(*mapper.at_offset(start), *mapper.at_offset(start + len(piece)))


@st.composite
def edit_sequences(draw):
    """A text and what a client sends for it, with the characters of each step known by their origin."""
    text = draw(TEXTS)
    encoding = draw(ENCODINGS)
    steps = []
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, 40))
        length = draw(st.integers(0, 6))
        steps.append((start, length, draw(TEXTS)))
    return text, encoding, steps


@given(edit_sequences(), st.integers(0, 40), st.integers(0, 10))
@settings(max_examples=400, deadline=None)
def test_a_carried_span_holds_the_same_characters(sequence, start, length):
    text, encoding, steps = sequence
    mapper = Mapper(text)
    span = Span(*mapper.at_offset(start), *mapper.at_offset(start + length))
    identities = list(enumerate(text))
    current, carry = text, Carry.identity()
    for at, count, inserted in steps:
        here = Mapper(current, encoding)
        first = here.offset(*here.at_offset(at))
        last = max(first, here.offset(*here.at_offset(at + count)))
        current, changes = edit(current, [partial(here, first, last, inserted)], encoding)
        identities[first:last] = [(-1, character) for character in inserted]
        carry = carry.then(changes)
        assert "".join(character for _, character in identities) == current
    moved = carry.span(span)
    if moved is None:
        return
    assert Mapper(current).source(moved) == mapper.source(span)
    offset = Mapper(current).offset(moved.line, moved.column)
    kept = [identity for identity, _ in identities[offset : offset + len(mapper.source(span))]]
    first = mapper.offset(span.line, span.column)
    if "\r" not in text + current:  # A joined line end may be replaced by one that looks the same.
        assert kept == list(range(first, first + len(kept)))


@given(edit_sequences())
@settings(max_examples=300, deadline=None)
def test_replacements_stay_ordered_and_apart(sequence):
    text, encoding, steps = sequence
    current, carry = text, Carry.identity()
    for at, count, inserted in steps:
        here = Mapper(current, encoding)
        first, last = sorted((here.offset(*here.at_offset(at)), here.offset(*here.at_offset(at + count))))
        current, changes = edit(current, [partial(here, first, last, inserted)], encoding)
        carry = carry.then(changes)
    for one, next_ in zip(carry.replacements, carry.replacements[1:], strict=False):
        assert one.old_start <= one.old_end < next_.old_start
        assert one.new_start <= one.new_end < next_.new_start


@given(TEXTS, TEXTS)
def test_a_difference_leads_from_the_old_text_to_the_new(old, new):
    change = difference(old, new)
    if change is None:
        assert old == new
        return
    mapper = Mapper(old)
    start = mapper.offset(change.span.line, change.span.column)
    end = mapper.offset(change.span.end_line, change.span.end_column)
    assert old[:start] + change.text + old[end:] == new


def test_an_edit_elsewhere_moves_a_span():
    old = "a = 1\nif x > 0:\n    pass\n"
    new, carry = edited(old, ("a = 1", "import math\na = 1"), ("pass", "return"))
    assert carry.span(span_of(old, "x > 0")) == span_of(new, "x > 0")


def test_an_edit_inside_a_span_touches_it():
    old = "if x > 0:\n"
    _, carry = edited(old, ("> 0", "> 1"))
    assert carry.span(span_of(old, "x > 0")) is None


def test_a_character_that_joins_an_expression_touches_it():
    old = "if x:\n"
    assert edited(old, ("x:", "x.y:"))[1].span(span_of(old, "x")) is None
    mapper = Mapper(old)
    _, changes = edit(old, [partial(mapper, 4, 4, "y")])
    assert Carry().then(changes).span(span_of(old, "x")) is None
    _, changes = edit(old, [partial(mapper, 3, 3, "y")])
    assert Carry().then(changes).span(span_of(old, "x")) is None


def test_a_space_beside_an_expression_does_not_touch_it():
    old = "if x:\n"
    mapper = Mapper(old)
    _, changes = edit(old, [partial(mapper, 3, 3, " ")])
    assert Carry().then(changes).span(span_of(old, "x")) == Span(1, 4, 1, 5)
    _, changes = edit(old, [partial(mapper, 4, 4, " > 1")])
    assert Carry().then(changes).span(span_of(old, "x")) == Span(1, 3, 1, 4)


def test_what_is_typed_and_deleted_again_leaves_nothing():
    old = "if x:\n    y\n"
    carry = Carry.identity()
    text, changes = edit(old, [partial(Mapper(old), 2, 2, "z")])
    carry = carry.then(changes)
    text, changes = edit(text, [partial(Mapper(text), 2, 3, "")])
    assert text == old
    assert carry.then(changes) == Carry.identity()


def test_typing_in_one_place_is_one_replacement():
    text, carry = "if x:\n    y\n", Carry.identity()
    for index, character in enumerate("# a long comment"):
        text, changes = edit(text, [partial(Mapper(text), 5 + index, 5 + index, character)])
        carry = carry.then(changes)
    assert text == "if x:# a long comment\n    y\n"
    assert len(carry.replacements) == 1


def test_lines_move_and_are_touched():
    old = "one\ntwo\nthree\n"
    new, carry = edited(old, ("one", "zero\none"), ("two", "two\n\n"))
    assert new == "zero\none\ntwo\n\n\nthree\n"
    assert carry.line(3) == 6
    _, changes = edit(old, [partial(Mapper(old), 7, 7, "\n")])
    assert [Carry().then(changes).line(number) for number in (1, 2, 3)] == [1, 2, 4]
    _, changes = edit(old, [partial(Mapper(old), 7, 8, "")])
    assert [Carry().then(changes).line(number) for number in (1, 2, 3)] == [1, None, None]
    _, changes = edit(old, [partial(Mapper(old), 5, 5, "\n")])
    assert [Carry().then(changes).line(number) for number in (1, 2, 3)] == [1, None, 4]


def test_a_whole_new_text_keeps_what_did_not_change():
    old = "a\nb\nc\n"
    new, changes = edit(old, [lsp.TextDocumentContentChangeWholeDocument("a\nx\ny\nc\n")])
    assert new == "a\nx\ny\nc\n"
    assert changes == (Change(Span(2, 0, 3, 0), "x\ny\n"),)
    assert Carry().then(changes).line(3) == 4


def test_a_block_is_carried_around_edits_inside_it():
    old = "class Net:\n    x = 1\n\ny = 2\n"
    block = span_of(old, "class Net:\n    x = 1")
    new, carry = edited(old, ("x = 1", "x = 3\n    z = 4"), ("", "import math\n"))
    assert carry.around(block) == span_of(new, "class Net:\n    x = 3\n    z = 4")
    assert carry.span(block) is None
    _, carry = edited(old, ("class Net:\n    x = 1\n", ""))
    assert carry.around(block) is None


@given(edit_sequences(), st.integers(0, 40), st.integers(1, 10))
@settings(max_examples=200, deadline=None)
def test_what_is_carried_whole_is_also_carried_around(sequence, start, length):
    text, encoding, steps = sequence
    mapper = Mapper(text)
    span = Span(*mapper.at_offset(start), *mapper.at_offset(start + length))
    current, carry = text, Carry.identity()
    for at, count, inserted in steps:
        here = Mapper(current, encoding)
        first, last = sorted((here.offset(*here.at_offset(at)), here.offset(*here.at_offset(at + count))))
        current, changes = edit(current, [partial(here, first, last, inserted)], encoding)
        carry = carry.then(changes)
    moved = carry.span(span)
    if moved is not None and (span.line, span.column) != (span.end_line, span.end_column):
        assert carry.around(span) == moved


@given(edit_sequences(), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10)), max_size=8), st.data())
@settings(max_examples=400, deadline=None)
def test_what_lies_on_lines_after_edits_is_found_among_the_lines_before(sequence, places, data):
    text, encoding, steps = sequence
    mapper, carry = Mapper(text, encoding), Carry.identity()
    spans = [Span(*mapper.at_offset(start), *mapper.at_offset(start + length)) for start, length in places]
    for start, length, new in steps:
        mapper, changes = apply_changes(mapper, [partial(mapper, start, start + length, new)])
        carry = carry.then(changes)
    first = data.draw(st.integers(1, mapper.line_count))
    last = data.draw(st.integers(first, mapper.line_count))
    found = Assignments(Assignment(span, span) for span in spans).carried(carry).in_lines(first, last)
    moved = [now for span in spans if (now := carry.span(span)) is not None]
    assert sorted(each.span.line for each in found) == sorted(
        now.line for now in moved if now.line <= last and first <= now.end_line
    )
