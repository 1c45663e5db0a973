"""What is not installed, as far as a process has met it: the packages, how they were asked for, and their version."""

from typing import Final

from fxworker.versions import NEWEST


class Absences:
    """The packages that are not installed and stood in for. Mutable; one in a process.

    Attributes:
        names: The packages, compiled parts of others, and parts of those that several fill.
        found: How each of them was asked for that nobody has asked about yet.
        permissive: Whether something is being imported, which lets everything happen to a stand-in.
        starred: The names that were asked for of packages of which everything is imported.
        of_decorated: The attributes that were asked for of functions which the packages' decorators were put on.
        version: What the packages say that their version is.
        versions: What some of them say instead.
        broken: Those of the names that are installed and cannot be imported, each with when its folder was changed.
        document: The file that is looked at: what it imports itself in vain is told there.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.found: list[ImportError] = []
        self.permissive = 0
        self.starred: set[str] = set()
        self.of_decorated: set[str] = set()
        self.version = NEWEST
        self.versions: dict[str, str] = {}
        self.broken: dict[str, int] = {}
        self.document = ""

    def leads_into(self, path: str) -> str:
        """Return the name of the package that a path leads into, "" where it leads into none of these."""
        parts = path.split(".")
        names = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
        return next((each for each in names if each in self.names), "")

    def version_of(self, path: str) -> str:
        """Return what the package says that its version is which a path leads into."""
        return self.versions.get(path.partition(".")[0], self.version)

    def missing(self, path: str) -> ModuleNotFoundError:
        """Return what is raised for want of something by its full name."""
        return not_found(self.leads_into(path) or path.partition(".")[0])


def not_found(name: str) -> ModuleNotFoundError:
    """Return what Python raises for a module that there is not."""
    return ModuleNotFoundError(f"No module named '{name}'", name=name)


ABSENCES: Final = Absences()
"""Those of this process."""

STAR: Final = "everything_of_what_is_not_installed"
"""The name that importing everything of an absent package gives; one with `_` would not be passed on."""

NOWHERE: Final = "/nonexistent"
"""Where the files of a package lie that is not installed."""
