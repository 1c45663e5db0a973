/** The status bar item, and the menu behind it: which Python, which torch, how long the last trace took. */
import {
    type Disposable,
    type QuickPickItem,
    type StatusBarItem,
    MarkdownString,
    QuickPickItemKind,
    StatusBarAlignment,
    ThemeColor,
    commands,
    window,
} from 'vscode';

import { ClientCommand } from './commands';
import type { ServerState, Status } from './protocol';

interface MenuItem extends QuickPickItem {
    readonly command?: string;
    readonly arguments?: readonly unknown[];
}

/** VS Code's own icons for symbols that fonts lack or that should move. */
const ICONS: Readonly<Record<string, string>> = { '⟳': '$(sync~spin)', '⏸': '$(debug-pause)' };

export class StatusBar implements Disposable {
    private readonly item: StatusBarItem;
    private status: Status = { state: 'starting', text: 'fx', tooltip: 'fxls' };

    constructor() {
        this.item = window.createStatusBarItem('fxls.status', StatusBarAlignment.Right, 100);
        this.item.name = 'fxls';
        this.item.command = ClientCommand.showMenu;
        this.show(this.status);
        this.item.show();
    }

    /** The devices that the server's workers see, as far as it has said. */
    get devices(): readonly string[] {
        return this.status.devices ?? [];
    }

    show(status: Status): void {
        // What is not said again still holds: a trace in progress does not change the interpreter.
        this.status = { ...this.status, ...withoutNull(status) };
        this.item.text = status.text.replace(/[⟳⏸]/u, (symbol) => ICONS[symbol] ?? symbol);
        this.item.tooltip = new MarkdownString(status.tooltip, true);
        this.item.accessibilityInformation = { label: `fxls: ${status.tooltip}` };
        this.item.backgroundColor = background(status.state);
    }

    /** The menu: facts first, each with the command that changes it, then what can be done. */
    async menu(device: string): Promise<void> {
        const picked = await window.showQuickPick(this.menuItems(device), {
            title: 'fxls',
            placeHolder: this.status.tooltip.split('\n', 1)[0] ?? '',
            matchOnDetail: true,
        });
        if (picked?.command) {
            await commands.executeCommand(picked.command, ...(picked.arguments ?? []));
        }
    }

    dispose(): void {
        this.item.dispose();
    }

    private menuItems(device: string): MenuItem[] {
        const { python, torch, milliseconds, problems } = this.status;
        const trace = milliseconds === undefined || milliseconds === null ? 'none yet' : duration(milliseconds);
        const count = problems ? `, ${String(problems)} ${problems === 1 ? 'problem' : 'problems'}` : '';
        return [
            {
                label: '$(symbol-namespace) Python',
                description: python ?? 'not known yet',
                detail: `torch ${torch ?? 'not found yet'}`,
                command: ClientCommand.selectInterpreter,
            },
            { label: '$(circuit-board) Device', description: device, command: ClientCommand.selectDevice },
            { label: '$(watch) Last trace', description: `${trace}${count}`, command: 'workbench.actions.view.problems' },
            { label: '', kind: QuickPickItemKind.Separator },
            { label: '$(graph) Profile Model', command: ClientCommand.profileModel },
            { label: '$(type-hierarchy) Show Graph', command: ClientCommand.showGraph },
            { label: '$(file-code) Show Generated Code', command: ClientCommand.showCode },
            { label: '', kind: QuickPickItemKind.Separator },
            { label: '$(debug-restart) Restart Server', command: ClientCommand.restart },
            { label: '$(output) Logs', command: ClientCommand.showLog },
            { label: '$(settings-gear) Settings', command: 'workbench.action.openSettings', arguments: ['@ext:fxls.fxls'] },
        ];
    }
}

function withoutNull(status: Status): Status {
    return Object.fromEntries(Object.entries(status).filter(([, value]) => value !== null)) as unknown as Status;
}

function background(state: ServerState): ThemeColor | undefined {
    switch (state) {
        case 'error':
            return new ThemeColor('statusBarItem.errorBackground');
        case 'restricted':
            return new ThemeColor('statusBarItem.warningBackground');
        default:
            return undefined;
    }
}

function duration(milliseconds: number): string {
    return milliseconds < 1000 ? `${milliseconds.toFixed(milliseconds < 10 ? 1 : 0)} ms` : `${(milliseconds / 1000).toFixed(2)} s`;
}
