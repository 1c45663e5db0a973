// What a person does in VS Code, by keyboard and mouse in the page, and what they then see.
import fs from 'node:fs';
import path from 'node:path';

import { ROOT, chromium, probe, start } from './host.mjs';

const SHOTS = process.env.FXLS_SHOTS ?? path.join(ROOT, '.cache/e2e');
const BROWSER = [
    '--headless',
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--font-render-hinting=none',
];

export class Editor {
    /** Starts VS Code on a folder, with `file` open. */
    static async open({ folder, file, ...options }) {
        fs.mkdirSync(SHOTS, { recursive: true });
        const host = await start({ folder, ...options });
        const browser = await chromium.launch({ executablePath: process.env.FXLS_CHROMIUM ?? '/usr/bin/chromium', args: BROWSER });
        const context = await browser.newContext({ viewport: { width: 1400, height: 860 }, deviceScaleFactor: 1.5 });
        const page = await context.newPage();
        const editor = new Editor({ host, browser, page, folder, file });
        page.on('request', (request) => editor.hosts.add(new URL(request.url()).hostname));
        await page.goto(host.url(file));
        await page.waitForSelector('.monaco-workbench', { timeout: 60_000 });
        if (file) {
            await page.waitForSelector('.editor-instance .view-line', { timeout: 60_000 });
        }
        return editor;
    }

    constructor({ host, browser, page, folder, file }) {
        Object.assign(this, { host, browser, page, folder, file, hosts: new Set() });
    }

    async close() {
        fs.writeFileSync(path.join(SHOTS, `${path.parse(this.folder).base}.log`), this.host.log());
        await this.browser.close();
        await this.host.stop();
    }

    path(file) {
        return path.join(this.folder, file);
    }

    ask(question, given = {}) {
        return probe(this.host.socket, question, given);
    }

    /** fxls's diagnostics of a file, each with the text that it underlines. */
    async diagnostics(file) {
        const text = await this.ask('text', { path: this.path(file) });
        const lines = text.split('\n');
        const all = await this.ask('diagnostics', { path: this.path(file) });
        return all.map((each) => {
            const [line, character, endLine, endCharacter] = each.range;
            const covered = lines.slice(line, endLine + 1);
            covered[covered.length - 1] = covered.at(-1).slice(0, endCharacter);
            covered[0] = covered[0].slice(character);
            return { ...each, line, underlined: covered.join('\n') };
        });
    }

    /** Waits until `wanted(answer of ask())` holds, and returns that answer. */
    async until(ask, wanted, what, seconds = 30) {
        const end = Date.now() + seconds * 1000;
        for (;;) {
            const answer = await ask();
            if (await wanted(answer)) {
                return answer;
            }
            if (Date.now() > end) {
                throw new Error(`not within ${seconds} s: ${what}; instead ${JSON.stringify(answer, undefined, 1)}`);
            }
            await this.page.waitForTimeout(20);
        }
    }

    async palette(command) {
        await this.page.keyboard.press('F1');
        await this.page.waitForSelector('.quick-input-widget input', { state: 'visible' });
        await this.page.keyboard.type(command);
        // Enter takes what has the focus, which is not yet the wanted command while the list is being renewed.
        await this.page.locator('.quick-input-list .monaco-list-row.focused', { hasText: command }).waitFor();
        await this.page.keyboard.press('Enter');
    }

    async openFile(file) {
        await this.page.keyboard.press('Control+P');
        await this.page.waitForSelector('.quick-input-widget input', { state: 'visible' });
        await this.page.keyboard.type(file);
        // The list is renewed while the search goes on; Enter takes what has the focus.
        await this.page.locator('.quick-input-list .monaco-list-row.focused', { hasText: path.basename(file) }).waitFor();
        await this.page.waitForTimeout(500);
        await this.page.keyboard.press('Enter');
        await this.page.locator('.tab.active', { hasText: path.basename(file) }).first().waitFor();
        await this.page.locator('.editor-instance .monaco-editor.focused').first().waitFor();
        this.file = file;
    }

    /** Puts the cursor before the first `text` of the file that was opened last; scrolls there if need be. */
    async goTo(text) {
        const before = (await this.ask('text', { path: this.path(this.file) })).split(text, 1)[0].split('\n');
        await this.page.keyboard.press('Control+G');
        await this.page.waitForSelector('.quick-input-widget input', { state: 'visible' });
        await this.page.keyboard.type(`${before.length}:${before.at(-1).length + 1}`);
        await this.page.waitForTimeout(100);
        await this.page.keyboard.press('Enter');
        await this.page.locator('.quick-input-widget').waitFor({ state: 'hidden' });
    }

