/** Pages of ours in a webview: what they may load, and one panel for each title, reused when it is asked for again. */
import { type Disposable, type ExtensionContext, type WebviewPanel, Uri, ViewColumn, window } from 'vscode';
import { randomBytes } from 'node:crypto';

export interface PageContent {
    readonly title: string;
    /** HTML of the body; whatever in it came from the server is escaped or inert under the page's policy. */
    readonly body: string;
    /** Answers what the page's script posts. */
    readonly onMessage: (message: PageMessage) => Promise<void>;
}

export interface PageMessage {
    readonly command: string;
    readonly value?: string;
}

/** Panels of one kind (`graph`, `report`), each with the script and style sheet of that name in `dist/webview`. */
export class Pages implements Disposable {
    private readonly panels = new Map<string, { readonly panel: WebviewPanel; listener: Disposable | undefined }>();

    constructor(
        private readonly context: ExtensionContext,
        private readonly kind: string,
    ) {}

    show(content: PageContent): void {
        const entry = this.panels.get(content.title) ?? this.open(content.title);
        entry.listener?.dispose();
        entry.listener = entry.panel.webview.onDidReceiveMessage(content.onMessage);
        entry.panel.webview.html = this.html(entry.panel, content);
        entry.panel.reveal(undefined, true);
    }

    dispose(): void {
        for (const { panel } of this.panels.values()) {
            panel.dispose();
        }
    }

    private open(title: string): { readonly panel: WebviewPanel; listener: Disposable | undefined } {
        const panel = window.createWebviewPanel(
            `fxls.${this.kind}`,
            title,
            { viewColumn: ViewColumn.Beside, preserveFocus: true },
            { enableScripts: true, localResourceRoots: [this.resources], enableFindWidget: true },
        );
        panel.iconPath = Uri.joinPath(this.context.extensionUri, 'media', 'icon.png');
        const entry = { panel, listener: undefined };
        this.panels.set(title, entry);
        panel.onDidDispose(() => this.panels.delete(title));
        return entry;
    }

    private get resources(): Uri {
        return Uri.joinPath(this.context.extensionUri, 'dist', 'webview');
    }

    private html(panel: WebviewPanel, content: PageContent): string {
        const { webview } = panel;
        const nonce = randomBytes(16).toString('base64');
        const resource = (suffix: string): string =>
            webview.asWebviewUri(Uri.joinPath(this.resources, `${this.kind}.${suffix}`)).toString();
        // Only our own script runs; inline styles are allowed because drawings and rendered Markdown carry them.
        const policy = `default-src 'none'; img-src ${webview.cspSource} data:; style-src ${webview.cspSource} 'unsafe-inline'; script-src 'nonce-${nonce}'`;
        return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<link rel="stylesheet" href="${resource('css')}">
<title>${escapeHtml(content.title)}</title>
</head>
<body>
${content.body}
<script nonce="${nonce}" src="${resource('js')}"></script>
</body>
</html>`;
    }
}

export function escapeHtml(text: string): string {
    const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
    return text.replace(/[&<>"']/g, (character) => entities[character] ?? character);
}
