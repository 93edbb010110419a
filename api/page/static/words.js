// How what the API answers is said and shown: times, states of cells, owners, documents as YAML.

import { now } from './api.js';
import { h } from './dom.js';

/** age is how long ago a time is, in one unit or two. */
export function age(time, at = now()) {
  const s = Math.max(0, Math.round((at - new Date(time).getTime()) / 1000));
  return span(s);
}

/** span is a number of seconds in words. */
export function span(s) {
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m${s < 600 && s % 60 ? ` ${s % 60}s` : ''}`;
  if (s < 86400) return `${Math.floor(s / 3600)}h${s < 36000 && Math.floor(s / 60) % 60 ? ` ${Math.floor(s / 60) % 60}m` : ''}`;
  return `${Math.floor(s / 86400)}d`;
}

/** clock is a time of day, with the day where it is another one. */
export function clock(time) {
  const d = new Date(time);
  const day = d.toDateString() === new Date().toDateString() ? '' : `${d.toLocaleDateString()} `;
  return day + d.toLocaleTimeString();
}

/** when shows how long ago something was; all of them are kept up to date by tick. */
export function when(time) {
  if (!time) return '';
  return h('time', { datetime: new Date(time).toISOString(), title: new Date(time).toLocaleString() }, `${age(time)} ago`);
}

/** tick brings all times of a part of the page up to date. */
export function tick(root) {
  const at = now();
  for (const e of root.querySelectorAll('time[datetime]')) {
    const words = `${age(e.getAttribute('datetime'), at)} ago`;
    if (e.textContent !== words) e.textContent = words;
  }
}

/** count is a number with its noun. */
export function count(n, noun) {
  return `${n.toLocaleString('en')} ${noun}${n === 1 ? '' : noun.endsWith('s') ? 'es' : 's'}`;
}

/** sum adds up the values of an object. */
export const sum = (counts) => Object.values(counts ?? {}).reduce((a, b) => a + b, 0);

/** States of a cell, and of anything else that is shown by colour and shape; the gravest first. */
export const states = {
  failed: 'Failed',
  retrying: 'Retrying',
  notready: 'Not ready',
  unknown: 'Not heard of',
  working: 'At work',
  applied: 'Applied',
  ready: 'Ready',
  gone: 'Gone',
};

export const stateNames = Object.keys(states);

/** rank orders states, the gravest first. */
export const rank = Object.fromEntries(stateNames.map((s, i) => [s, i]));

/** stateOfCell is where one app on one cluster stands, by what a status with output=counts says of it. */
export function stateOfCell(c) {
  const done = c.deployedCounts ?? {};
  const ready = c.readyCounts ?? {};
  const all = sum(done);
  if (done.Failed) return 'failed';
  if (done.Retrying) return 'retrying';
  if (done.Pending) return c.connectivity === 'Retrying' ? 'retrying' : 'working';
  if (all > 0 && done.Deleted === all) return 'gone';
  if (c.reason || c.stale || c.lastSeen) return c.stale || c.lastSeen ? 'unknown' : 'applied';
  if (ready.NotReady || ready.NotPresent) return 'notready';
  return ready.Ready ? 'ready' : 'applied';
}

/** stateOfContext is how the status of an instance is shown. */
export function stateOfContext(status) {
  switch (status) {
    case 'Instantiated': return 'ready';
    case 'Instantiating': case 'Terminating': return 'working';
    case 'InstantiateFailed': case 'TerminateFailed': return 'failed';
    default: return 'gone';
  }
}

/** stateOfOperation is how the state of an operation is shown. */
export function stateOfOperation(state) {
  return { Running: 'working', Succeeded: 'ready', Failed: 'failed', Stopped: 'stopped', Refused: 'failed' }[state] ?? 'unknown';
}

/** group reads the path of a deployment intent group below /v2. */
export function groupOf(key) {
  const m = /^projects\/([^/]+)\/composite-apps\/([^/]+)\/([^/]+)\/deployment-intent-groups\/([^/]+)$/.exec(key);
  return m && { project: m[1], app: m[2], version: m[3], name: m[4] };
}

/** pageOf is the address of a resource on this page, '' where it has none. */
export function pageOf(key) {
  const g = groupOf(key ?? '');
  if (g) return `#/groups/${[g.project, g.app, g.version, g.name].map(encodeURIComponent).join('/')}`;
  const c = /^cluster-providers\/([^/]+)\/clusters\/([^/]+)$/.exec(key ?? '');
  return c ? `#/fleet/${encodeURIComponent(c[1])}/${encodeURIComponent(c[2])}` : '';
}

