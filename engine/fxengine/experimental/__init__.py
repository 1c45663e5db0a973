"""Passes that torch.fx keeps under this name, and that people import from there."""
