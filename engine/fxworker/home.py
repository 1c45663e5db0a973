"""A home folder that is not the person's: what models' code would keep there goes into one that is thrown away."""

import os
import site
from typing import Final

CHOSEN: Final = "FXLS_WORKER_HOME"
"""The variable that names the folder. It is made and removed by whoever starts the worker."""

_ELSEWHERE: Final = (
    "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR", "TRITON_HOME", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_DATASETS_CACHE",
    "HF_MODULES_CACHE", "TRANSFORMERS_CACHE", "DIFFUSERS_CACHE", "PYTORCH_PRETRAINED_BERT_CACHE", "KERAS_HOME",
    "MPLCONFIGDIR", "WANDB_DIR", "WANDB_CACHE_DIR", "NLTK_DATA",
)  # fmt: skip
"""Variables that lead caches and settings to another place than below the home folder."""


def move() -> None:
    """Make the chosen folder the home of this process and of those that it starts; without one nothing changes.

    Python itself has started in the person's home by then, so that what is installed for the user alone is found.
    """
    folder = os.environ.pop(CHOSEN, "")
    if not folder:
        return
    os.environ.setdefault("PYTHONUSERBASE", site.getuserbase())
    for name in _ELSEWHERE:
        os.environ.pop(name, None)
    os.environ["HOME"] = os.environ["USERPROFILE"] = folder
