"""Command lines that a file parses when it is executed: what has a default is known, and nothing else is given."""

import argparse
import contextlib
import functools
from collections.abc import Generator
from typing import Any


@contextlib.contextmanager
def no_required_arguments() -> Generator[None]:
    """Let parsers of command lines in the body do with what has a default; the rest is None."""
    parse = argparse.ArgumentParser.parse_known_args

    @functools.wraps(parse)
    def lenient(self: argparse.ArgumentParser, *args: Any, **kwargs: Any) -> Any:
        for action in self._actions:
            action.required = False
        return parse(self, *args, **kwargs)

    argparse.ArgumentParser.parse_known_args = lenient
    try:
        yield
    finally:
        argparse.ArgumentParser.parse_known_args = parse
