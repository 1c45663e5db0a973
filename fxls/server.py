"""The server's wiring: one short handler for each method of the protocol.

This is the only module that knows the framework. Handlers are coroutines on the event loop and do no work that takes
time: they hand edits to the session, or ask a feature about the latest snapshot. A fault of ours is logged and
answered by an error; a message that is none is answered by an error too, and the server goes on.
"""

import asyncio
import functools
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, cast

from lsprotocol import types as lsp
from pygls.capabilities import ServerCapabilitiesBuilder, get_capability
from pygls.exceptions import JsonRpcException, JsonRpcInternalError, JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.protocol import (
    JsonRPCNotification,
    JsonRPCRequestMessage,
    LanguageServerProtocol,
    default_converter,
)

from fxls import __version__, commands, lsp_ext
from fxls.features.code_actions import code_actions
from fxls.features.code_lens import code_lenses
from fxls.features.hover import hover
from fxls.features.inlay_hints import inlay_hints
from fxls.lsp_ext import CodeView, CommandArguments, GraphView, ProfileView
from fxls.session import Session, Terms
from fxls.settings import SECTION
from fxls.text.uris import to_path, to_uri
from fxls.transport import INVALID_REQUEST, Frames, Gate, Malformed, error_reply, write
from fxls.workers.pool import WorkerPool
from fxworker.wire import Progress

_log = logging.getLogger(__name__)

_REQUEST_FAILED: Final = -32803
"""LSP 3.17: the request was understood and cannot be done."""

_FAREWELL: Final = 5.0
"""Seconds that an `exit` waits for the answers to what was asked before it."""

_NOTIFICATIONS: Final = frozenset(
    {name for name, types in lsp.METHOD_TO_TYPES.items() if types[0].__name__.endswith("Notification")}
    | {lsp_ext.ACTIVE, lsp_ext.TRUSTED}
)
"""What is told and not asked."""

_Result = TypeVar("_Result")
_Handler = Callable[..., Awaitable[_Result]]


class _Protocol(LanguageServerProtocol):
    """The framework's protocol without its own copy of the documents.

    A method that is overridden without `lsp_method` is no built-in feature any more: our handler alone gets it. For
    commands this is so because the framework's way of calling them does not survive that one is cancelled.
    """

    def lsp_text_document__did_open(self, params: Any) -> None: ...  # pyright: ignore[reportIncompatibleMethodOverride]

    def lsp_text_document__did_change(self, params: Any) -> None: ...  # pyright: ignore[reportIncompatibleMethodOverride]

    def lsp_text_document__did_close(self, params: Any) -> None: ...  # pyright: ignore[reportIncompatibleMethodOverride]

    def lsp_workspace__execute_command(self, params: Any) -> None: ...  # pyright: ignore[reportIncompatibleMethodOverride]

    def _execute_handler(self, msg_id: Any, *args: Any, **kwargs: Any) -> None:
        super()._execute_handler(msg_id, *args, **kwargs)
        running = self._request_futures.get(msg_id)
        if running is not None:
            # The framework keeps what became of a notification for good.
            running.add_done_callback(functools.partial(self._done, msg_id))

    def _done(self, msg_id: Any, future: Any) -> None:
        if self._request_futures.get(msg_id) is future:
            del self._request_futures[msg_id]

    def _send_response(self, msg_id: Any, result: Any = None, error: Any = None) -> None:
        super()._send_response(msg_id, result, error)
        cast("FxServer", self._server).answered()


