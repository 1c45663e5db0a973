"""What a worker's code sees of the environment: whatever Python and torch need, and no secrets.

A model needs no passwords, tokens or keys to be traced, and no display to open windows on.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

_SECRET: Final = (
    "*TOKEN*", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*", "*CREDENTIAL*", "*_KEY", "*_KEY_ID", "*APIKEY*",
    "*API_KEY*", "*ACCESS_KEY*", "*PRIVATE_KEY*", "*COOKIE*", "*_DSN", "*_AUTH", "*_PAT", "AWS_*", "AZURE_*", "GCP_*",
    "GOOGLE_APPLICATION_*", "VAULT_*", "DOCKER_AUTH*", "DATABASE_URL", "*_DATABASE_URL", "PGPASS*", "KUBECONFIG",
    "SSH_*", "GPG_*", "NETRC",
)  # fmt: skip
_HARMLESS: Final = ("TOKENIZERS_*",)
_NOT_OURS: Final = ("COVERAGE_*", "DEBUGPY_*", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS")


def visible(environ: Mapping[str, str], rules: Sequence[str]) -> dict[str, str]:
    """Return the variables that a worker gets.

    Args:
        environ: All there are.
        rules: What the person wants otherwise: patterns of names to keep, and, behind a `-`, to leave out. The last
            one that fits counts.
    """
    return {name: value for name, value in environ.items() if _is_visible(name, rules)}


def _is_visible(name: str, rules: Sequence[str]) -> bool:
    upper = name.upper()
    for rule in reversed(rules):
        if fnmatchcase(upper, rule.removeprefix("-").upper()):
            return not rule.startswith("-")
    return _fits(upper, _HARMLESS) or not (_fits(upper, _SECRET) or _fits(upper, _NOT_OURS))


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, each) for each in patterns)
