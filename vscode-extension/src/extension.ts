/** The extension: wires the server to the status bar, the views and the commands. All else is the server's. */
import { type ExtensionContext, type LogOutputChannel, window, workspace } from 'vscode';

import { registerCommands } from './commands';
import { onDidChangeEnvironment } from './interpreters';
import { type CodeResult, type CommandArgument, type GraphResult, type ProfileResult, ServerCommand } from './protocol';
import { Server } from './server';
import { StatusBar } from './status';
import { CodeView } from './views/code';
import { GraphView } from './views/graph';
import { ReportView } from './views/report';

let server: Server | undefined;

export async function activate(context: ExtensionContext): Promise<void> {
    const log = window.createOutputChannel('fxls', { log: true });
    const status = new StatusBar();
    const started = new Server(context.extensionUri, log, showResults(context));
    server = started;
    context.subscriptions.push(log, status, started);
    context.subscriptions.push(
        started.onStatus((news) => {
            status.show(news);
        }),
        ...registerCommands(started, status, log),
        window.onDidChangeActiveTextEditor(async (editor) => {
            if (editor?.document.languageId === 'python') {
                await started.lookingAt(editor.document.uri);
            }
        }),
        workspace.onDidChangeConfiguration(async (event) => {
            // All other settings the client library reports to the server, which asks for them.
            if (event.affectsConfiguration('fxls.serverInterpreter')) {
                await started.restart();
            }
        }),
        workspace.onDidGrantWorkspaceTrust(async () => {
            await watchEnvironment(context, started, log);
            await started.sendTrust();
        }),
    );
    await watchEnvironment(context, started, log);
    await started.start();
}

export async function deactivate(): Promise<void> {
    await server?.stop();
}

/** Gives the views, as one function that shows the result of any command of the server. */
function showResults(context: ExtensionContext): (command: string, argument: CommandArgument, result: unknown) => Promise<void> {
    const code = new CodeView();
    const graph = new GraphView(context);
    const report = new ReportView(context);
    context.subscriptions.push(code, graph, report);
    return async (command, argument, result) => {
        switch (command) {
            case ServerCommand.showCode:
                await code.show(result as CodeResult);
                break;
            case ServerCommand.showGraph:
                graph.show(result as GraphResult);
                break;
            case ServerCommand.profile:
                await report.show(result as ProfileResult, argument);
                break;
        }
    };
}

async function watchEnvironment(context: ExtensionContext, started: Server, log: LogOutputChannel): Promise<void> {
    try {
        const watching = await onDidChangeEnvironment(() => {
            void started.settingsChanged();
        });
        if (watching) {
            context.subscriptions.push(watching);
        }
    } catch (error) {
        log.warn(`the Python extension did not start: ${String(error)}`);
    }
}
