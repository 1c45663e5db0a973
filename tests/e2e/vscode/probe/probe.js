// An extension that answers, over a socket, what VS Code itself holds: the tests see the ranges of diagnostics exactly,
// while all that they do is done by keyboard and mouse in the page. It never talks to fxls.
const net = require('node:net');
const vscode = require('vscode');

const range = ({ start, end }) => [start.line, start.character, end.line, end.character];
const markdown = (content) => (typeof content === 'string' ? content : content.value);
const ask = (command, ...args) => vscode.commands.executeCommand(command, ...args);

const answers = {
    state: () => ({ trusted: vscode.workspace.isTrusted, version: vscode.version }),
    text: async ({ path }) => (await open(path)).getText(),
    diagnostics: ({ path }) =>
        vscode.languages
            .getDiagnostics(vscode.Uri.file(path))
            .filter(({ source }) => source === 'fxls')
            .map((each) => ({
                range: range(each.range),
                message: each.message,
                severity: vscode.DiagnosticSeverity[each.severity],
                code: each.code?.value ?? each.code,
                link: each.code?.target?.toString(),
                related: (each.relatedInformation ?? []).map(({ message, location }) => ({ message, range: range(location.range) })),
            })),
    hover: async ({ path, line, character }) => {
        const uri = (await open(path)).uri;
        const hovers = await ask('vscode.executeHoverProvider', uri, new vscode.Position(line, character));
        return hovers.map((hover) => hover.contents.map(markdown).join('\n')).join('\n---\n');
    },
    actions: async ({ path, line, character }) => {
        const place = new vscode.Range(line, character, line, character);
        const actions = await ask('vscode.executeCodeActionProvider', (await open(path)).uri, place);
        return actions.map(({ title }) => title);
    },
    lenses: async ({ path }) => {
        const lenses = await ask('vscode.executeCodeLensProvider', (await open(path)).uri, 50);
        return lenses.map((lens) => ({ line: lens.range.start.line, title: lens.command?.title }));
    },
    hints: async ({ path }) => {
        const document = await open(path);
        const all = new vscode.Range(0, 0, document.lineCount, 0);
        const hints = await ask('vscode.executeInlayHintProvider', document.uri, all);
        return hints.map(({ position, label }) => ({
            line: position.line,
            label: typeof label === 'string' ? label : label.map(({ value }) => value).join(''),
        }));
    },
    tabs: () => vscode.window.tabGroups.all.flatMap((group) => group.tabs.map((tab) => tab.label)),
};

const open = (path) => vscode.workspace.openTextDocument(vscode.Uri.file(path));

exports.activate = (context) => {
    const server = net.createServer((socket) => {
        let received = '';
        socket.on('data', async (data) => {
            received += data;
            for (let end = received.indexOf('\n'); end >= 0; end = received.indexOf('\n')) {
                const { id, question, ...given } = JSON.parse(received.slice(0, end));
                received = received.slice(end + 1);
                try {
                    socket.write(`${JSON.stringify({ id, answer: await answers[question](given) })}\n`);
                } catch (error) {
                    socket.write(`${JSON.stringify({ id, error: String(error) })}\n`);
                }
            }
        });
        socket.on('error', () => {});
    });
    server.on('error', () => {}); // Another window of the same server holds the socket.
    server.listen(process.env.FXLS_TEST_PROBE);
    context.subscriptions.push({ dispose: () => server.close() });
};
