/** The captured graph as a drawing that can be moved, zoomed, searched, and saved. */
import { type Disposable, type ExtensionContext, Uri, env, window, workspace } from 'vscode';

import type { GraphResult } from '../protocol';
import { type PageMessage, Pages } from './page';

export class GraphView implements Disposable {
    private readonly pages: Pages;

    constructor(context: ExtensionContext) {
        this.pages = new Pages(context, 'graph');
    }

    show(result: GraphResult): void {
        this.pages.show({
            title: result.title,
            body: `
<header>
  <input id="find" type="search" placeholder="Find a node" aria-label="Find a node">
  <span id="found"></span>
  <span class="space"></span>
  <button id="out" title="Zoom out (-)">−</button>
  <button id="in" title="Zoom in (+)">+</button>
  <button id="fit" title="Show all of it (0)">Fit</button>
  <button id="save" title="Save the drawing as an SVG file">Save SVG</button>
  <button id="dot" title="Copy the graph as DOT, for Graphviz">Copy DOT</button>
</header>
<main id="canvas">${withoutProlog(result.svg)}</main>`,
            onMessage: (message) => answer(message, result),
        });
    }

    dispose(): void {
        this.pages.dispose();
    }
}

async function answer(message: PageMessage, result: GraphResult): Promise<void> {
    switch (message.command) {
        case 'dot':
            await env.clipboard.writeText(result.dot);
            void window.setStatusBarMessage('The graph was copied as DOT.', 3000);
            return;
        case 'save':
            await save(result);
            return;
    }
}

async function save(result: GraphResult): Promise<void> {
    const folder = workspace.workspaceFolders?.[0]?.uri ?? Uri.file('/');
    const defaultUri = Uri.joinPath(folder, `${result.title.replaceAll(/[^\w.-]+/g, '-')}.svg`);
    const target = await window.showSaveDialog({ defaultUri, filters: { SVG: ['svg'] } });
    if (target) {
        await workspace.fs.writeFile(target, Buffer.from(result.svg, 'utf8'));
    }
}

/** A drawing may begin with an XML declaration and a document type, which HTML does not know. */
function withoutProlog(svg: string): string {
    return svg.slice(Math.max(svg.indexOf('<svg'), 0));
}
