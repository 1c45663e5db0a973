// The person chooses their environment in the Python extension; fxls follows, and says so when nothing can be traced with it.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';

import { Editor } from './editor.mjs';

export const steps = new Map();
const step = (name, run) => steps.set(name, run);

export async function begin({ folder, settings, python }) {
    const without = path.join(folder, 'without-torch');
    fs.writeFileSync(without, `#!/bin/sh\nexec '${settings['fxls.serverInterpreter']}' -S "$@"\n`, { mode: 0o755 });
    const editor = await Editor.open({
        folder,
        file: 'router.py',
        settings: { ...settings, 'fxls.interpreter': [], 'standin.pythons': [without, python] },
        extensions: ['python-extension'],
    });
    return { editor, page: editor.page };
}

export const end = ({ editor }) => editor.close();
export const failed = ({ editor }, name) => editor.failed(name);

step('an environment without torch is said in the status bar', async ({ editor }) => {
    await editor.until(() => editor.status(), (text) => text === 'fx ! no torch', 'the status bar says that torch is missing', 60);
    await editor.shot('no-torch');
});

step('choosing another one in the Python extension traces with that', async ({ editor }, timed) => {
    await timed('another environment chosen → diagnostics', async () => {
        await editor.palette('Python: Select Interpreter');
        const problems = await editor.until(
            () => editor.diagnostics('router.py'),
            (all) => all.some(({ code }) => code === 'FX001'),
            'the problem that a trace finds',
            60,
        );
        assert.equal(problems[0].underlined, 'gate.max() > self.threshold');
    });
    await editor.until(() => editor.status(), (text) => text === 'fx ✗ 1', 'the status bar counts the problem');
});

step('the setting is stronger than the Python extension', async ({ editor, page }) => {
    fs.mkdirSync(editor.path('.vscode'));
    const settings = { 'fxls.interpreter': ['${workspaceFolder}/without-torch'] };
    fs.writeFileSync(editor.path('.vscode/settings.json'), JSON.stringify(settings));
    await editor.until(() => editor.status(), (text) => text === 'fx ! no torch', 'torch is missing again', 60);
    assert.equal(await page.locator('.notification-list-item:has(.codicon-error)').count(), 0);
});
