// Elements are made here, and text gets into them as text alone: nothing in this page ever parses markup.

const svgSpace = 'http://www.w3.org/2000/svg';

/**
 * h makes an element. Of props, class, dataset, on (listeners) and aria-… are what they say, hidden and the like are properties;
 * children are nodes, text, lists of both, or nothing.
 */
export function h(tag, props, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'class') e.className = value;
    else if (name === 'on') for (const [kind, f] of Object.entries(value)) e.addEventListener(kind, f);
    else if (name === 'dataset') Object.assign(e.dataset, value);
    else if (name in e && typeof value !== 'string') e[name] = value;
    else e.setAttribute(name, value === true ? '' : value);
  }
  return put(e, ...children);
}

/** put appends children as h does. */
export function put(e, ...children) {
  for (const c of children.flat(Infinity)) {
    if (c === undefined || c === null || c === false || c === '') continue;
    e.append(c instanceof Node ? c : String(c));
  }
  return e;
}

/**
 * alike are the elements within e that the keyboard gets to and that say the same as one of them, of the same thing where their data tell
 * of which; what a box holds is not what it says. What is opened is the same thing by its key, whatever is said of it now.
 */
function alike(e, one) {
  const key = (x) => (x.tagName === 'SUMMARY' ? x.parentElement.dataset.key : undefined);
  const sign = (x) => [x.tagName, x.getAttribute('href'), x.getAttribute('aria-label'), ...Object.values(x.dataset), key(x) ?? (x.tagName === 'DIV' || x.tagName === 'PRE' ? '' : x.textContent)].join('\n');
  const says = sign(one);
  return [...e.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')].filter((x) => sign(x) === says);
}

/** boxes are what one may scroll within e, by what each is of and its number among those of it. */
function boxes(e) {
  const all = new Map();
  for (const box of e.querySelectorAll('.scroll, pre')) {
    const of = `${box.closest('details')?.dataset.key ?? ''} ${box.getAttribute('aria-label') ?? ''}`;
    let n = 0;
    while (all.has(`${of} ${n}`)) n++;
    all.set(`${of} ${n}`, box);
  }
  return all;
}

/**
 * fill puts children in place of those that there are. Where the keyboard was on one of those, it is on the one that says the same; and what
 * was scrolled in one is where it was.
 */
export function fill(e, ...children) {
  const had = document.activeElement;
  const at = had !== e && e.contains(had) ? alike(e, had).indexOf(had) : -1;
  const scrolled = [...boxes(e)].map(([of, box]) => [of, box.scrollLeft, box.scrollTop]).filter(([, left, top]) => left || top);
  e.replaceChildren();
  put(e, ...children);
  const now = scrolled.length ? boxes(e) : null;
  for (const [of, left, top] of scrolled) now.get(of)?.scrollTo({ left, top, behavior: 'instant' });
  if (at >= 0 && document.activeElement !== had) (had.isConnected ? had : alike(e, had)[at])?.focus({ preventScroll: true }); // one that was put back has lost it, too
  return e;
}

/**
 * renew fills an element as fill does. What says the same as before stays as it is, down to what is below details of the same key: a mark that
 * somebody has put there, and what is about to be pressed.
 */
export function renew(e, ...children) {
  const next = [...h('div', {}, ...children).childNodes];
  const had = [...e.childNodes];
  const same = (a, b) => a.nodeName === b.nodeName && a.dataset?.key === b.dataset?.key;
  if (had.length !== next.length || had.some((a, i) => !same(a, next[i]))) return fill(e, next);
  had.forEach((a, i) => {
    const b = next[i];
    if (a.isEqualNode(b)) return;
    if (a.nodeType === Node.TEXT_NODE) a.data = b.data;
    else if (a.nodeName === 'DETAILS') renew(a, [...b.childNodes]);
    else fill(a, [...b.childNodes]);
  });
  return e;
}

/** scroll is a box for what may be wider than the screen: with the keyboard, too, one gets to what is beyond its edge. */
export const scroll = (...children) => h('div', { class: 'scroll', role: 'group', 'aria-label': 'Table', tabIndex: 0 }, ...children);

/**
 * lines has body, of a table, a line for each item that it is called with, and keeps those of the same key: of a line whose item says another
 * thing those cells are filled anew that are others. So the keyboard, a click and what is selected stay where they are. said is the item as
 * text, cells are its td.
 */
export function lines(body, key, said, cells) {
  const kept = new Map(); // by key: the line
  return (items) => {
    const had = document.activeElement;
    const left = new Set(kept.keys());
    const named = new Set();
    const shown = items.map((item) => {
      let k = key(item);
      while (named.has(k)) k += '+'; // another one of its key
      named.add(k);
      const says = said(item);
      left.delete(k);
      let line = kept.get(k);
      if (!line) {
        kept.set(k, line = h('tr', {}, cells(item)));
      } else if (line.says !== says) {
        cells(item).forEach((c, i) => { if (!c.isEqualNode(line.children[i])) fill(line.children[i], [...c.childNodes]); });
      }
      line.says = says;
      return line;
    });
    for (const k of left) {
      kept.get(k).remove();
      kept.delete(k);
    }
    let at = body.firstElementChild;
    for (const line of shown) {
      if (line === at) at = at.nextElementSibling;
      else body.insertBefore(line, at);
    }
    if (body.contains(had) && document.activeElement !== had) had.focus({ preventScroll: true }); // its line was moved
  };
}

/** text sets the text of an element where it is another one, so that nothing is drawn anew for nothing. */
export function text(e, words) {
  const only = e.childNodes.length === 1 && e.firstChild.nodeType === Node.TEXT_NODE ? e.firstChild : null;
  if (!only && e.textContent !== words) e.textContent = words;
  else if (only && only.data !== words) only.data = words; // the node stays: that is less to lay out
  return e;
}

/** svg makes an element of a picture. */
export function svg(tag, attributes, ...children) {
  const e = document.createElementNS(svgSpace, tag);
  for (const [name, value] of Object.entries(attributes ?? {})) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

// The shapes by which states are told apart, whatever their colour: each in a square of 16.
const shapes = {
  ready: [['path', { d: 'M3.5 8.5l3 3 6-7', class: 'line' }]],
  applied: [['circle', { cx: 8, cy: 8, r: 4.5, class: 'area' }]],
  working: [['path', { d: 'M8 2.8a5.2 5.2 0 1 1-5.2 5.2', class: 'line' }]],
  notready: [['path', { d: 'M8 2.5a5.5 5.5 0 0 1 0 11z', class: 'area' }], ['circle', { cx: 8, cy: 8, r: 5.5, class: 'thin' }]],
  unknown: [['path', { d: 'M5.5 6a2.5 2.5 0 1 1 3.6 2.2c-.8.4-1.1.9-1.1 1.8M8 12.6v.1', class: 'line' }]],
  retrying: [['path', { d: 'M12.8 6.5A5 5 0 1 0 13 9M13 3v3.7H9.3', class: 'line' }]],
  failed: [['path', { d: 'M4 4l8 8M12 4l-8 8', class: 'line' }]],
  gone: [['path', { d: 'M4 8h8', class: 'line' }]],
  stopped: [['rect', { x: 4, y: 4, width: 8, height: 8, rx: 1, class: 'area' }]],
  out: [['path', { d: 'M6.5 3.5h-3v9h9v-3M9 3.5h3.5V7M12.5 3.5L7.5 8.5', class: 'thin' }]],
  lock: [['path', { d: 'M5.5 7V5a2.5 2.5 0 0 1 5 0v2', class: 'thin' }], ['rect', { x: 4, y: 7, width: 8, height: 6, rx: 1, class: 'area' }]],
  close: [['path', { d: 'M4 4l8 8M12 4l-8 8', class: 'line' }]],
};

/** icon is a shape; label is said by screen readers, without it the icon is said to be none. */
export function icon(name, label) {
  const e = svg('svg', { viewBox: '0 0 16 16', class: `icon icon-${name}`, ...(label ? { role: 'img', 'aria-label': label } : { 'aria-hidden': 'true' }) });
  for (const [tag, attributes] of shapes[name] ?? shapes.unknown) e.append(svg(tag, attributes));
  return e;
}
