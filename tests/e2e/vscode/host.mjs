// A real VS Code with the packaged extension: a server of its own on a free port, its own profile in a temporary folder.
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const HERE = path.dirname(fileURLToPath(import.meta.url));
export const ROOT = path.resolve(HERE, '../../..');
const HOST = process.env.FXLS_VSCODE_HOST ?? path.join(ROOT, '.cache/vscode-host');
const VSIX = process.env.FXLS_VSIX ?? path.join(ROOT, 'vscode-extension/fxls.vsix');

/** The browser library that belongs to the installed host. */
export const { chromium } = createRequire(`${HOST}/package.json`)('playwright-core');

// Quiet: nothing of VS Code's own comes between the test and the editor.
const SETTINGS = {
    'telemetry.telemetryLevel': 'off',
    'update.mode': 'none',
    'extensions.autoCheckUpdates': false,
    'extensions.autoUpdate': false,
    'extensions.ignoreRecommendations': true,
    'workbench.colorTheme': 'Default Dark Modern',
    'workbench.startupEditor': 'none',
    'workbench.enableExperiments': false,
    'workbench.tips.enabled': false,
    'workbench.layoutControl.enabled': false,
    'window.commandCenter': false,
    'git.enabled': false,
    'security.workspace.trust.startupPrompt': 'never',
    'chat.commandCenter.enabled': false,
    'editor.minimap.enabled': false,
    'editor.fontSize': 14,
    'editor.wordBasedSuggestions': 'off',
    'editor.quickSuggestions': { other: 'off', comments: 'off', strings: 'off' },
    'editor.acceptSuggestionOnEnter': 'off',
    'editor.occurrencesHighlight': 'off',
    'editor.lightbulb.enabled': 'on',
    'editor.hover.delay': 200,
    'files.autoSave': 'off',
};

/**
 * Starts the server. `trusted` decides whether workspaces are, `settings` come on top of the quiet ones, and
 * `extensions` are folders beside this file that are installed besides the packaged extension.
 */
export async function start({ folder, trusted = true, settings = {}, extensions: more = [] }) {
    const profile = fs.mkdtempSync(path.join(os.tmpdir(), 'fxls-vscode-'));
    const data = path.join(profile, 'data');
    // The page is a remote window to VS Code: settings that belong to a machine count as the machine's alone, the person's own
    // are left out as soon as the extension's scopes are known.
    for (const [place, chosen] of [['User', { ...SETTINGS, ...settings }], ['Machine', settings]]) {
        fs.mkdirSync(path.join(data, place), { recursive: true });
        fs.writeFileSync(path.join(data, place, 'settings.json'), JSON.stringify(chosen));
    }
    const extensions = path.join(profile, 'extensions');
    for (const name of ['probe', ...more]) {
        fs.cpSync(path.join(HERE, name), path.join(extensions, name), { recursive: true });
    }
    const socket = path.join(profile, 'probe.sock');
    const env = {
        ...process.env,
        XDG_CONFIG_HOME: path.join(profile, 'xdg'),
        XDG_DATA_HOME: path.join(profile, 'xdg'),
        EXTENSIONS_GALLERY: '{"serviceUrl":"","itemUrl":"","resourceUrlTemplate":""}',
        FXLS_TEST_PROBE: socket,
    };
    const program = path.join(HOST, 'node_modules/code-server/out/node/entry.js');
    const common = [program, '--user-data-dir', data, '--extensions-dir', extensions];
    const installed = spawnSync(process.execPath, [...common, '--install-extension', VSIX, '--force'], { env, encoding: 'utf8' });
    if (installed.status !== 0) {
        throw new Error(`${VSIX} was not installed: ${installed.stdout}${installed.stderr}`);
    }
    const port = await freePort();
    const output = fs.openSync(path.join(profile, 'server.log'), 'w');
    const flags = ['--auth', 'none', '--bind-addr', `127.0.0.1:${port}`, '--disable-telemetry', '--disable-update-check'];
    flags.push('--disable-getting-started-override', ...(trusted ? ['--disable-workspace-trust'] : []));
    const server = spawn(process.execPath, [...common, ...flags], { env, detached: true, stdio: ['ignore', output, output] });
    process.once('exit', () => kill(server.pid)); // It is in a group of its own and would live on.
    await ready(port);
    return {
        socket,
        url: (file) => {
            const open = file && JSON.stringify([['openFile', `vscode-remote://127.0.0.1:${port}${path.join(folder, file)}`]]);
            return `http://127.0.0.1:${port}/?folder=${folder}${open ? `&payload=${encodeURIComponent(open)}` : ''}`;
        },
        /** What the extension wrote to its output channel. */
        log: () => read(data, /output_logging.*fxls\.log$|fxls\.fxls\/fxls\.log$/),
        stop: async () => {
            kill(server.pid);
            await new Promise((resolve) => server.once('exit', resolve));
            fs.rmSync(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
        },
    };
}

/** Asks the probe; it answers once the extension host runs. */
export async function probe(socketPath, question, given = {}) {
    for (let tries = 0; ; tries++) {
        try {
            return await askOnce(socketPath, { id: 0, question, ...given });
        } catch (error) {
            if (tries > 300 || !['ENOENT', 'ECONNREFUSED'].includes(error.code)) {
                throw error;
            }
            await new Promise((resolve) => setTimeout(resolve, 100));
        }
    }
}

function askOnce(socketPath, message) {
    return new Promise((resolve, reject) => {
        const socket = net.connect(socketPath, () => socket.write(`${JSON.stringify(message)}\n`));
        let received = '';
        socket.on('error', reject);
        socket.on('data', (data) => {
            received += data;
            if (received.endsWith('\n')) {
                socket.destroy();
                const { answer, error } = JSON.parse(received);
                if (error) {
                    reject(new Error(error));
                } else {
                    resolve(answer);
                }
            }
        });
    });
}

function kill(pid) {
    try {
        process.kill(-pid, 'SIGTERM'); // The whole group: the file watcher would outlive its parent.
    } catch (error) {
        if (error.code !== 'ESRCH') {
            throw error;
        }
    }
}

function read(folder, pattern) {
    const files = fs.readdirSync(folder, { recursive: true }).filter((file) => pattern.test(file));
    return files.map((file) => fs.readFileSync(path.join(folder, file), 'utf8')).join('');
}

function freePort() {
    return new Promise((resolve) => {
        const server = net.createServer().listen(0, '127.0.0.1', () => {
            const { port } = server.address();
            server.close(() => resolve(port));
        });
    });
}

async function ready(port) {
    for (let tries = 0; tries < 300; tries++) {
        try {
            if ((await fetch(`http://127.0.0.1:${port}/healthz`)).ok) {
                return;
            }
        } catch {
            // Not listening yet.
        }
        await new Promise((resolve) => setTimeout(resolve, 100));
    }
    throw new Error('code-server did not start within 30 s');
}
