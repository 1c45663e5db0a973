// A person's first hour: opens models, reads what is underlined, breaks one, mends it, looks at graph, code and profile.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';

import { Editor } from './editor.mjs';

export const steps = new Map();
const step = (name, run) => steps.set(name, run);

const CONDITION = 'gate.max() > self.threshold';
const TYPED = 'tokens.sum() > 3.5';
const READY = 60; // Seconds for the first answer: torch is imported on a machine that does other things too.

export async function begin({ folder, settings }) {
    const begun = performance.now();
    const editor = await Editor.open({ folder, file: 'router.py', settings });
    return { editor, page: editor.page, begun, folder };
}

export const end = ({ editor }) => editor.close();
export const failed = ({ editor }, name) => editor.failed(name);

step('opening a model underlines the expression that stops the trace', async ({ editor, page }, timed) => {
    await timed('open → first squiggle (torch not loaded yet)', () =>
        page.waitForSelector('.squiggly-error, .squiggly-warning', { timeout: READY * 1000 }),
    );
    const problems = await editor.diagnostics('router.py');
    assert.deepEqual(problems.map(({ code, underlined }) => [code, underlined]), [['FX001', CONDITION]]);
    assert.equal(problems[0].severity, 'Error');
    assert.match(problems[0].message, /decides a branch/);
    assert.match(problems[0].link, /FX001/);
    await editor.shot('problem');
});

step('the status bar counts the problems', async ({ editor }) => {
    await editor.until(() => editor.status(), (text) => text === 'fx ✗ 1', 'the status bar says fx ✗ 1');
});

step('hovering over the problem explains it', async ({ editor, page }) => {
    const text = await editor.hover(CONDITION, 'decides a branch');
    assert.match(text, /FX001/);
    await editor.shot('problem-hover');
    await page.keyboard.press('Escape');
});

step('the code of a problem leads to its page', async ({ editor, page }) => {
    await editor.hover(CONDITION, 'decides a branch');
    await page.locator('.monaco-hover:not(.hidden) a', { hasText: /^FX001$/ }).first().click();
    await editor.until(() => editor.ask('tabs'), (all) => all.includes('FX001.md'), 'a tab with the page', 10);
    await editor.openFile('router.py');
});