class FxServer(LanguageServer):
    """One connection to an editor. Mutable; the `Client` of its session."""

    def __init__(self, send: Callable[[bytes], object], *, run: bool = True, pool: WorkerPool | None = None) -> None:
        super().__init__(
            "fxls",
            __version__,
            text_document_sync_kind=lsp.TextDocumentSyncKind.Incremental,
            protocol_cls=_Protocol,
            converter_factory=_converter,
        )
        self.run = run
        self.pool = pool or WorkerPool()
        self.session: Session | None = None
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._send = send
        self._frames = Frames()
        self._gate = Gate()
        self._unanswered = 0
        self._leaves = False
        self.protocol.set_writer(_Writer(send))
        for method, (handler, options) in _FEATURES.items():
            self.feature(method, options)(_guarded(handler))
        for command, handler in _COMMANDS.items():
            self.command(command)(handler)

    # Bytes in.

    def receive(self, data: bytes) -> None:
        """Take bytes from the client, handle the messages that they complete."""
        for message in self._frames.feed(data):
            answer = message if isinstance(message, Malformed) else self._gate.admit(message)
            if isinstance(answer, Malformed):
                _log.warning("a message was refused: %s", answer.message)
                write(error_reply(answer), self._send)
            elif answer:
                self._handle_any(message)

    def lost(self) -> None:
        """Take note that the client is gone."""
        self.exit()

    def exit(self) -> None:
        """Let the server end: with 1, or, after `shutdown`, with 0 as soon as that and what came before is answered."""
        if not self._gate.closing:
            self._end(1)
            return
        self._leaves = True
        if self._unanswered:
            asyncio.get_running_loop().call_later(_FAREWELL, self._end, 0)
        else:
            self._end(0)

    def answered(self) -> None:
        """Take note that a request was answered."""
        self._unanswered -= 1
        if self._leaves and not self._unanswered:
            self._end(0)

    def _end(self, code: int) -> None:
        if not self.exited.done():
            self.exited.set_result(code)

    async def end(self) -> None:
        """End all work and every process."""
        if self.session is not None:
            await self.session.close()
        else:
            await self.pool.close()

    def _handle_any(self, message: Any) -> None:
        """Handle a message. Where the framework fails on it, those behind it are handled all the same."""
        try:
            self._handle(message)
        except Exception as error:  # noqa: BLE001 — The loop of the server, in which one message is as good as another.
            _log.error("%s could not be handled: %s", message.get("method", "an answer"), error)

    def _handle(self, message: Any) -> None:
        number = message.get("id") if "method" in message else None
        if number is None and message.get("method") == lsp.EXIT:
            # The framework ends what still runs when `shutdown` is done: an `exit` that came right behind it, too.
            self.exit()
            return
        if number is not None and message["method"] in _NOTIFICATIONS:
            # Who asks is answered, also where there is nothing to ask.
            fault = Malformed(INVALID_REQUEST, f"`{message['method']}` is no request", number)
            write(error_reply(fault), self._send)
            return
        try:
            structured: Any = self.protocol.structure_message(message)
        except JsonRpcException as error:
            _log.warning("%s of a shape that is not the protocol's", message.get("method", "an answer"))
            if number is not None:
                self._gate.refused(message["method"])
                write(error_reply(Malformed(JsonRpcInvalidParams.CODE, f"{error.message}", number)), self._send)
            return
        if number is not None:
            self._unanswered += 1
        self.protocol.handle_message(structured)

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log a fault that no request waits for. The person cannot do anything about it and is not told."""
        _log.error("%s: %s", getattr(source, "__name__", source), error)

    # The session's client.

    def publish(self, uri: str, version: int | None, found: list[lsp.Diagnostic]) -> None:
        """Show a document's diagnostics."""
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, found, version))

    def refresh(self) -> None:
        """Ask for code lenses and inlay hints anew, where the client can be asked."""
        if get_capability(self.client_capabilities, "workspace.code_lens.refresh_support"):
            self.workspace_code_lens_refresh(None)
        if get_capability(self.client_capabilities, "workspace.inlay_hint.refresh_support"):
            self.workspace_inlay_hint_refresh(None)

    def status(self, status: lsp_ext.Status) -> None:
        """Show how things are."""
        self.protocol.notify(lsp_ext.STATUS, lsp_ext.to_json(status))

    def warn(self, message: str) -> None:
        """Tell the person something that they should change."""
        _log.warning("%s", message)
        self.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Warning, f"fxls: {message}"))


# Life cycle.