    /** Where the first character of the first `text` of the file is shown. */
    async place(text) {
        await this.goTo(text);
        await this.page.waitForTimeout(100);
        const box = await this.page.evaluate((wanted) => {
            for (const line of document.querySelectorAll('.editor-instance .view-line')) {
                const shown = line.textContent.replaceAll('\u00a0', ' ');
                const at = shown.indexOf(wanted);
                if (at >= 0) {
                    const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
                    for (let seen = 0, node = walker.nextNode(); node; seen += node.length, node = walker.nextNode()) {
                        if (seen + node.length > at) {
                            const range = document.createRange();
                            range.setStart(node, at - seen);
                            range.setEnd(node, at - seen + 1);
                            return range.getBoundingClientRect().toJSON();
                        }
                    }
                }
            }
            return undefined;
        }, text);
        if (!box) {
            throw new Error(`no line of the editor shows ${text}`);
        }
        return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
    }

    /**
     * The text of the hover that pointing at `text` brings up, once it holds `wanted`; `timed` measures the wait. A lens
     * that comes up above moves the text away from under the mouse: a person points again, and so does this.
     */
    async hover(text, wanted, timed = (work) => work()) {
        const hover = this.page.locator('.monaco-hover:not(.hidden) .hover-contents');
        for (let tries = 1; ; tries++) {
            await this.page.mouse.move(700, 840);
            const { x, y } = await this.place(text);
            try {
                await timed(async () => {
                    await this.page.mouse.move(x, y);
                    await hover.filter({ hasText: wanted }).first().waitFor({ timeout: 5_000 });
                });
                return (await hover.allInnerTexts()).join('\n').replaceAll('\u00a0', ' ');
            } catch (error) {
                if (tries === 3) {
                    throw error;
                }
            }
        }
    }

    /**
     * Opens the menu of code actions at the cursor and returns its entries. The editor gives up a menu that it is about
     * to show when the text or the cursor changes: a person presses the keys again, and so does this.
     */
    async codeActions() {
        const rows = this.page.locator('.action-widget .monaco-list-row');
        for (let tries = 1; ; tries++) {
            await this.page.keyboard.press('Control+.');
            try {
                await rows.first().waitFor({ timeout: 5_000 });
                return (await rows.allInnerTexts()).map((text) => text.trim());
            } catch (error) {
                if (tries === 4) {
                    throw error;
                }
            }
        }
    }

    /** Chooses an entry of the menu of code actions, which is opened again where the editor has closed it meanwhile. */
    async chooseCodeAction(title) {
        const chosen = this.page.locator('.action-widget .monaco-list-row.action.focused');
        for (let tries = 0; tries < 20; tries++) {
            const text = await chosen.innerText({ timeout: 5_000 }).catch(() => undefined);
            if (text?.includes(title)) {
                await this.page.keyboard.press('Enter');
                return;
            }
            await (text === undefined ? this.codeActions() : this.page.keyboard.press('ArrowDown'));
        }
        throw new Error(`no code action ${title}`);
    }

    /** Text of the status bar item of fxls. */
    async status() {
        const item = this.page.locator('.statusbar-item[id="fxls.fxls.fxls.status"], .statusbar-item', { hasText: /^\s*fx\b/ }).first();
        return (await item.innerText().catch(() => '')).trim();
    }

    /** The page inside the webview that has the focus or was opened last. */
    webview() {
        return this.page.frameLocator('iframe.webview.ready').last().frameLocator('iframe#active-frame');
    }

    /** Waits for a part of the webview's page; an error that the extension shows instead ends the wait. */
    async inWebview(selector, seconds = 30) {
        const part = this.webview().locator(selector).first();
        const error = this.page.locator('.notification-list-item:has(.codicon-error)').first();
        await this.until(
            async () => ({ shown: await part.isVisible(), error: (await error.isVisible()) && (await error.innerText()) }),
            (now) => {
                if (now.error) {
                    throw new Error(now.error);
                }
                return now.shown;
            },
            `${selector} in the webview`,
            seconds,
        );
        return part;
    }

    async shot(name) {
        await this.page.screenshot({ path: path.join(SHOTS, `${name}.png`) });
    }

    /** Keeps a picture of what went wrong, closes whatever is open so that the next step can begin, and tells what the editor said. */
    async failed(step) {
        await this.shot(`failed-${step.replaceAll(/\W+/g, '-')}`);
        const said = [
            `status: ${await this.status()}`,
            ...(await this.page.locator('.notification-list-item-message').allInnerTexts()).map((text) => `notification: ${text}`),
            ...this.host.log().trimEnd().split('\n').slice(-15),
        ];
        await this.page.keyboard.press('Escape');
        await this.page.keyboard.press('Escape');
        return said.join('\n');
    }
}
