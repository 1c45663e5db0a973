"""Processes: the workers that run user code, and the Python environments that they run in."""