/** namesOf are the names in a path, without the words between them, which are in all paths of a kind. */
export function namesOf(key) {
  const g = groupOf(key ?? '');
  return g ? `${g.project}/${g.app}/${g.version}/${g.name}` : (key ?? '').split('/').filter((_, i) => i % 2).join('/');
}

/** nameOf is the last part of a path. */
export const nameOf = (key) => (key ?? '').split('/').pop();

/** placeOf is where a resource lies: there are others of its name elsewhere. */
export function placeOf(key) {
  const g = groupOf(key ?? '');
  return g ? `${g.project} / ${g.app} ${g.version}` : /^(?:projects|cluster-providers)\/([^/]+)\//.exec(key ?? '')?.[1] ?? '';
}

/** bar shows counts of resources by state: how many of all are applied. */
export function bar(counts) {
  const all = sum(counts);
  if (!all) return '';
  const done = counts.Applied ?? counts.Deleted ?? 0;
  const part = (n, kind) => {
    const e = h('i', { class: kind });
    e.style.width = `${(100 * n) / all}%`;
    return e;
  };
  const words = Object.entries(counts).map(([s, n]) => `${n} ${s}`).join(', ');
  return h('span', { class: 'progress', title: words },
    h('span', { class: 'bar', 'aria-hidden': 'true' }, part(counts.Applied ?? 0, 'is-ready'), part(counts.Deleted ?? 0, 'is-gone'), part(counts.Retrying ?? 0, 'is-retrying'), part(counts.Failed ?? 0, 'is-failed')),
    h('span', { class: 'n' }, `${done}/${all}`));
}

const plain = /^[A-Za-z_/][\w./+-]*( [\w./+-]+)*$/;
const word = /^(true|false|null|yes|no|on|off|y|n|~)$/i;

/** isNumber says whether a value is a number that is kept as it is written: a browser cannot count with it. */
const isNumber = (value) => JSON.isRawJSON?.(value) ?? false;

/** yaml spells a value as YAML: what might be read as something else is quoted. */
export function yaml(value, indent = '') {
  if (value === null || value === undefined) return 'null';
  if (typeof value === 'string') {
    if (value.includes('\n') && !/[^\n\x20-\x7e\u00a0-\ud7ff]/.test(value) && !/^[ \n]/.test(value)) {
      return `|${value.endsWith('\n') ? '' : '-'}\n${value.replace(/\n$/, '').split('\n').map((l) => (l ? indent + l : '')).join('\n')}`;
    }
    return plain.test(value) && !word.test(value) ? value : JSON.stringify(value);
  }
  if (typeof value !== 'object') return String(value);
  if (isNumber(value)) return value.rawJSON;
  if (Array.isArray(value)) {
    if (!value.length) return '[]';
    return value.map((v) => `${indent}- ${inner(v, `${indent}  `)}`).join('\n');
  }
  const keys = Object.keys(value);
  if (!keys.length) return '{}';
  return keys.map((k) => {
    const v = value[k];
    const name = plain.test(k) && !word.test(k) ? k : JSON.stringify(k);
    const nested = v && typeof v === 'object' && !isNumber(v) && (Array.isArray(v) ? v.length : Object.keys(v).length);
    if (nested) return `${indent}${name}:\n${yaml(v, Array.isArray(v) ? indent : `${indent}  `)}`;
    return `${indent}${name}: ${yaml(v, `${indent}  `)}`;
  }).join('\n');
}

/** inner is an element of a list, whose first line follows the dash. */
function inner(v, indent) {
  const text = yaml(v, indent);
  return v && typeof v === 'object' ? text.replace(/^ +/, '') : text;
}
