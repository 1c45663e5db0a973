"""Passes that prepare graphs for one backend each."""
