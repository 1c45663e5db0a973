"""The settings: their one source. What a key means, its type and its default stand here and nowhere else.

From this module come the values that features read, the messages for values that cannot be used, the
`contributes.configuration` part of the extension's package.json, and the table of the documentation. Settings arrive
in the section `fxls` and as `initializationOptions`, both as nested objects (`{"trace": {"timeout": 5}}`) or with
dotted keys (`{"trace.timeout": 5}`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal, TypeAlias, get_args

from fxls.rules import closest, selects_something
from fxworker.wire import Keep, Limits

SECTION: Final = "fxls"

Sandbox: TypeAlias = Literal["auto", "on", "off"]
LogLevel: TypeAlias = Literal["error", "warning", "info", "debug"]
Level: TypeAlias = Literal["error", "warning", "information", "hint", "off"]
_Kind: TypeAlias = Literal["boolean", "number", "integer", "string", "strings", "codes", "levels"]

LEVELS: Final = get_args(Level)
_CODE: Final = r"^FX\d{0,3}$"


@dataclass(frozen=True, slots=True)
class Option:
    """One key of the section: what the person may write there.

    `scope` is VS Code's: which settings files may hold the key. A `machine-overridable` one is not taken from an
    untrusted workspace.
    """

    key: str
    kind: _Kind
    description: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    scope: Literal["window", "resource", "machine-overridable"] = "resource"


@dataclass(frozen=True, slots=True)
class BadSetting:
    """A value that cannot be used; the default, or the value before it, is used instead."""

    key: str
    message: str


@dataclass(frozen=True, slots=True)
class Settings:
    """The values in use."""

    interpreter: tuple[str, ...] = field(
        default=(),
        metadata={
            "option": Option(
                "interpreter",
                "strings",
                'The command that starts the Python with your torch, as a list: `["/path/to/python"]`. '
                "Empty: the active environment, then `.venv` or `venv` in the folder, then the server's own Python if "
                "it has a torch, then `python` on the PATH.",
                scope="machine-overridable",
            )
        },
    )
    strict: bool = field(
        default=False,
        metadata={
            "option": Option(
                "strict",
                "boolean",
                "Report whatever stops torch.fx as an error, even where shapes decide it and the capture succeeded.",
            )
        },
    )
    ignore: tuple[str, ...] = field(
        default=(),
        metadata={
            "option": Option(
                "ignore",
                "codes",
                "Codes of problems that are not reported: `FX305`, or `FX3` for all that begin so. "
                "The project's pyproject.toml and comments in the text may name more.",
            )
        },
    )
    severity: tuple[tuple[str, Level], ...] = field(
        default=(),
        metadata={
            "option": Option(
                "severity",
                "levels",
                'How severe problems are, by code: `{"FX301": "error", "FX3": "hint"}`; `off` means not reported. '
                "Of several that fit, here or in `ignore`, the longest counts.",
            )
        },
    )
    extra_roots: tuple[str, ...] = field(
        default=(),
        metadata={
            "option": Option(
                "extraRoots",
                "strings",
                "Further folders to import from, absolute or relative to the workspace folder.",
            )
        },
    )
    trace_timeout: float = field(
        default=10.0,
        metadata={
            "option": Option(
                "trace.timeout",
                "number",
                "Seconds that executing a file, building its models and tracing them may take.",
                minimum=0.1,
                maximum=3600,
            )
        },
    )
    trace_memory: int = field(
        default=4096,
        metadata={
            "option": Option(
                "trace.memory",
                "integer",
                "MiB of memory that a trace may use beyond torch itself.",
                minimum=64,
                maximum=1 << 20,
            )
        },
    )
    trace_processes: int = field(
        default=64,
        metadata={
            "option": Option(
                "trace.processes",
                "integer",
                "How many processes a trace may start.",
                minimum=1,
                maximum=10_000,
            )
        },
    )
    trace_file_size: int = field(
        default=1024,
        metadata={
            "option": Option(
                "trace.fileSize",
                "integer",
                "MiB that a file may have which a trace writes.",
                minimum=1,
                maximum=1 << 20,
            )
        },
    )
    trace_open_files: int = field(
        default=1024,
        metadata={
            "option": Option(
                "trace.openFiles",
                "integer",
                "How many files a process of a trace may have open.",
                minimum=64,
                maximum=1 << 20,
            )
        },
    )
    sandbox: Sandbox = field(
        default="auto",
        metadata={
            "option": Option(
                "sandbox",
                "string",
                "Whether files are executed without network, and may write to temporary folders only, where Linux "
                "offers that: `auto` means all but those that you edit and that fail because of it, `on` all, "
                "`off` none.",
                choices=("auto", "on", "off"),
                scope="machine-overridable",
            )
        },
    )
    worker_environment: tuple[str, ...] = field(
        default=(),
        metadata={
            "option": Option(
                "worker.environment",
                "strings",
                "Variables of the environment that your models' code sees (`HF_TOKEN`, `WANDB_*`) although their names "
                "look like those of secrets, or does not see (`-MY_VARIABLE`). By default it sees all others.",
                scope="machine-overridable",
            )
        },
    )
    worker_temporary_home: bool = field(
        default=False,
        metadata={
            "option": Option(
                "worker.temporaryHome",
                "boolean",
                "Give your models' code an empty home folder that is removed afterwards, in place of yours: it neither "
                "reads nor fills the caches and settings that are there.",
                scope="machine-overridable",
            )
        },
    )
    worker_documents: int = field(
        default=8,
        metadata={
            "option": Option(
                "worker.documents",
                "integer",
                "How many files a worker keeps ready for the next edit, with their imports made; the one that you were "
                "at longest ago is given up first.",
                minimum=1,
                maximum=1000,
            )
        },
    )
    worker_memory: int = field(
        default=1024,
        metadata={
            "option": Option(
                "worker.memory",
                "integer",
                "MiB of memory that these files may hold together beyond torch itself; the file that you are at is "
                "always kept.",
                minimum=64,
                maximum=1 << 20,
            )
        },
    )
    profile_device: str = field(
        default="cpu",
        metadata={
            "option": Option(
                "profile.device", "string", "The device that *Profile Model* uses: `cpu`, `cuda`, `cuda:1`, `mps`, …"
            )
        },
    )
    profile_timeout: float = field(
        default=300.0,
        metadata={
            "option": Option("profile.timeout", "number", "Seconds that a profile may take.", minimum=1, maximum=86400)
        },
    )
    inlay_hints: bool = field(
        default=True,
        metadata={
            "option": Option(
                "inlayHints", "boolean", "Show the shapes of tensors, and the times of the last profile, in the text."
            )
        },
    )
    code_lens: bool = field(
        default=True,
        metadata={
            "option": Option(
                "codeLens", "boolean", "Show a line above each model: what was captured, and what can be done with it."
            )
        },
    )
    log_level: LogLevel = field(
        default="warning",
        metadata={
            "option": Option(
                "log.level",
                "string",
                "How much the server writes to its log.",
                choices=("error", "warning", "info", "debug"),
                scope="window",
            )
        },
    )

    @property
    def of_traces(self) -> tuple[object, ...]:
        """The values that a trace depends on; the others say what is shown of it."""
        return (
            self.interpreter,
            self.extra_roots,
            self.limits,
            self.sandbox,
            self.worker_environment,
            self.worker_temporary_home,
        )

    @property
    def limits(self) -> Limits:
        """What a trace may use."""
        return Limits(
            self.trace_timeout,
            self.trace_memory << 20,
            self.trace_processes,
            self.trace_file_size << 20,
            self.trace_open_files,
        )

    @property
    def keep(self) -> Keep:
        """What a worker keeps ready."""
        return Keep(self.worker_documents, self.worker_memory << 20)

    @property
    def profile_limits(self) -> Limits:
        """What a profile may use."""
        return replace(self.limits, seconds=self.profile_timeout)

    def level(self, code: str) -> Level | None:
        """Return how severe the person wants a code to be, None where they did not say."""
        levels = dict(self.severity)
        chosen, ignored = closest(code, levels), closest(code, self.ignore)
        if ignored is not None and len(ignored) >= len(chosen or ""):
            return "off"
        return levels[chosen] if chosen is not None else None

    @classmethod
    def read(cls, value: object, base: "Settings | None" = None) -> "tuple[Settings, tuple[BadSetting, ...]]":
        """Return the settings that a client's section holds, and what in it cannot be used.

        Keys that are absent or null keep the value of `base`, or their default. Keys that are none of ours are left
        alone: clients put their own there.
        """
        base = base or cls()
        values: dict[str, Any] = {each.name: getattr(base, each.name) for each in fields(cls)}
        if value is None:
            return base, ()
        if not isinstance(value, Mapping):
            return base, (BadSetting(SECTION, f"`{SECTION}` must be an object, not {_shown(value)}"),)
        bad: list[BadSetting] = []
        for name, option in _options():
            given = _given(value, option.key)
            if given is None:
                continue
            key = f"`{SECTION}.{option.key}`"
            message = _objection(option, given)
            if message:
                used = _shown(_plain(option, values[name]))
                bad.append(BadSetting(option.key, f"{key} {message}; {used} is used"))
                continue
            values[name] = _converted(option, given)
            bad.extend(
                BadSetting(option.key, f"{key} names {_shown(code)}, which is no code of fxls")
                for code in _unknown_codes(option, given)
            )
        return cls(**values), tuple(bad)


def options() -> tuple[Option, ...]:
    """Return every key in the order in which people read them."""
    return tuple(option for _, option in _options())


def package_configuration() -> dict[str, Any]:
    """Return the `contributes.configuration` part of the extension's package.json."""
    defaults = Settings()
    properties = {f"{SECTION}.{option.key}": _schema(option, getattr(defaults, name)) for name, option in _options()}
    return {"title": SECTION, "properties": properties}


