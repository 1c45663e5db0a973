/** Generated code in a read-only editor. Asking again for the same model refreshes the editor that is open. */
import { type Disposable, EventEmitter, Uri, ViewColumn, languages, window, workspace } from 'vscode';

import type { CodeResult } from '../protocol';

const SCHEME = 'fxls-code';

export class CodeView implements Disposable {
    private readonly texts = new Map<string, string>();
    private readonly changed = new EventEmitter<Uri>();
    private readonly registration = workspace.registerTextDocumentContentProvider(SCHEME, {
        onDidChange: this.changed.event,
        provideTextDocumentContent: (uri) => this.texts.get(uri.path) ?? '',
    });

    async show(result: CodeResult): Promise<void> {
        const uri = Uri.from({ scheme: SCHEME, path: `/${result.title.replaceAll('/', '∕')}` });
        this.texts.set(uri.path, result.text);
        this.changed.fire(uri);
        const document = await workspace.openTextDocument(uri);
        await languages.setTextDocumentLanguage(document, result.language);
        await window.showTextDocument(document, { viewColumn: ViewColumn.Beside, preview: true, preserveFocus: true });
    }

    dispose(): void {
        this.registration.dispose();
        this.changed.dispose();
    }
}
