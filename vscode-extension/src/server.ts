/**
 * The language server's life: started with the right Python, told of settings and trust, restarted on demand.
 * It knows no feature; what the server answers to a command is handed to `onResult`.
 */
import { type Disposable, type LogOutputChannel, EventEmitter, ProgressLocation, Uri, window, workspace } from 'vscode';
import {
    type ConfigurationParams,
    type ExecuteCommandParams,
    type LSPAny,
    type LSPObject,
    type LanguageClientOptions,
    type ServerOptions,
    DidChangeConfigurationNotification,
    ExecuteCommandRequest,
    LSPErrorCodes,
    LanguageClient,
    ResponseError,
    State,
    TransportKind,
    WorkDoneProgress,
    WorkDoneProgressCancelNotification,
} from 'vscode-languageclient/node';

import { type Interpreter, serverInterpreter, userInterpreter } from './interpreters';
import {
    type CommandArgument,
    type Status,
    ServerCommand,
    activeNotification,
    statusNotification,
    trustedNotification,
} from './protocol';

/** Documents of which the server can know the text and where it belongs. */
export const DOCUMENT_SCHEMES: readonly string[] = ['file', 'untitled'];

/** Commands that a link in a hover may run. */
const LINKED_COMMANDS = Object.values(ServerCommand);

export class Server implements Disposable {
    private running: Promise<LanguageClient | undefined> | undefined;
    /** Settled when every server that was told to stop has: two at once would register the same commands. */
    private stopped: Promise<unknown> = Promise.resolve();
    private readonly statusEmitter = new EventEmitter<Status>();
    private profiles = 0;

    /** Every change of the server's state, its own or one that only its client can see. */
    readonly onStatus = this.statusEmitter.event;

    constructor(
        private readonly root: Uri,
        private readonly log: LogOutputChannel,
        private readonly onResult: (command: string, argument: CommandArgument, result: unknown) => Promise<void>,
    ) {}

    /** Starts the server, or waits for the start that is under way. Failures end in the status and the log. */
    async start(): Promise<void> {
        this.running ??= this.stopped
            .then(() => this.launch())
            .catch((error: unknown) => {
                this.failed(error instanceof Error ? error.message : String(error));
                return undefined;
            });
        await this.running;
    }

    async restart(): Promise<void> {
        await this.stop();
        await this.start();
    }

    async stop(): Promise<void> {
        const ending = this.running
            ?.then((client) => client?.dispose())
            .catch((error: unknown) => {
                this.log.warn(`the server did not stop in order: ${String(error)}`);
            });
        this.running = undefined;
        this.stopped = Promise.all([this.stopped, ending]);
        await this.stopped;
    }

    dispose(): void {
        void this.stop();
        this.statusEmitter.dispose();
    }

    /** Lets the server ask for its settings again: the interpreter that the editor names has changed. */
    async settingsChanged(): Promise<void> {
        const client = await this.client();
        await client?.sendNotification(DidChangeConfigurationNotification.type, { settings: null });
    }

    /** Tells the server which document the person looks at: its trace comes first, and the status is about it. */
    async lookingAt(document: Uri): Promise<void> {
        const client = await this.client();
        await client?.sendNotification(activeNotification, { uri: document.toString() });
    }

    /** Tells the server that the workspace is trusted now; starts it where it could not run before. */
    async sendTrust(): Promise<void> {
        const client = await this.client();
        if (client) {
            await this.settingsChanged();
            await client.sendNotification(trustedNotification);
        } else {
            await this.restart();
        }
    }

    /** Runs a command of the server and shows its result. */
    async run(command: string, argument: CommandArgument): Promise<void> {
        await this.start();
        const client = await this.client();
        if (!client) {
            return;
        }
        const parameters = { command, arguments: [argument] };
        const result =
            command === ServerCommand.profile
                ? await this.runWithProgress(client, parameters)
                : await this.request(client, parameters);
        if (result !== null && result !== undefined) {
            await this.onResult(command, argument, result);
        }
    }

    private async launch(): Promise<LanguageClient> {
        this.statusEmitter.fire({ state: 'starting', text: 'fx $(loading~spin)', tooltip: 'fxls is starting' });
        const user = await userInterpreter(folder());
        const python = await serverInterpreter(user, folder());
        const models = user ? `${user.command.join(' ')} (${user.from})` : 'found by the server';
        this.log.info(`server: ${python.command.join(' ')} (${python.from}); models: ${models}`);
        const client = new LanguageClient('fxls', 'fxls', this.serverOptions(python), this.clientOptions(user));
        client.onDidChangeState(async ({ newState }) => {
            // One that was stopped on purpose is no longer the running one.
            if (newState === State.Stopped && (await this.running) === client) {
                this.failed('The server stopped.');
            }
        });
        client.onNotification(statusNotification, (status) => {
            this.statusEmitter.fire(status);
        });
        await client.start();
        return client;
    }