def markdown_table() -> str:
    """Return the table of settings for the documentation."""
    defaults = Settings()
    rows = ["| setting | default | meaning |", "|---|---|---|"]
    for name, option in _options():
        default = _shown(_plain(option, getattr(defaults, name)))
        rows.append(f"| `{SECTION}.{option.key}` | `{default}` | {option.description} |")
    return "\n".join(rows) + "\n"


def _options() -> Iterator[tuple[str, Option]]:
    for each in fields(Settings):
        yield each.name, each.metadata["option"]


def _given(section: Mapping[Any, Any], key: str) -> Any:
    """Return the value of a key in either spelling, None where it is absent."""
    if key in section:
        return section[key]
    value: Any = section
    for part in key.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def _objection(option: Option, value: Any) -> str:
    """Return why a value cannot be used, "" if it can."""
    if not _fits(option.kind, value):
        return f"must be {_KINDS[option.kind]}, not {_shown(value)}"
    if option.choices and value not in option.choices:
        return f"must be one of {', '.join(option.choices)}, not {_shown(value)}"
    if option.minimum is not None and value < option.minimum:
        return f"must be at least {option.minimum:g}, not {_shown(value)}"
    if option.maximum is not None and value > option.maximum:
        return f"must be at most {option.maximum:g}, not {_shown(value)}"
    return ""


