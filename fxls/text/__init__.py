"""Coordinates and edits of source text."""
