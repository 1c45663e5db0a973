/** Script of the graph page: drag to move, wheel to zoom at the pointer, search. The view survives hiding the page. */
declare function acquireVsCodeApi(): {
    postMessage(message: { command: string; value?: string }): void;
    getState(): View | undefined;
    setState(view: View): void;
};

interface View {
    x: number;
    y: number;
    scale: number;
}

const host = acquireVsCodeApi();
const canvas = element('canvas');
const drawing = canvas.querySelector('svg');
const margin = 24;

if (drawing) {
    const size = natural(drawing);
    drawing.setAttribute('width', String(size.width));
    drawing.setAttribute('height', String(size.height));
    present(drawing, size);
}

function present(svg: SVGSVGElement, size: { width: number; height: number }): void {
    let view = host.getState() ?? whole();
    apply();

    /** The view in which all of the drawing is seen; a tall drawing fills the width and starts at its top. */
    function whole(): View {
        const width = canvas.clientWidth - 2 * margin;
        const height = canvas.clientHeight - 2 * margin;
        const scale = Math.min(width / size.width, Math.max(height / size.height, 0.6), 1.25);
        return { x: Math.max((canvas.clientWidth - size.width * scale) / 2, margin), y: margin, scale };
    }

    function apply(): void {
        svg.style.transform = `translate(${String(view.x)}px, ${String(view.y)}px) scale(${String(view.scale)})`;
        host.setState(view);
    }

    function zoom(factor: number, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2): void {
        const scale = Math.min(Math.max(view.scale * factor, 0.02), 8);
        const ratio = scale / view.scale;
        view = { x: x - (x - view.x) * ratio, y: y - (y - view.y) * ratio, scale };
        apply();
    }

    function move(x: number, y: number): void {
        view = { ...view, x: view.x + x, y: view.y + y };
        apply();
    }

    /** Brings a part of the drawing to the middle of the page. */
    function centre(part: Element): void {
        const box = part.getBoundingClientRect();
        const page = canvas.getBoundingClientRect();
        move(page.left + page.width / 2 - box.left - box.width / 2, page.top + page.height / 2 - box.top - box.height / 2);
    }

    canvas.addEventListener(
        'wheel',
        (event) => {
            event.preventDefault();
            if (event.ctrlKey || event.metaKey || !event.shiftKey) {
                zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
            } else {
                move(-event.deltaX, -event.deltaY);
            }
        },
        { passive: false },
    );
    canvas.addEventListener('pointerdown', (event) => {
        if (event.button === 0) {
            canvas.setPointerCapture(event.pointerId);
            canvas.classList.add('dragged');
        }
    });
    canvas.addEventListener('pointermove', (event) => {
        if (canvas.hasPointerCapture(event.pointerId)) {
            move(event.movementX, event.movementY);
        }
    });
    canvas.addEventListener('pointerup', () => {
        canvas.classList.remove('dragged');
    });
    const fit = (): void => {
        view = whole();
        apply();
    };
    onClick('in', () => { zoom(1.25); });
    onClick('out', () => { zoom(0.8); });
    onClick('fit', fit);
    onClick('save', () => { host.postMessage({ command: 'save' }); });
    onClick('dot', () => { host.postMessage({ command: 'dot' }); });
    const keys: Record<string, () => void> = {
        '+': () => { zoom(1.25); },
        '-': () => { zoom(0.8); },
        '0': fit,
        ArrowLeft: () => { move(60, 0); },
        ArrowRight: () => { move(-60, 0); },
        ArrowUp: () => { move(0, 60); },
        ArrowDown: () => { move(0, -60); },
    };
    document.addEventListener('keydown', (event) => {
        if (!(event.target instanceof HTMLInputElement)) {
            keys[event.key]?.();
        }
    });
    search(svg, centre);
}

/** Marks the nodes whose label holds what is typed; Enter goes from one to the next. */
function search(svg: SVGSVGElement, centre: (part: Element) => void): void {
    const input = element('find') as HTMLInputElement;
    const found = element('found');
    let hits: SVGElement[] = [];
    let current = -1;
    const next = (step: number): void => {
        if (hits.length > 0) {
            hits[current]?.classList.remove('current');
            current = (current + step + hits.length) % hits.length;
            const hit = hits[current];
            hit?.classList.add('current');
            if (hit) {
                centre(hit);
            }
            found.textContent = `${String(current + 1)} of ${String(hits.length)}`;
        }
    };
    input.addEventListener('input', () => {
        const wanted = input.value.trim().toLowerCase();
        const nodes = [...svg.querySelectorAll<SVGElement>('g.node')];
        hits = wanted === '' ? [] : nodes.filter((node) => label(node).includes(wanted));
        for (const node of nodes) {
            node.classList.remove('current');
            node.classList.toggle('hit', hits.includes(node));
        }
        found.textContent = wanted === '' ? '' : 'none';
        current = -1;
        next(1);
    });
    input.addEventListener('keydown', (event) => {
        if (event.key === 'Enter') {
            next(event.shiftKey ? -1 : 1);
        }
    });
}

/** What is written in a node's box; what only hovering shows would find its neighbours too. */
function label(node: SVGElement): string {
    return [...node.querySelectorAll('text')].map((line) => line.textContent).join('\n').toLowerCase();
}

function natural(svg: SVGSVGElement): { width: number; height: number } {
    const { width, height } = svg.viewBox.baseVal;
    return width > 0 && height > 0 ? { width, height } : svg.getBBox();
}

function element(id: string): HTMLElement {
    const found = document.getElementById(id);
    if (!found) {
        throw new Error(`the page has no element ${id}`);
    }
    return found;
}

function onClick(id: string, action: () => void): void {
    element(id).addEventListener('click', action);
}
