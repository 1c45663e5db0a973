/** What the palette and the menus offer. Each command asks the server; none computes anything of its own. */
import {
    type Disposable,
    type LogOutputChannel,
    type TextEditor,
    ConfigurationTarget,
    commands,
    extensions,
    window,
    workspace,
} from 'vscode';

import { type CommandArgument, ServerCommand } from './protocol';
import { type Server, DOCUMENT_SCHEMES } from './server';
import type { StatusBar } from './status';

/** Our own command ids: the server's names belong to the client library, which registers them itself. */
export const ClientCommand = {
    profileModel: 'fxls.profileModel',
    showGraph: 'fxls.showModelGraph',
    showCode: 'fxls.showGeneratedCode',
    retrace: 'fxls.traceAgain',
    restart: 'fxls.restart',
    selectDevice: 'fxls.selectDevice',
    selectInterpreter: 'fxls.selectInterpreter',
    showMenu: 'fxls.showMenu',
    showLog: 'fxls.showLog',
} as const;

export function registerCommands(server: Server, status: StatusBar, log: LogOutputChannel): Disposable[] {
    const onEditor = (id: string, command: string): Disposable =>
        commands.registerCommand(id, async () => {
            const editor = pythonEditor();
            if (editor) {
                await server.run(command, here(editor));
            }
        });
    return [
        onEditor(ClientCommand.profileModel, ServerCommand.profile),
        onEditor(ClientCommand.showGraph, ServerCommand.showGraph),
        onEditor(ClientCommand.showCode, ServerCommand.showCode),
        onEditor(ClientCommand.retrace, ServerCommand.retrace),
        commands.registerCommand(ClientCommand.restart, () => server.restart()),
        commands.registerCommand(ClientCommand.showMenu, () => status.menu(device())),
        commands.registerCommand(ClientCommand.selectInterpreter, selectInterpreter),
        commands.registerCommand(ClientCommand.selectDevice, () => selectDevice(status.devices)),
        commands.registerCommand(ClientCommand.showLog, () => {
            log.show();
        }),
    ];
}

function pythonEditor(): TextEditor | undefined {
    const editor = window.activeTextEditor;
    if (editor?.document.languageId === 'python' && DOCUMENT_SCHEMES.includes(editor.document.uri.scheme)) {
        return editor;
    }
    void window.showInformationMessage('fxls: open the Python file that defines the model first.');
    return undefined;
}

/** The place of the cursor: the server takes the model that it stands in. */
function here(editor: TextEditor): CommandArgument {
    return { uri: editor.document.uri.toString(), line: editor.selection.active.line };
}

/** The device on which models are profiled where a command names none. */
function device(): string {
    return workspace.getConfiguration('fxls').get('profile.device', 'cpu');
}

async function selectDevice(seen: readonly string[]): Promise<void> {
    const current = device();
    const items = [...new Set([...seen, current])].map((label) => ({
        label,
        description: label === current ? 'in use' : '',
    }));
    const picked = await window.showQuickPick(items, {
        title: 'fxls: device to profile on',
        placeHolder: 'The devices that torch sees in your environment',
    });
    if (picked) {
        const target = workspace.workspaceFolders ? ConfigurationTarget.Workspace : ConfigurationTarget.Global;
        await workspace.getConfiguration('fxls').update('profile.device', picked.label, target);
    }
}

/** The Python extension chooses interpreters where it is installed; the setting does elsewhere. */
async function selectInterpreter(): Promise<void> {
    if (extensions.getExtension('ms-python.python')) {
        await commands.executeCommand('python.setInterpreter');
    } else {
        await commands.executeCommand('workbench.action.openSettings', 'fxls.interpreter');
    }
}
