/**
 * Which Python runs what. Two are needed: one for the server, which wants Python 3.11 and no torch, and the
 * person's own, in which their models are built and traced. Nothing here runs code of the workspace before
 * the workspace is trusted: until then neither its `.venv` nor its settings are looked at.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import * as path from 'node:path';
import { type Disposable, type Uri, extensions, workspace } from 'vscode';

/** A command line without its arguments, and where it was found, in words for the person. */
export interface Interpreter {
    readonly command: readonly string[];
    readonly from: string;
}

/** The part of the Python extension's public API that is used here. */
interface PythonApi {
    readonly environments: {
        getActiveEnvironmentPath(resource?: Uri): { readonly path: string };
        resolveEnvironment(
            environment: { readonly path: string },
        ): Promise<{ readonly executable: { readonly uri: Uri | undefined } } | undefined>;
        onDidChangeActiveEnvironmentPath(listener: () => void): Disposable;
    };
}

const OLDEST_PYTHON = [3, 11] as const;
const WINDOWS = process.platform === 'win32';

/**
 * The interpreter whose torch the models use, as far as it was chosen in the editor: by the setting or in the Python
 * extension. Where it was not, the server finds one.
 */
export async function userInterpreter(folder: Uri | undefined): Promise<Interpreter | undefined> {
    return fromSetting('interpreter', folder) ?? (await fromPythonExtension(folder));
}

/**
 * The interpreter that runs the server: the setting, else the person's own, else `.venv`, else the one on PATH.
 *
 * @throws Error in words for the person, where none of them is a Python that the server can run on.
 */
export async function serverInterpreter(user: Interpreter | undefined, folder: Uri | undefined): Promise<Interpreter> {
    const chosen = fromSetting('serverInterpreter', folder);
    const onPath = ['python3', 'python'].map((name) => ({ command: [name], from: 'PATH' }));
    const candidates = chosen ? [chosen] : [user, fromVirtualEnvironment(folder), ...onPath];
    const found: string[] = [];
    for (const candidate of candidates.filter((each) => each !== undefined)) {
        const version = await pythonVersion(candidate.command);
        if (version && atLeast(version, OLDEST_PYTHON)) {
            return candidate;
        }
        found.push(`${candidate.command.join(' ')} ${version ? `is Python ${version.join('.')}` : 'does not start'}`);
    }
    throw new Error(
        `fxls needs Python ${OLDEST_PYTHON.join('.')} or newer to run its server: ${[...new Set(found)].join(', ')}. ` +
            'Name one in the setting fxls.serverInterpreter; your models keep their own interpreter.',
    );
}

/** Calls `listener` whenever the Python extension's choice changes; does nothing where it is not installed. */
export async function onDidChangeEnvironment(listener: () => void): Promise<Disposable | undefined> {
    return (await pythonApi())?.environments.onDidChangeActiveEnvironmentPath(listener);
}

/** A path alone is a command, too; what is neither that nor a list of words, the server complains of. */
function fromSetting(name: string, folder: Uri | undefined): Interpreter | undefined {
    const chosen = workspace.getConfiguration('fxls', folder).get<unknown>(name);
    const words: readonly unknown[] = Array.isArray(chosen) ? chosen : [chosen];
    if (!words[0] || !words.every((word) => typeof word === 'string')) {
        return undefined;
    }
    return { command: words.map((word) => expand(word, folder)), from: `setting fxls.${name}` };
}

function expand(word: string, folder: Uri | undefined): string {
    const root = folder?.fsPath ?? '';
    return word.replaceAll('${workspaceFolder}', root).replace(/^~(?=[/\\])/, homedir());
}

async function fromPythonExtension(folder: Uri | undefined): Promise<Interpreter | undefined> {
    const environments = (await pythonApi())?.environments;
    if (!environments) {
        return undefined;
    }
    const active = environments.getActiveEnvironmentPath(folder);
    const resolved = await environments.resolveEnvironment(active);
    const executable = resolved?.executable.uri?.fsPath;
    return executable ? { command: [executable], from: 'Python extension' } : undefined;
}

async function pythonApi(): Promise<PythonApi | undefined> {
    const extension = workspace.isTrusted ? extensions.getExtension<PythonApi>('ms-python.python') : undefined;
    return extension && (await extension.activate());
}

function fromVirtualEnvironment(folder: Uri | undefined): Interpreter | undefined {
    if (!folder || !workspace.isTrusted) {
        return undefined;
    }
    const python = path.join(folder.fsPath, '.venv', ...(WINDOWS ? ['Scripts', 'python.exe'] : ['bin', 'python']));
    return existsSync(python) ? { command: [python], from: '.venv' } : undefined;
}

function pythonVersion(command: readonly string[]): Promise<readonly number[] | undefined> {
    const [program = '', ...first] = command;
    const script = 'import sys; print("%d.%d" % sys.version_info[:2])';
    return new Promise((resolve) => {
        execFile(program, [...first, '-I', '-c', script], { timeout: 20_000 }, (error, stdout) => {
            resolve(error ? undefined : stdout.trim().split('.').map(Number));
        });
    });
}

function atLeast(version: readonly number[], oldest: readonly [number, number]): boolean {
    const [major = 0, minor = 0] = version;
    return major > oldest[0] || (major === oldest[0] && minor >= oldest[1]);
}
