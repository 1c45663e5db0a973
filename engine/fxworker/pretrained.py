"""Models that their library would fetch by name are made from a configuration instead.

What is asked of a model here is its structure; the weights that go with a name are not needed for that. Without the
network its configuration is not known either: that which the library has by default for this kind of model stands in.
"""

import sys
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from fxworker.once import wrapped_once

_ABOUT_FETCHING: Final = frozenset(
    {
        "cache_dir", "force_download", "proxies", "token", "use_auth_token", "local_files_only", "revision",
        "trust_remote_code", "subfolder", "gguf_file", "_from_pipeline", "_from_auto", "_commit_hash",
    }
)  # fmt: skip
"""Arguments that are no part of a configuration."""

_Method: TypeAlias = Callable[..., Any]


def models_are_made() -> bool:
    """Let the libraries that fetch models, as far as they are imported, make those that cannot be fetched.

    Returns:
        Whether one of them did not do so before.
    """
    is_new = False
    for module, owner, name, wrapper in _PLACES:
        found = getattr(sys.modules.get(module), owner, None)
        method = vars(found).get(name) if isinstance(found, type) else None
        wrapped = wrapped_once(method.__func__, wrapper) if isinstance(method, classmethod) else None
        if wrapped is not None:
            setattr(found, name, classmethod(wrapped))
            is_new = True
    return is_new


def _making(fetch: _Method) -> _Method:
    """Return transformers' `from_pretrained` of models, for when it finds nothing."""

    def from_pretrained(cls: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return fetch(cls, name, *args, **kwargs)
        except OSError:
            config = kwargs.pop("config", None)
            if config is None or isinstance(config, str):
                config, _ = cls.config_class.from_pretrained(name, return_unused_kwargs=True, **kwargs)
            return cls(config, *args).eval()

    return from_pretrained


def _making_by_default(fetch: _Method) -> _Method:
    """Return diffusers' `from_pretrained` of models, for when it finds nothing."""

    def from_pretrained(cls: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return fetch(cls, *args, **kwargs)
        except OSError:
            return cls().eval()

    return from_pretrained


def _making_as_usual(fetch: _Method) -> _Method:
    """Return transformers' `from_pretrained` of what prepares pictures and sounds, for when it finds nothing."""

    def from_pretrained(cls: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return fetch(cls, *args, **kwargs)
        except OSError:
            return cls()

    return from_pretrained


def _configuring(find: _Method) -> _Method:
    """Return transformers' `get_config_dict`, which says what kind of model a name stands for when it finds nothing."""

    def get_config_dict(cls: Any, name: Any, **kwargs: Any) -> Any:
        try:
            return find(cls, name, **kwargs)
        except OSError:
            kind = cls.model_type or _kind(str(name))
            if not kind:
                raise
            # A configuration keeps its name.
            known = {"model_type": kind, "name_or_path": str(name)}
            return known, {key: value for key, value in kwargs.items() if key not in _ABOUT_FETCHING}

    return get_config_dict


def _kind(name: str) -> str:
    """Return transformers' word for the kind of model that a name stands for, "" if it is not known."""
    kinds = sys.modules["transformers.models.auto.configuration_auto"].CONFIG_MAPPING.keys()
    plain = _plain(name)
    return max((kind for kind in kinds if _plain(kind) in plain), key=len, default="")


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


_PLACES: Final = (
    ("transformers.modeling_utils", "PreTrainedModel", "from_pretrained", _making),
    ("transformers.configuration_utils", "PreTrainedConfig", "get_config_dict", _configuring),
    ("transformers.configuration_utils", "PretrainedConfig", "get_config_dict", _configuring),
    ("transformers.image_processing_base", "ImageProcessingMixin", "from_pretrained", _making_as_usual),
    ("transformers.feature_extraction_utils", "FeatureExtractionMixin", "from_pretrained", _making_as_usual),
    ("diffusers.models.modeling_utils", "ModelMixin", "from_pretrained", _making_by_default),
)