step('hovering over the class tells how far it came', async ({ editor, page }) => {
    const text = await editor.hover('Router(nn', 'nodes');
    assert.match(text, /1 problem/);
    assert.match(text, /def forward\(self, x/);
    await editor.shot('vscode');
    await page.keyboard.press('Escape');
});

step('a clean model has a lens and no squiggle', async ({ editor, page }, timed) => {
    await editor.openFile('encoder.py');
    const lenses = await timed('open → code lens (torch loaded)', () =>
        editor.until(
            () => editor.page.locator('.codelens-decoration').allInnerTexts(),
            (all) => all.some((text) => /✓ \d+ nodes/.test(text)),
            'a lens with the number of nodes',
        ),
    );
    assert.deepEqual(await editor.diagnostics('encoder.py'), []);
    assert.match(lenses.join(' '), /Graph.*Code.*Profile on cpu/s);
    await editor.shot('clean');
    assert.equal(await page.locator('.squiggly-error').count(), 0);
});

step('typing a dynamic if underlines exactly its condition', async ({ editor, page }, timed) => {
    await editor.goTo('tokens = self.blocks(tokens)');
    await page.keyboard.press('End');
    await page.keyboard.press('Enter');
    await page.keyboard.type(`if ${TYPED}:`);
    await page.keyboard.press('Enter');
    await page.keyboard.type('return token');
    await timed('last character typed → diagnostics', async () => {
        await page.keyboard.type('s');
        await editor.until(
            () => editor.diagnostics('encoder.py'),
            (all) => all.length === 1 && all[0].code === 'FX001' && all[0].underlined === TYPED,
            `one problem, FX001 under ${TYPED}`,
        );
    });
    await page.waitForSelector('.squiggly-error', { timeout: 5_000 });
    await page.locator('.codelens-decoration', { hasText: /✗ 1 problem/ }).waitFor({ timeout: 5_000 });
    await editor.shot('typed');
});

step('each further edit renews the squiggle', async ({ editor, page }, timed) => {
    for (const round of [1, 2, 3]) {
        const [{ line }] = await editor.diagnostics('encoder.py');
        await editor.goTo(`if ${TYPED}`);
        await page.keyboard.type('scale = tokens.abs()');
        await timed(`edit → diagnostics of the new text, ${round}`, async () => {
            await page.keyboard.press('Enter');
            await editor.until(
                () => editor.diagnostics('encoder.py'),
                (all) => all.length === 1 && all[0].underlined === TYPED && all[0].line === line + 1,
                'the squiggle under the same condition, one line further down',
            );
        });
    }
});

step('undoing the edits clears the squiggle', async ({ editor, page }, timed) => {
    await timed('revert, through the palette → no squiggle', async () => {
        await editor.palette('File: Revert File');
        await page.locator('.squiggly-error').first().waitFor({ state: 'detached', timeout: 30_000 });
    });
    // The editor takes a squiggle away with the text under it, before the server has said anything.
    await editor.until(() => editor.diagnostics('encoder.py'), (all) => all.length === 0, 'no problem');
});

step('hovering over the class shows its summary and its code', async ({ editor, page }, timed) => {
    const text = await editor.hover('Encoder(nn', 'nodes', (work) => timed('hover over the class (200 ms of it VS Code waits)', work));
    assert.match(text, /Encoder/);
    assert.match(text, /\d+ nodes/);
    assert.match(text, /def forward\(self, image/);
    await editor.shot('hover-class');
    await page.keyboard.press('Escape');
});

step('hovering over an expression shows its node', async ({ editor, page }, timed) => {
    const text = await editor.hover('flatten(2).transpose', 'flatten', (work) =>
        timed('hover over an expression (200 ms of it VS Code waits)', work),
    );
    assert.match(text, /call_method/);
    await editor.shot('hover-expression');
    await page.keyboard.press('Escape');
});

step('the code action profiles the model and shows the report', async ({ editor, page }, timed) => {
    await editor.goTo('Encoder(nn');
    const titles = await timed('code actions listed', () => editor.codeActions());
    assert.ok(titles.some((title) => /Profile.* on cpu/.test(title)), titles.join(', '));
    await editor.shot('code-actions');
    await timed('profile on cpu → report', async () => {
        await editor.chooseCodeAction('on cpu');
        await editor.inWebview('main table', 180);
    });
    const report = await editor.webview().locator('main').innerText();
    assert.match(report, /Encoder/);
    assert.match(report, /cpu/);
    await editor.shot('profile');
});

step('the report leads to the lines that cost most', async ({ editor, page }) => {
    await editor.webview().locator('main table a').first().click();
    const line = await editor.webview().locator('main table a').first().innerText();
    await page.locator('.statusbar-item', { hasText: `Ln ${line}, Col 1` }).waitFor({ timeout: 10_000 });
});

step('the report opens the JSON data', async ({ editor }) => {
    await (await editor.inWebview('#json')).click();
    const tabs = await editor.until(() => editor.ask('tabs'), (all) => all.some((tab) => tab.endsWith('.json')), 'a tab with the JSON file');
    assert.ok(tabs.some((tab) => /Encoder/.test(tab)));
    await editor.palette('View: Close All Editor Groups');
});

step('a profile can be cancelled', async ({ editor, page }) => {
    // Half a minute of it, in which the processor is left to the editor.
    await editor.openFile('slow.py');
    await editor.palette('fxls: Profile Model');
    const toast = page.locator('.notification-toast', { hasText: 'fxls' });
    await toast.locator('a', { hasText: 'Cancel' }).click({ timeout: 20_000 });
    await toast.waitFor({ state: 'detached', timeout: 10_000 });
    const tabs = await editor.ask('tabs');
    assert.deepEqual(tabs.filter((tab) => /on cpu/.test(tab)), []);
    await editor.palette('View: Close All Editor Groups');
    await editor.openFile('encoder.py');
});

step('a code action writes down how the model is built', async ({ editor }) => {
    await editor.goTo('Encoder(nn');
    await editor.codeActions();
    await editor.chooseCodeAction('is built');
    await editor.until(
        () => editor.ask('text', { path: editor.path('encoder.py') }),
        (text) => text.includes('# fx: Encoder()\nclass Encoder'),
        'the directive above the class',
    );
    await editor.until(
        () => editor.ask('hover', { path: editor.path('encoder.py'), line: 29, character: 8 }),
        (text) => /built as `Encoder\(\)` \(\[comment, line 29\]/.test(text),
        'the hover says that the comment was followed',
    );
    await editor.palette('File: Revert File');
});

step('the palette shows the graph of the model at the cursor', async ({ editor, page }, timed) => {
    await editor.goTo('Encoder(nn');
    await timed('graph drawn', async () => {
        await editor.palette('fxls: Show Graph');
        await editor.inWebview('#canvas > svg');
    });
    const webview = editor.webview();
    assert.match(await webview.locator('#canvas').innerText(), /patch/);
    await page.waitForTimeout(500);
    await editor.shot('graph');
    await webview.locator('#find').fill('gelu');
    await webview.locator('#found', { hasText: '1 of 4' }).waitFor({ timeout: 5_000 });
    await webview.locator('#in').click();
    await editor.shot('graph-found');
    await editor.palette('View: Close All Editor Groups');
});

step('a lens shows the generated code', async ({ editor, page }) => {
    await editor.openFile('encoder.py');
    await page.locator('.codelens-decoration a', { hasText: 'Code' }).last().click();
    await page.locator('.editor-instance .view-line', { hasText: 'def forward' }).last().waitFor({ timeout: 30_000 });
    await page.waitForTimeout(500);
    await editor.shot('code');
    await editor.palette('View: Close All Editor Groups');
});

step('the menu behind the status bar item tells the environment', async ({ editor, page }) => {
    await editor.openFile('encoder.py');
    await page.locator('.codelens-decoration', { hasText: /✓ \d+ nodes/ }).first().waitFor();
    await editor.palette('fxls: Show Menu');
    const rows = page.locator('.quick-input-list .monaco-list-row');
    await rows.filter({ hasText: 'Restart Server' }).waitFor();
    const menu = (await rows.allInnerTexts()).join('\n');
    assert.match(menu, /Python.*torch \d+\.\d+/s);
    assert.match(menu, /Device.*cpu/s);
    assert.match(menu, /Last trace.*\d ms/s);
    await editor.shot('menu');
    await page.keyboard.press('Escape');
});

step('a module that the model imports changes on disk and the model is traced again', async ({ editor, folder }) => {
    await editor.openFile('doubled.py');
    const lens = () => editor.page.locator('.codelens-decoration').allInnerTexts();
    await editor.until(lens, (all) => all.some((text) => /✓ 3 nodes/.test(text)), 'three nodes');
    fs.writeFileSync(path.join(folder, 'parts.py'), 'def twice(x):\n    return (x * 2).relu()\n');
    await editor.until(lens, (all) => all.some((text) => /✓ 4 nodes/.test(text)), 'four nodes after the change');
});

step('a syntax error leaves the server well', async ({ editor, page }) => {
    await editor.openFile('router.py');
    await editor.until(() => editor.diagnostics('router.py'), (all) => all.length === 1, 'one problem');
    await editor.goTo('class Router');
    await page.keyboard.press('End');
    await page.keyboard.type(' (');
    await page.waitForTimeout(1500);
    await editor.shot('syntax-error');
    await editor.palette('File: Revert File');
    const problems = await editor.until(() => editor.diagnostics('router.py'), (all) => all.length === 1, 'the problem again');
    assert.equal(problems[0].underlined, CONDITION);
});

step('an endless loop is stopped and shown on its line', async ({ editor, page }, timed) => {
    await editor.openFile('router.py');
    await editor.goTo('gate = self.gate');
    await page.keyboard.type('while True: pass');
    await page.keyboard.press('Enter');
    const problems = await timed('endless loop → diagnostic', () =>
        editor.until(
            () => editor.diagnostics('router.py'),
            (all) => all.some(({ code }) => code === 'FX104'),
            'a diagnostic that says that the trace was stopped',
            60,
        ),
    );
    const text = await editor.ask('text', { path: editor.path('router.py') });
    assert.match(text.split('\n')[problems.find(({ code }) => code === 'FX104').line], /while True/);
    await editor.shot('endless-loop');
});

step('the next edit is answered', async ({ editor }, timed) => {
    await timed('edit after the endless loop → diagnostics', async () => {
        await editor.palette('File: Revert File');
        await editor.until(
            () => editor.diagnostics('router.py'),
            (all) => all.length === 1 && all[0].underlined === CONDITION,
            'the problem of the file as it was',
        );
    });
});

step('restarting the server brings everything back', async ({ editor }, timed) => {
    await timed('restart → diagnostics', async () => {
        await editor.palette('fxls: Restart Server');
        await editor.until(() => editor.diagnostics('router.py'), (all) => all.length === 0, 'no diagnostics of the stopped server', 10);
        await editor.until(() => editor.diagnostics('router.py'), (all) => all.length === 1, 'the problem again', READY);
    });
});

step('the page spoke with nobody but its own server', async ({ editor }) => {
    // A webview's resources have addresses at vscode-cdn.net; a worker in the page answers them from this very server.
    const others = [...editor.hosts].filter((host) => host !== '' && !host.endsWith('.vscode-resource.vscode-cdn.net'));
    assert.deepEqual(others, ['127.0.0.1']);
});
