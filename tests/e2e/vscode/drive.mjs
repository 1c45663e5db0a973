// Runs the steps of one story on demand: reads a step's name a line from stdin, does it, and prints what came of it as
// one line of JSON. The test runner decides which steps run; the story's editor lives as long as this program.
//
//   node drive.mjs STORY.mjs '{"folder": …, "python": …}'
import readline from 'node:readline';
import { pathToFileURL } from 'node:url';

const [story, given] = process.argv.slice(2);
const { steps, begin, end, failed } = await import(pathToFileURL(story));
const timings = {};
let world;

// The test runner may be gone; the editor is closed in order all the same.
process.stdout.on('error', () => {});
const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);

/** Measures the milliseconds of `work` under a name that the summary shows. */
const timed = async (name, work) => {
    const from = performance.now();
    const result = await work();
    timings[name] = performance.now() - from;
    return result;
};

try {
    world = await begin(JSON.parse(given), timed);
    say({ ready: true });
    for await (const name of readline.createInterface({ input: process.stdin })) {
        for (const key of Object.keys(timings)) {
            delete timings[key];
        }
        try {
            await steps.get(name)(world, timed);
            say({ ok: true, timings });
        } catch (error) {
            const said = await failed(world, name);
            say({ ok: false, timings, error: `${error.stack ?? String(error)}\n${said}` });
        }
    }
} catch (error) {
    say({ ready: false, error: error.stack ?? String(error) });
    process.exitCode = 1;
} finally {
    if (world) {
        await end(world);
    }
}
