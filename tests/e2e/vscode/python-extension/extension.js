// The part of the Python extension's public API that says which environment is active. The choice comes from the
// settings, and `Python: Select Interpreter` takes the next one.
const vscode = require('vscode');

exports.activate = (context) => {
    const choices = vscode.workspace.getConfiguration('standin').get('pythons', []);
    const changed = new vscode.EventEmitter();
    let active = 0;
    context.subscriptions.push(
        vscode.commands.registerCommand('python.setInterpreter', () => {
            active = (active + 1) % choices.length;
            changed.fire({ path: choices[active] });
        }),
    );
    return {
        environments: {
            getActiveEnvironmentPath: () => ({ id: choices[active], path: choices[active] }),
            resolveEnvironment: async ({ path }) => ({ executable: { uri: vscode.Uri.file(path) } }),
            onDidChangeActiveEnvironmentPath: changed.event,
        },
    };
};