async def _initialize(ls: FxServer, params: lsp.InitializeParams) -> None:
    given = params.initialization_options
    given = given if isinstance(given, dict) else {}
    folders = [to_path(folder.uri) for folder in params.workspace_folders or ()]
    if not folders and params.root_uri:
        folders = [to_path(params.root_uri)]
    encoding = ServerCapabilitiesBuilder.choose_position_encoding(params.capabilities)
    terms = Terms(
        encoding=str(getattr(encoding, "value", encoding)),
        folders=tuple(folders),
        trusted=given.get("trusted", True) is True,
        run=ls.run,
    )
    ls.session = Session(ls, terms, ls.pool)
    ls.session.configure(given)


async def _initialized(ls: FxServer, params: lsp.InitializedParams) -> None:
    del params
    if get_capability(ls.client_capabilities, "workspace.did_change_configuration.dynamic_registration"):
        registration = lsp.Registration(
            str(uuid.uuid4()),
            lsp.WORKSPACE_DID_CHANGE_CONFIGURATION,
            lsp.DidChangeConfigurationRegistrationOptions(section=SECTION),
        )
        ls.client_register_capability(lsp.RegistrationParams([registration]))
    _session(ls).announce()
    await _pull_settings(ls)


async def _shutdown(ls: FxServer, params: None) -> None:
    del params
    await ls.end()


# Documents.


async def _did_open(ls: FxServer, params: lsp.DidOpenTextDocumentParams) -> None:
    document = params.text_document
    if document.language_id == "python":
        _session(ls).open(document.uri, document.version, document.text)


async def _did_change(ls: FxServer, params: lsp.DidChangeTextDocumentParams) -> None:
    _session(ls).change(params.text_document.uri, params.text_document.version, params.content_changes)


async def _did_save(ls: FxServer, params: lsp.DidSaveTextDocumentParams) -> None:
    _session(ls).save(params.text_document.uri)


async def _did_close(ls: FxServer, params: lsp.DidCloseTextDocumentParams) -> None:
    _session(ls).close_document(params.text_document.uri)


# The workspace.


async def _did_change_configuration(ls: FxServer, params: lsp.DidChangeConfigurationParams) -> None:
    if await _pull_settings(ls):
        return
    settings = params.settings
    if isinstance(settings, dict):
        _session(ls).configure(settings.get(SECTION, settings))


async def _did_change_watched_files(ls: FxServer, params: lsp.DidChangeWatchedFilesParams) -> None:
    _session(ls).files_changed([to_path(change.uri) for change in params.changes])


async def _did_change_folders(ls: FxServer, params: lsp.DidChangeWorkspaceFoldersParams) -> None:
    added = [to_path(folder.uri) for folder in params.event.added]
    _session(ls).change_folders(added, [to_path(folder.uri) for folder in params.event.removed])


async def _trusted(ls: FxServer, params: object) -> None:
    del params
    _session(ls).trust()


async def _active(ls: FxServer, params: object) -> None:
    _session(ls).activate(lsp_ext.read(lsp_ext.ActiveParams, params).uri)


# Features.


async def _hover(ls: FxServer, params: lsp.HoverParams) -> lsp.Hover | None:
    snapshot = _session(ls).snapshot(params.text_document.uri)
    return None if snapshot is None else hover(snapshot, params.position)


