/** The report of a profile, rendered from the server's Markdown, with the way to the files that hold all of it. */
import { type Disposable, type ExtensionContext, Range, UIKind, Uri, ViewColumn, commands, env, window, workspace } from 'vscode';

import { type CommandArgument, type ProfileResult, ServerCommand } from '../protocol';
import { type PageMessage, Pages } from './page';

export class ReportView implements Disposable {
    private readonly pages: Pages;

    constructor(context: ExtensionContext) {
        this.pages = new Pages(context, 'report');
    }

    async show(result: ProfileResult, argument: CommandArgument): Promise<void> {
        // VS Code's own Markdown renderer, which lets links to files pass only without their scheme.
        const markdown = result.markdown.replaceAll('](file://', '](');
        const html = await commands.executeCommand<string>('markdown.api.render', markdown);
        this.pages.show({
            title: result.title,
            body: `
<header>
  <button id="again">Profile Again</button>
  <span class="space"></span>
  <button id="json" class="secondary">Open JSON</button>
  <button id="trace" class="secondary" title="A trace file for ui.perfetto.dev or chrome://tracing">Reveal Trace</button>
</header>
<main>${html}</main>`,
            onMessage: (message) => answer(message, result, argument),
        });
    }

    dispose(): void {
        this.pages.dispose();
    }
}

async function answer(message: PageMessage, result: ProfileResult, argument: CommandArgument): Promise<void> {
    switch (message.command) {
        case 'again':
            await commands.executeCommand(ServerCommand.profile, argument);
            return;
        case 'json':
            await window.showTextDocument(Uri.file(result.json), { preview: true });
            return;
        case 'trace':
            await reveal(Uri.file(result.trace));
            return;
        case 'open':
            await openLink(message.value ?? '');
            return;
    }
}

/** Shows the file where it lies: in the explorer when the workspace holds it, else in the system's file manager. */
async function reveal(file: Uri): Promise<void> {
    if (workspace.getWorkspaceFolder(file)) {
        await commands.executeCommand('revealInExplorer', file);
    } else if (env.remoteName === undefined && env.uiKind === UIKind.Desktop) {
        await commands.executeCommand('revealFileInOS', file);
    } else {
        await env.clipboard.writeText(file.fsPath);
        void window.showInformationMessage(`The trace is ${file.fsPath} (copied). Open it in ui.perfetto.dev.`);
    }
}

/** A link of the report: `/folder/model.py#L12` shows that line in the editor that has the file, others the browser. */
async function openLink(link: string): Promise<void> {
    if (!link.startsWith('/')) {
        await env.openExternal(Uri.parse(link));
        return;
    }
    const uri = Uri.parse(`file://${link}`);
    const line = Number(/^L(\d+)$/.exec(uri.fragment)?.[1] ?? 1) - 1;
    const file = uri.with({ fragment: '' });
    const shown = window.visibleTextEditors.find((editor) => editor.document.uri.fsPath === file.fsPath);
    await window.showTextDocument(file, {
        viewColumn: shown?.viewColumn ?? ViewColumn.One,
        selection: new Range(line, 0, line, 0),
    });
}
