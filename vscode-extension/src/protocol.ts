/**
 * What the server says beyond the Language Server Protocol, as docs/lsp-extensions.md describes it: the
 * results of its commands and the notifications that begin with `fxls/`.
 */
import { NotificationType, NotificationType0 } from 'vscode-languageclient/node';

/** The commands of the server. The client registers them under these very names; ours have others. */
export const ServerCommand = {
    profile: 'fxls.profile',
    showGraph: 'fxls.showGraph',
    showCode: 'fxls.showCode',
    retrace: 'fxls.retrace',
} as const;

/** The one argument of every server command. */
export interface CommandArgument {
    readonly uri: string;
    readonly target?: string;
    readonly device?: string;
    /** The line (from 0) where the cursor stands: without a `target`, the model around it is meant. */
    readonly line?: number;
}

/** Result of `fxls.showCode`. */
export interface CodeResult {
    readonly language: string;
    readonly text: string;
    readonly title: string;
}

/** Result of `fxls.showGraph`. */
export interface GraphResult {
    readonly svg: string;
    readonly dot: string;
    readonly title: string;
}

/** Result of `fxls.profile`: the report, and the paths of the files that hold all of it. */
export interface ProfileResult {
    readonly markdown: string;
    readonly json: string;
    readonly trace: string;
    readonly title: string;
}

export type ServerState = 'starting' | 'ok' | 'tracing' | 'problems' | 'restricted' | 'error';

/** Content of the notification `fxls/status`. */
export interface Status {
    readonly state: ServerState;
    readonly text: string;
    readonly tooltip: string;
    readonly python?: string | null;
    readonly torch?: string | null;
    readonly milliseconds?: number | null;
    readonly problems?: number | null;
    readonly devices?: readonly string[] | null;
}

export const statusNotification = new NotificationType<Status>('fxls/status');

/** Sent when the person turns to another document. */
export const activeNotification = new NotificationType<{ readonly uri: string }>('fxls/active');

/** Sent when the person grants trust: from then on the server may run the workspace's code. */
export const trustedNotification = new NotificationType0('fxls/trusted');
