// A file with several problems: all of them are underlined at once, listed, fixed one by one, or ignored.
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';

import { Editor } from './editor.mjs';

export const steps = new Map();
const step = (name, run) => steps.set(name, run);

const FILE = 'blocks.py';
const BRANCH = 'y.abs().max() > self.limit';

export async function begin({ folder, settings }) {
    const editor = await Editor.open({ folder, file: FILE, settings });
    return { editor, page: editor.page };
}

export const end = ({ editor }) => editor.close();
export const failed = ({ editor }, name) => editor.failed(name);

const found = async (editor) => (await editor.diagnostics(FILE)).map(({ code, underlined }) => [code, underlined]);

step('every problem is underlined at once', async ({ editor, page }) => {
    await page.waitForSelector('.squiggly-error', { timeout: 90_000 });
    const expected = [
        ['FX001', BRANCH],
        ['FX001', 'x.shape[0] > 16'],
        ['FX005', 'y[y > 3]'],
        ['FX002', 'len(y)'],
        ['FX106', '# fx: ignore[FX001]'],
    ];
    await editor.until(() => found(editor), (all) => isDeepStrictEqual(all, expected), JSON.stringify(expected), 10);
    const all = await editor.diagnostics(FILE);
    assert.match(all[0].message, /in 12 instances: layers\.0 … layers\.11/);
    assert.match(all[1].message, /for the inputs in use it is False/);
    assert.equal(all[1].severity, 'Warning');
    assert.equal(all[4].severity, 'Hint');
    await editor.shot('several');
});

step('the list of problems has them all', async ({ editor, page }) => {
    await editor.palette('View: Focus Problems');
    await page.locator('.markers-panel .monaco-list-row', { hasText: 'decides a branch' }).first().waitFor({ timeout: 10_000 });
    await editor.shot('several-list');
    await editor.palette('View: Toggle Panel Visibility');
});

step('hovering over the class lists its problems', async ({ editor, page }) => {
    const text = await editor.hover('Stack(nn', 'problems');
    assert.match(text, /line 17 FX001/);
    await editor.shot('several-hover-class');
    await page.keyboard.press('Escape');
});

step('hovering over what a shape decides tells its value', async ({ editor, page }) => {
    const text = await editor.hover('x.shape[0] > 16', 'static in truth');
    assert.match(text, /12 instances/);
    await editor.shot('several-hover');
    await page.keyboard.press('Escape');
});

step('a fix that was proven mends one problem', async ({ editor }) => {
    await editor.goTo(BRANCH);
    const title = 'torch.where';
    await editor.until(
        () => editor.ask('actions', { path: editor.path(FILE), line: 16, character: 12 }),
        (all) => all.some((each) => each.includes(title)),
        'a fix',
        60,
    );
    await editor.codeActions();
    await editor.shot('several-actions');
    await editor.chooseCodeAction(title);
    await editor.until(() => found(editor), (all) => !all.some(([, text]) => text === BRANCH), 'one problem less');
    assert.match(await editor.ask('text', { path: editor.path(FILE) }), /y = torch\.where\(y\.abs\(\)\.max\(\) > self\.limit, /);
});

step('another is ignored where it stands', async ({ editor }) => {
    await editor.goTo('len(y)');
    await editor.codeActions();
    await editor.chooseCodeAction('Ignore FX002 on this line');
    await editor.until(() => found(editor), (all) => !all.some(([code]) => code === 'FX002'), 'FX002 is gone');
    assert.match(await editor.ask('text', { path: editor.path(FILE) }), /len\(y\) {2}# fx: ignore\[FX002\]\n/);
});

step('a comment that ignores nothing is greyed out and removed', async ({ editor, page }) => {
    await editor.goTo('# fx: ignore[FX001]');
    await page.locator('.squiggly-inline-unnecessary').first().waitFor({ timeout: 10_000 });
    await editor.shot('several-ignored');
    await editor.codeActions();
    await editor.chooseCodeAction('Remove the comment');
    await editor.until(() => found(editor), (all) => !all.some(([code]) => code === 'FX106'), 'FX106 is gone');
});
