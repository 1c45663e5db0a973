"""The settings of torch.fx that this engine heeds: the same settings, under the engine's name."""

import sys

from torch.utils._config_module import Config, install_config_module

enrich_profiler_metadata: bool = Config(alias="torch.fx.experimental._config.enrich_profiler_metadata")  # type: ignore[assignment]
"""Generated code carries markers, and its nodes are recorded with torch, so that profilers name them."""

install_config_module(sys.modules[__name__])
