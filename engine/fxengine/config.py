"""The settings of torch.fx's module of this name. They are read when they are needed, not before."""

disable_progress: bool = True
"""Whether an ``Interpreter`` runs without a progress bar."""

verbose_progress: bool = False
"""Whether the progress bar says the names of all nodes: good for small graphs."""

do_not_emit_stack_traces: bool = False
"""Whether tracers that look at this setting leave ``node.meta["stack_trace"]`` unset, which saves time."""