    /** The client of the server that runs, if one does: not while it is starting again after a crash. */
    private async client(): Promise<LanguageClient | undefined> {
        const client = await this.running;
        return client?.isRunning() ? client : undefined;
    }

    private serverOptions(python: Interpreter): ServerOptions {
        const [command = '', ...first] = python.command;
        const launcher = Uri.joinPath(this.root, 'bundled', 'serve.py').fsPath;
        // Isolated (-I): neither the working folder nor PYTHON* variables can put another package before ours.
        return { command, args: [...first, '-I', launcher], transport: TransportKind.stdio };
    }

    private clientOptions(user: Interpreter | undefined): LanguageClientOptions {
        return {
            documentSelector: DOCUMENT_SCHEMES.map((scheme) => ({ scheme, language: 'python' })),
            initializationOptions: { ...settings(folder(), user), trusted: workspace.isTrusted },
            outputChannel: this.log,
            markdown: { isTrusted: { enabledCommands: LINKED_COMMANDS } },
            middleware: {
                executeCommand: (command, args: unknown[]) => this.run(command, args[0] as CommandArgument),
                workspace: {
                    configuration: answerConfiguration,
                    // The change of a setting may be what this very server is stopped for.
                    didChangeConfiguration: async (sections, next) => {
                        if (await this.client()) {
                            await next(sections);
                        }
                    },
                },
            },
        };
    }

    private request(client: LanguageClient, parameters: ExecuteCommandParams): Promise<unknown> {
        return client.sendRequest(ExecuteCommandRequest.type, parameters).catch((error: unknown) => {
            if (!(error instanceof ResponseError && error.code === LSPErrorCodes.RequestCancelled)) {
                void window.showErrorMessage(`fxls: ${error instanceof Error ? error.message : String(error)}`);
            }
        });
    }

    private runWithProgress(client: LanguageClient, parameters: ExecuteCommandParams): Thenable<unknown> {
        const workDoneToken = `fxls-profile-${String(++this.profiles)}`;
        const options = { location: ProgressLocation.Notification, title: 'fxls', cancellable: true };
        return window.withProgress(options, async (progress, cancellation) => {
            let reached = 0;
            const listening = client.onProgress(WorkDoneProgress.type, workDoneToken, (value) => {
                const message = value.kind === 'begin' ? (value.message ?? value.title) : value.message;
                const percentage = value.kind === 'end' ? 100 : (value.percentage ?? reached);
                progress.report({ ...(message === undefined ? {} : { message }), increment: percentage - reached });
                reached = percentage;
            });
            const cancelling = cancellation.onCancellationRequested(() => {
                void client.sendNotification(WorkDoneProgressCancelNotification.type, { token: workDoneToken });
            });
            try {
                return await this.request(client, { ...parameters, workDoneToken });
            } finally {
                listening.dispose();
                cancelling.dispose();
            }
        });
    }

    private failed(message: string): void {
        this.log.error(message);
        this.statusEmitter.fire({ state: 'error', text: 'fx $(error)', tooltip: message });
    }
}

/** The folder whose settings and environment apply; the first one where there are several. */
function folder(): Uri | undefined {
    return workspace.workspaceFolders?.[0]?.uri;
}

/** Answers the server's question for settings: for each folder the section, with the folder's interpreter in it. */
function answerConfiguration(parameters: ConfigurationParams): Promise<LSPAny[]> {
    return Promise.all(
        parameters.items.map(async ({ scopeUri }) => {
            const scope = scopeUri === undefined ? folder() : Uri.parse(scopeUri);
            return settings(scope, await userInterpreter(scope));
        }),
    );
}

/** The section `fxls` as the server reads it, with the interpreter that the editor knows of. */
function settings(scope: Uri | undefined, user: Interpreter | undefined): LSPObject {
    // The section itself is a proxy that also has methods; JSON makes a plain object of it.
    const section = JSON.parse(JSON.stringify(workspace.getConfiguration('fxls', scope))) as LSPObject;
    return user ? { ...section, interpreter: [...user.command] } : section;
}
