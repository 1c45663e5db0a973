// A workspace that nobody has trusted yet: nothing of it runs until the person says so.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';

import { Editor } from './editor.mjs';

export const steps = new Map();
const step = (name, run) => steps.set(name, run);

export async function begin({ folder, settings }) {
    const sentinel = path.join(folder, 'it-ran');
    const evil = path.join(folder, 'evil-python');
    // Everything through which a workspace could get its code to run: the model file, an interpreter, a virtual environment.
    fs.writeFileSync(path.join(folder, 'model.py'), `open(${JSON.stringify(sentinel)}, 'a').write('model')\n${MODEL}`);
    fs.writeFileSync(evil, `#!/bin/sh\necho evil >>'${sentinel}'\nexit 1\n`, { mode: 0o755 });
    fs.mkdirSync(path.join(folder, '.venv/bin'), { recursive: true });
    fs.copyFileSync(evil, path.join(folder, '.venv/bin/python'));
    fs.mkdirSync(path.join(folder, '.vscode'));
    fs.writeFileSync(
        path.join(folder, '.vscode/settings.json'),
        JSON.stringify({ 'fxls.interpreter': [evil], 'fxls.serverInterpreter': [evil] }),
    );
    const editor = await Editor.open({ folder, file: 'model.py', trusted: false, settings });
    return { editor, page: editor.page, folder, sentinel };
}

const MODEL = `
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x
`;

export const end = ({ editor }) => editor.close();
export const failed = ({ editor }, name) => editor.failed(name);

step('a workspace that is not trusted is shown as restricted', async ({ editor }) => {
    assert.equal((await editor.ask('state')).trusted, false);
    await editor.until(() => editor.status(), (text) => /^fx\s+restricted/.test(text), 'the status bar says restricted', 60);
    await editor.shot('restricted');
});

step('nothing of it runs, whatever is asked', async ({ editor, page, sentinel }) => {
    await editor.goTo('class Net');
    await page.keyboard.press('End');
    await page.keyboard.type(' ');
    await editor.palette('fxls: Show Graph');
    await page.waitForTimeout(1000);
    await editor.openFile('model.py');
    await editor.palette('fxls: Restart Server');
    await editor.until(() => editor.status(), (text) => /^fx\s+restricted/.test(text), 'restricted again', 60);
    await page.waitForTimeout(3000);
    assert.equal(fs.existsSync(sentinel), false, 'code of the workspace ran');
});

step('trusting it starts the trace', async ({ editor, page, folder, sentinel }) => {
    // The person looks at the settings first and throws the suspicious ones away.
    const explorer = page.locator('.explorer-folders-view .monaco-list-row', { hasText: '.vscode' });
    await explorer.waitFor();
    fs.rmSync(path.join(folder, '.vscode'), { recursive: true });
    await explorer.waitFor({ state: 'detached' });
    await editor.palette('Workspaces: Manage Workspace Trust');
    await page.getByRole('button', { name: /^Trust$/ }).first().click();
    await editor.until(() => editor.ask('state'), ({ trusted }) => trusted, 'the workspace is trusted');
    const problems = await editor.until(
        () => editor.diagnostics('model.py'),
        (all) => all.some(({ code, severity }) => code === 'FX001' && severity === 'Error'),
        'the problem that only a trace finds',
        60,
    );
    assert.equal(problems[0].underlined, 'x.sum() > 0');
    assert.equal(fs.existsSync(sentinel) && fs.readFileSync(sentinel, 'utf8').includes('evil'), false);
    await editor.shot('trusted');
});
