"""Analyses and transformations of graphs, each in a module of its own, named as in torch.fx where torch.fx has one."""
