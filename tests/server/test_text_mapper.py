"""Coordinates: every conversion there and back, over texts with all kinds of line ends and characters."""

import ast
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types as lsp

from fxls.text.mapper import Mapper
from fxworker.wire import Span

TEXTS = st.text(alphabet="ab é漢\U0001f600\t\n\r\x0c\x85\u2028", max_size=60)
ENCODINGS = st.sampled_from(["utf-8", "utf-16", "utf-32"])


@given(TEXTS, ENCODINGS, st.integers(-2, 70))
def test_offsets_go_there_and_back(text, encoding, offset):
    mapper = Mapper(text, encoding)
    point = mapper.at_offset(offset)
    expected = min(max(offset, 0), len(text))
    if text[expected - 1 : expected + 1] == "\r\n":
        expected -= 1  # Between the two halves of a line end there is no position.
    assert mapper.offset(*point) == expected


@given(TEXTS, ENCODINGS, st.integers(0, 70))
def test_positions_go_there_and_back(text, encoding, offset):
    mapper = Mapper(text, encoding)
    point = mapper.at_offset(offset)
    assert mapper.point(mapper.position(*point)) == point


@given(TEXTS, st.integers(0, 70))
def test_units_are_those_of_the_encoding(text, offset):
    line, column = Mapper(text).at_offset(offset)
    characters = Mapper(text).line(line).encode()[:column].decode()
    assert Mapper(text, "utf-8").position(line, column).character == column
    assert Mapper(text, "utf-16").position(line, column).character == len(characters.encode("utf-16-le")) // 2
    assert Mapper(text, "utf-32").position(line, column).character == len(characters)
    assert Mapper(text).code_point(line, column) == len(characters) + 1
    assert Mapper(text).byte_column(line, len(characters) + 1) == column


@given(TEXTS, ENCODINGS, st.integers(-5, 90), st.integers(-5, 90))
def test_no_place_is_too_far(text, encoding, line, column):
    mapper = Mapper(text, encoding)
    position = mapper.position(line, column)
    assert mapper.position(*mapper.point(position)) == position
    inside = mapper.point(lsp.Position(max(line, 0), max(column, 0)))
    assert 0 <= mapper.offset(*inside) <= len(text)
    assert 0 <= mapper.offset(line, column) <= len(text)
    mapper.code_point(line, column)


PLACES = st.tuples(st.integers(-2, 9), st.integers(-2, 30))


@given(TEXTS | st.text(alphabet="ab é\n", max_size=40), PLACES, PLACES)
def test_a_source_is_what_lies_between_two_places(text, start, end):
    mapper = Mapper(text)
    assert mapper.source(Span(*start, *end)) == text[mapper.offset(*start) : mapper.offset(*end)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_those_of_the_parser(end):
    text = end.join(["x = 'a\x0cb\x85c\u2028d'", "\x0cy = 'é' + z", "", "t = 1"])
    mapper = Mapper(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name | ast.Constant):
            span = Span(node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)
            assert mapper.source(span) == ast.get_source_segment(text.replace(end, "\n"), node)


def test_a_column_inside_a_character_is_its_beginning():
    mapper = Mapper("é\U0001f600x")
    assert mapper.position(1, 1) == lsp.Position(0, 0)
    assert mapper.position(1, 4) == lsp.Position(0, 1)
    assert mapper.point(lsp.Position(0, 2)) == (1, 2)


def test_lone_surrogates_have_a_place():
    mapper = Mapper("a\ud800b")
    assert mapper.position(1, 4) == lsp.Position(0, 2)
    assert mapper.point(lsp.Position(0, 2)) == (1, 4)


def test_the_end_is_behind_the_last_line_end():
    mapper = Mapper("a\nbc")
    assert mapper.position(9, 0) == lsp.Position(1, 2)
    assert mapper.range(Span(1, 0, 9, 9)) == lsp.Range(lsp.Position(0, 0), lsp.Position(1, 2))
    assert mapper.end_of_line(1) == lsp.Position(0, 1)
    assert Mapper("").position(1, 0) == lsp.Position(0, 0)


def test_what_is_inserted_ends_its_lines_as_the_text_does():
    assert Mapper("a\r\nb").fitting("x\ny\r\n") == "x\r\ny\r\n"
    assert Mapper("a\nb").fitting("x\ny\n") == "x\ny\n"
    assert Mapper("").fitting("x\n") == "x\n"


def test_a_long_file_is_mapped_fast():
    text = "    value = self.layer(value)  # é\n" * 100_000
    started = time.process_time()
    mapper = Mapper(text)
    for line in range(1, 100_001, 100):
        mapper.position(line, 20)
        mapper.offset(line, 20)
    assert time.process_time() - started < 2.0
