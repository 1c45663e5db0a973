"""Which folders lie on another machine: what changes there, this system does not tell.

Linux says what is mounted where, and of which kind. Elsewhere every folder counts as one of this machine.
"""

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Final

_TABLE: Final = "/proc/self/mountinfo"
_REMOTE: Final = frozenset({
    "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "drvfs", "fhgfs", "gfs2", "glusterfs", "gpfs",
    "lustre", "ncpfs", "nfs", "nfs3", "nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "smb3", "smbfs", "vboxsf",
    "virtiofs", "vmhgfs",
})  # fmt: skip
_LOCAL_FUSE: Final = frozenset({"fuse.fuse-overlayfs", "fuse.portal", "fuse.lxcfs"})
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


def kinds_now() -> dict[str, str]:
    """Return the kind of file system at each place where one is mounted now."""
    return mounted(_table())


def is_remote(folder: str, kinds: dict[str, str]) -> bool:
    """Whether what others write into a folder is not told here: it is mounted from elsewhere, or by a program."""
    path = os.path.realpath(folder)
    while True:
        kind = kinds.get(path)
        if kind is not None:
            return kind in _REMOTE or (kind.startswith("fuse") and kind not in {"fuseblk", "fusectl"} | _LOCAL_FUSE)
        above = os.path.dirname(path)  # noqa: PTH120 — plain strings, for each folder that is watched.
        if above == path:
            return False
        path = above


@lru_cache(maxsize=1)
def mounted(table: str) -> dict[str, str]:
    """Return the kind of file system at each place where one is mounted; of several the last, which hides the others.

    Args:
        table: What the kernel says, in the form of `/proc/self/mountinfo` (proc(5)).
    """
    found: dict[str, str] = {}
    for line in table.splitlines():
        fields, _, rest = line.partition(" - ")
        place, kind = fields.split(" ")[4:5], rest.split(" ")[0]
        if place and kind:
            found[_ESCAPE.sub(lambda each: chr(int(each[1], 8)), place[0])] = kind
    return found


def _table() -> str:
    try:
        return Path(_TABLE).read_text("utf-8", "surrogateescape")
    except OSError:
        return ""
