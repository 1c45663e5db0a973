// Bundles the extension for Node and each page's script and style sheet for the browser, into dist/.
import { build } from 'esbuild';

const shared = { bundle: true, minify: true, logLevel: 'warning', target: 'es2022' };
await Promise.all([
    build({
        ...shared,
        entryPoints: ['src/extension.ts'],
        outdir: 'dist',
        platform: 'node',
        target: 'node18',
        format: 'cjs',
        external: ['vscode'],
        legalComments: 'linked',
    }),
    build({
        ...shared,
        entryPoints: ['graph', 'report'].flatMap((page) => [`src/webview/${page}.ts`, `src/webview/${page}.css`]),
        outdir: 'dist/webview',
        platform: 'browser',
        format: 'iife',
    }),
]);