_KINDS: Final[Mapping[_Kind, str]] = {
    "boolean": "true or false",
    "number": "a number",
    "integer": "a whole number",
    "string": "a text",
    "strings": "a list of texts",
    "codes": "a list of codes",
    "levels": f"codes, each with one of {', '.join(LEVELS)}",
}


def _unknown_codes(option: Option, value: Any) -> list[str]:
    """Return what a list of codes names that is none: it does no harm, but is hardly what was meant."""
    if option.kind not in {"codes", "levels"}:
        return []
    codes = [value] if isinstance(value, str) else list(value)
    return [code for code in codes if code and not selects_something(code)]


def _fits(kind: _Kind, value: Any) -> bool:
    match kind:
        case "boolean":
            return isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "integer":
            return not isinstance(value, bool) and (
                isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            )
        case "string":
            return isinstance(value, str)
        case "strings" | "codes":
            return isinstance(value, str) or (
                isinstance(value, Sequence) and all(isinstance(each, str) for each in value)
            )
        case "levels":
            return isinstance(value, Mapping) and all(
                isinstance(code, str) and level in LEVELS for code, level in value.items()
            )


def _converted(option: Option, value: Any) -> Any:
    match option.kind:
        case "number":
            return float(value)
        case "integer":
            return int(value)
        case "strings" | "codes":
            return (value,) if isinstance(value, str) and value else tuple(value)
        case "levels":
            return tuple(sorted(value.items()))
        case _:
            return value


def _shown(value: object) -> str:
    """Return a value as it would stand in a settings file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_shown, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_shown(key)}: {_shown(each)}" for key, each in value.items()) + "}"
    return repr(value)


_TYPES: Final[Mapping[_Kind, str]] = {"strings": "array", "codes": "array", "levels": "object"}
"""The types of JSON schema, where they are not called as the kinds are."""


def _plain(option: Option, value: Any) -> Any:
    """Return a value as it stands in JSON."""
    if option.kind == "levels":
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def _schema(option: Option, default: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": _TYPES.get(option.kind, option.kind),
        "default": _plain(option, default),
        "markdownDescription": option.description,
        "scope": option.scope,
    }
    match option.kind:
        case "strings":
            schema["items"] = {"type": "string"}
        case "codes":
            schema["items"] = {"type": "string", "pattern": _CODE}
        case "levels":
            schema["patternProperties"] = {_CODE: {"type": "string", "enum": list(LEVELS)}}
            schema["additionalProperties"] = False
        case _:
            pass
    if option.choices:
        schema["enum"] = list(option.choices)
    if option.minimum is not None:
        schema["minimum"] = option.minimum
    if option.maximum is not None:
        schema["maximum"] = option.maximum
    return schema
