/** Script of the report page: buttons and links tell the extension, which opens what they mean. */
declare function acquireVsCodeApi(): { postMessage(message: { command: string; value?: string }): void };

const host = acquireVsCodeApi();

for (const button of document.querySelectorAll('header button')) {
    button.addEventListener('click', () => {
        host.postMessage({ command: button.id });
    });
}
document.addEventListener('click', (event) => {
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    const href = link?.dataset.href ?? link?.getAttribute('href');
    if (href && !href.startsWith('#')) {
        event.preventDefault();
        host.postMessage({ command: 'open', value: href });
    }
});
