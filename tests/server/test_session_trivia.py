"""Telling edits of comments and blank space from edits of code, by the changed lines alone."""

import ast
import io
import tokenize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fxls.text.edits import Carry
from fxls.text.mapper import Mapper
from fxls.trivia import Layout
from fxworker.wire import Span

SAME = [
    ("x = 1\n", "x = 1  # why\n"),
    ("x = 1  # why\n", "x = 1\n"),
    ("x = 1\ny = 2\n", "x = 1\n\n\n# two\ny = 2\n"),
    ("def f():\n    return 1\n", "def f():\n    # one\n    return 1   \n"),
    ('x = "#"\n', 'x = "#"  # not "this"\n'),
    ("x = '#a'  # b\n", "x = '#a'  # c\n"),
    ("f(1,\n  2)\n", "f(1,  # first\n  2)\n"),
    ("x = 1", "x = 1\n"),
    ('"""\na\n"""\n', '# b\n"""\na\n"""\n'),
    ('"""\na\n"""\n', '"""\na\n"""\n# b\n'),
    ("# a\r\nx = 1\r\n", "# b\r\nx = 1\r\n"),
]

OTHER = [
    ("x = 1\n", "x = 2\n"),
    ("x = 1\n", "x = 1\ny = 2\n"),
    ("if x:\n    y\n", "if x:\n        y\n"),
    ('x = "#a"\n', 'x = "#b"\n'),
    ('x = """\na # b\n"""\n', 'x = """\na # c\n"""\n'),
    ('x = """\na\n"""\n', 'x = """\n\na\n"""\n'),
    ("x = 1  # fx: Net(1)\n", "x = 1  # fx: Net(2)\n"),
    ("# fx: Net(1)\nclass Net: ...\n", "# fx: Net(1)\n\nclass Net: ...\n"),
    ("class Net: ...\n", "# fx: Net(1)\nclass Net: ...\n"),
    ("x = 1 + \\\n    2\n", "x = 1 + \\\n\n    2\n"),
    ("x = 1\n\\\n\n", "x = 1\n\\\n"),
    ("x = f'{y}#'\n", "x = f'{y}#a'\n"),
    ("x = 'a\\\n# b'\n", "x = 'a\\\n# c'\n"),
    ("x\n", "x = 1\n"),
]


def same_code(old, new):
    return Layout().changes(old, new) is not None


@pytest.mark.parametrize(("old", "new"), SAME)
def test_comments_and_blank_space_are_trivial(old, new):
    assert same_code(Mapper(old), Mapper(new))
    assert ast.dump(ast.parse(old)) == ast.dump(ast.parse(new))


@pytest.mark.parametrize(("old", "new"), OTHER)
def test_everything_else_is_not(old, new):
    assert not same_code(Mapper(old), Mapper(new))


def tokens(text):
    ignored = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER}
    stream = tokenize.generate_tokens(io.StringIO(text).readline)
    return [
        (each.type, "" if each.type == tokenize.NEWLINE else each.string) for each in stream if each.type not in ignored
    ]


LINES = [
    "x = 1",
    "if x:",
    "    y = '#'",
    "# c",
    "",
    "    # d",
    '"""',
    "z = (1,",
    "  2)",
    "  ",
    "w = '''",
    "'''",
    "\\",
    "f'{x}#'",
]


@settings(max_examples=2000)
@given(
    st.lists(st.sampled_from(LINES), max_size=8),
    st.integers(0, 8),
    st.integers(0, 2),
    st.lists(st.sampled_from(LINES), max_size=3),
)
def test_an_edit_called_trivial_leaves_the_tokens(lines, at, removed, inserted):
    """For any edit of any text that parses: where `same_code` says so, CPython's tokens are the same."""
    old = "\n".join(lines) + "\n"
    new = "\n".join(lines[:at] + inserted + lines[at + removed :]) + "\n"
    try:
        ast.parse(old)
    except SyntaxError:
        return
    if same_code(Mapper(old), Mapper(new)):
        assert ast.dump(ast.parse(new)) == ast.dump(ast.parse(old))
        assert tokens(new) == tokens(old)


COMMENTED = [*LINES, "# e", "  # f", "x = 1  # g"]


@settings(max_examples=1000)
@given(
    st.lists(st.sampled_from(LINES), max_size=8),
    st.lists(
        st.tuples(st.integers(0, 8), st.integers(0, 2), st.lists(st.sampled_from(COMMENTED), max_size=3)), max_size=5
    ),
)
def test_what_is_known_of_one_text_is_moved_to_the_next(lines, edits):
    """Whoever has followed the edits answers as one who has seen nothing but the last."""
    layout = Layout()
    for at, removed, inserted in edits:
        old = "\n".join(lines) + "\n"
        lines = lines[:at] + inserted + lines[at + removed :]
        new = "\n".join(lines) + "\n"
        try:
            ast.parse(old)
        except SyntaxError:
            return
        if layout.changes(Mapper(old), Mapper(new)) is None:
            assert not same_code(Mapper(old), Mapper(new))
            layout = Layout()
        else:
            assert same_code(Mapper(old), Mapper(new))


def spans(text):
    """Return where the expressions and statements of a text are, in the order of its tree."""
    nodes = ast.walk(ast.parse(text))
    return [
        Span(each.lineno, each.col_offset, each.end_lineno, each.end_col_offset)
        for each in nodes
        if hasattr(each, "lineno")
    ]


@settings(max_examples=2000)
@given(
    st.lists(st.sampled_from(LINES), max_size=8),
    st.lists(
        st.tuples(st.integers(0, 8), st.integers(0, 1), st.lists(st.sampled_from(COMMENTED), max_size=2)), max_size=4
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
)
def test_all_code_is_found_again_wherever_the_layout_changed(lines, edits, end, last):
    """An editor may send the whole of a text in which little has changed: nothing that is known of the code is lost."""
    old = "\n".join(lines) + "\n"
    for at, removed, inserted in edits:
        lines = lines[:at] + inserted + lines[at + removed :]
    new = end.join(lines) + end * last
    try:
        ast.parse(old)
    except SyntaxError:
        return
    changes = Layout().changes(Mapper(old), Mapper(new))
    if changes is not None:
        carry = Carry.identity().then(changes)
        assert [carry.span(each) for each in spans(old)] == spans(new)
