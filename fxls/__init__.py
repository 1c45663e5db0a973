"""The language server and the command line. Never imports torch, never runs user code."""

__version__ = "0.1.0"
