"""Passes for graphs of any operators."""