async def _code_action(ls: FxServer, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    snapshot = _session(ls).snapshot(params.text_document.uri)
    return [] if snapshot is None else code_actions(snapshot, params.range, params.context)


async def _code_lens(ls: FxServer, params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
    snapshot = _session(ls).snapshot(params.text_document.uri)
    return [] if snapshot is None or not snapshot.settings.code_lens else code_lenses(snapshot)


async def _inlay_hint(ls: FxServer, params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
    snapshot = _session(ls).snapshot(params.text_document.uri)
    return [] if snapshot is None or not snapshot.settings.inlay_hints else inlay_hints(snapshot, params.range)


# Our own requests and commands.


async def _report(ls: FxServer, params: object) -> Any:
    return lsp_ext.to_json(commands.report(_session(ls), lsp_ext.read(lsp_ext.ReportParams, params)))


async def _environment(ls: FxServer, params: object) -> Any:
    return lsp_ext.to_json(commands.environment(_session(ls), lsp_ext.read(lsp_ext.EnvironmentParams, params)))


async def _execute_command(ls: FxServer, params: lsp.ExecuteCommandParams) -> Any:
    handler = _COMMANDS.get(params.command)
    if handler is None:
        raise JsonRpcInvalidParams(f"there is no command {params.command}")
    arguments = lsp_ext.read(lsp_ext.CommandArguments, params.arguments[0] if params.arguments else None)
    return lsp_ext.to_json(await handler(ls, arguments, params.work_done_token))


async def _show_code(ls: FxServer, arguments: CommandArguments, _: lsp.ProgressToken | None) -> CodeView:
    return await commands.show_code(_session(ls), arguments)


async def _show_graph(ls: FxServer, arguments: CommandArguments, _: lsp.ProgressToken | None) -> GraphView:
    return await commands.show_graph(_session(ls), arguments)


async def _retrace(ls: FxServer, arguments: CommandArguments, _: lsp.ProgressToken | None) -> None:
    await commands.retrace(_session(ls), arguments)


async def _profile(ls: FxServer, arguments: CommandArguments, token: lsp.ProgressToken | None) -> ProfileView:
    progress = _ProgressBar(ls, f"Profile {arguments.target}".rstrip(), token)
    await progress.begin()
    try:
        return await commands.profile(_session(ls), arguments, progress.report)
    finally:
        progress.end()


class _ProgressBar:
    """Shows long work in the editor, and ends the request that it belongs to when the person cancels it there."""

    def __init__(self, ls: FxServer, title: str, token: lsp.ProgressToken | None) -> None:
        self._ls = ls
        self._title = title
        self._token = token
        self._shown = 0.0

    async def begin(self) -> None:
        """Show the bar: where the client said, otherwise in one of its own, if it can show one."""
        progress = self._ls.work_done_progress
        if self._token is None and get_capability(self._ls.client_capabilities, "window.work_done_progress"):
            token = str(uuid.uuid4())
            try:
                async with asyncio.timeout(2.0):
                    await progress.create_async(token)
            except (TimeoutError, JsonRpcException):
                return
            self._token = token
        if self._token is None:
            return
        progress.begin(self._token, lsp.WorkDoneProgressBegin(title=self._title, cancellable=True, percentage=0))
        task = asyncio.current_task()
        assert task is not None
        progress.tokens[self._token].add_done_callback(lambda future: future.cancelled() and task.cancel())

    def report(self, progress: Progress) -> None:
        """Show how far it is, at most ten times a second."""
        now = time.monotonic()
        if self._token is not None and now - self._shown >= 0.1:
            self._shown = now
            value = lsp.WorkDoneProgressReport(message=progress.message, percentage=progress.percentage)
            self._ls.work_done_progress.report(self._token, value)

    def end(self) -> None:
        """Take the bar away."""
        if self._token is not None:
            self._ls.work_done_progress.end(self._token, lsp.WorkDoneProgressEnd())
            self._ls.work_done_progress.tokens.pop(self._token, None)


_FEATURES: Final[dict[str, tuple[_Handler[Any], Any]]] = {
    lsp.INITIALIZE: (_initialize, None),
    lsp.INITIALIZED: (_initialized, None),
    lsp.SHUTDOWN: (_shutdown, None),
    lsp.TEXT_DOCUMENT_DID_OPEN: (_did_open, None),
    lsp.TEXT_DOCUMENT_DID_CHANGE: (_did_change, None),
    lsp.TEXT_DOCUMENT_DID_SAVE: (_did_save, lsp.SaveOptions(include_text=False)),
    lsp.TEXT_DOCUMENT_DID_CLOSE: (_did_close, None),
    lsp.WORKSPACE_DID_CHANGE_CONFIGURATION: (_did_change_configuration, None),
    lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES: (_did_change_watched_files, None),
    lsp.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: (_did_change_folders, None),
    lsp.TEXT_DOCUMENT_HOVER: (_hover, None),
    lsp.TEXT_DOCUMENT_CODE_ACTION: (
        _code_action,
        lsp.CodeActionOptions(
            code_action_kinds=[
                lsp.CodeActionKind.QuickFix,
                lsp.CodeActionKind.RefactorRewrite,
                lsp.CodeActionKind.Empty,
            ]
        ),
    ),
    lsp.TEXT_DOCUMENT_CODE_LENS: (_code_lens, None),
    lsp.TEXT_DOCUMENT_INLAY_HINT: (_inlay_hint, None),
    lsp.WORKSPACE_EXECUTE_COMMAND: (_execute_command, None),
    lsp_ext.TRUSTED: (_trusted, None),
    lsp_ext.ACTIVE: (_active, None),
    lsp_ext.REPORT: (_report, None),
    lsp_ext.ENVIRONMENT: (_environment, None),
}

_COMMANDS: Final[dict[str, _Handler[Any]]] = {
    lsp_ext.SHOW_CODE: _show_code,
    lsp_ext.SHOW_GRAPH: _show_graph,
    lsp_ext.PROFILE: _profile,
    lsp_ext.RETRACE: _retrace,
}


def _session(ls: FxServer) -> Session:
    assert ls.session is not None, "the gate lets nothing pass before `initialize`"
    return ls.session


async def _pull_settings(ls: FxServer) -> bool:
    """Ask the client for its settings, for each folder; says whether it can be asked."""
    if not get_capability(ls.client_capabilities, "workspace.configuration"):
        return False
    session = _session(ls)
    folders = session.folders
    items = [lsp.ConfigurationItem(section=SECTION)]
    items += [lsp.ConfigurationItem(scope_uri=to_uri(folder), section=SECTION) for folder in folders]
    answers = await ls.workspace_configuration_async(lsp.ConfigurationParams(items))
    for folder, answer in zip((None, *folders), answers, strict=False):
        session.configure(answer, folder)
    return True


def _guarded(handler: _Handler[_Result]) -> _Handler[_Result]:
    """Return a handler whose faults become errors of the protocol: ours are logged, the person's are told."""

    @functools.wraps(handler)
    async def guarded(*arguments: Any) -> _Result:
        if cast("FxServer", arguments[0]).exited.done():
            # What arrived with the end of the connection would begin anew what is being ended.
            raise JsonRpcException("the client has gone", _REQUEST_FAILED)
        try:
            return await handler(*arguments)
        except JsonRpcException:
            raise
        except commands.CommandError as error:
            raise JsonRpcException(str(error), _REQUEST_FAILED) from error
        except lsp_ext.ParamsError as error:
            raise JsonRpcInvalidParams(str(error)) from error
        except Exception as error:
            _log.exception("%s failed", handler.__name__)
            raise JsonRpcInternalError("fxls could not do this; its log says why") from error

    return guarded


class _Writer:
    """The framework's idea of where to write to."""

    def __init__(self, send: Callable[[bytes], object]) -> None:
        self._send = send

    def write(self, data: bytes) -> None:
        self._send(data)

    def close(self) -> None:
        """Whoever opened the connection closes it."""


def _converter() -> Any:
    """Return the framework's converter, with the parameters of our own messages left as they came."""
    converter = default_converter()
    converter.register_structure_hook(JsonRPCRequestMessage, _unstructured_request)
    converter.register_structure_hook(JsonRPCNotification, _unstructured_notification)
    return converter


def _unstructured_request(message: dict[str, Any], _: type) -> JsonRPCRequestMessage:
    return JsonRPCRequestMessage(message["id"], message["method"], message["jsonrpc"], message.get("params"))


def _unstructured_notification(message: dict[str, Any], _: type) -> JsonRPCNotification:
    return JsonRPCNotification(message["method"], message["jsonrpc"], message.get("params"))
