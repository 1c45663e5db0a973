"""What is likely to be wrong with a file's models, found by syntax alone, where nothing of it may be executed."""

from fxls.syntactic.finding import likely_problems

__all__ = ["likely_problems"]
