"""What in a file can be traced, found by syntax alone."""

from fxls.discovery.finding import discover

__all__ = ["discover"]
