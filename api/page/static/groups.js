// Groups: the list of all that the caller may see, and one of them.

import { pages } from './api.js';
import { Chips } from './chips.js';
import { fill, h, icon, text } from './dom.js';
import { keep } from './filters.js';
import { show as showGroup } from './group.js';
import { Rows } from './rows.js';
import { bar, count, groupOf, namesOf, pageOf, placeOf, stateOfContext, states, sum, when } from './words.js';

export function show(main, at, life) {
  if (at.words.length === 4) return showGroup(main, at, life);
  return showList(main, at, life);
}

const stateWords = { ...states, ready: 'Instantiated', working: 'At work', failed: 'Failed', gone: 'Not instantiated' };

/** stateOf is how a group is shown: by where its instance stands, and whether anything failed. */
function stateOf(g) {
  if (g.counts?.Failed) return 'failed';
  if (g.counts?.Retrying) return 'retrying';
  return stateOfContext(g.contextStatus);
}

/** healthOf is how what clusters report of a group is shown: its state, how many of all are ready, and that in words. */
function healthOf(g) {
  const h = g.health;
  if (!h) return { state: '', n: '', words: '' };
  const ready = h.counts?.Ready ?? 0;
  const all = sum(h.counts);
  const state = h.ready ? 'ready' : 'notready';
  return { state, n: all ? `${ready.toLocaleString('en')}/${all.toLocaleString('en')}` : '', words: state === 'ready' ? 'Ready' : ready === all ? 'Not confirmed' : 'Not ready' };
}

const sayHealth = (health) => Object.entries(health?.counts ?? {}).map(([s, n]) => `${n} ${s}`).join(', ');

function showList(main, at, life) {
  let all = new Map();
  let words = '';
  let wrong = ''; // why nothing can be shown
  let known = false;
  const chips = new Chips(stateWords, 'Show only groups that are', () => looked());
  const ill = h('button', { type: 'button', 'aria-pressed': 'false', hidden: true, on: { click: () => { ill.setAttribute('aria-pressed', String(ill.getAttribute('aria-pressed') !== 'true')); looked(); } } });
  const search = h('input', { type: 'search', class: 'search', placeholder: 'Find groups', 'aria-label': 'Find groups by name, project or app', on: { input: () => { words = search.value.trim().toLowerCase(); looked(); } } });
  const rows = new Rows(life, { height: 44, label: 'Groups', key: (x) => x.path, draw: drawRow });
  const head = h('div', { class: 'row head', role: 'row' }, ['Group', 'Project', 'Composite app', 'State', 'Progress', 'Health', 'Since'].map((c) => h('span', { role: 'columnheader' }, c)));
  const table = h('div', { class: 'table groups', role: 'table', 'aria-label': 'Deployment intent groups' }, h('div', { role: 'rowgroup' }, head), rows.element);
  const none = h('p', { class: 'empty' }, 'Reading…');
  const summary = h('span', { class: 'dim' });
  main.append(h('div', { class: 'title' }, h('h1', {}, 'Groups'), summary), h('div', { class: 'tools' }, chips.element, ill, h('span', { class: 'grow' }), search), table, none);
  table.hidden = true;

  function take(path, g) {
    const was = all.get(path);
    if (!g) { all.delete(path); return; }
    all.set(path, { path, names: namesOf(path).toLowerCase(), id: groupOf(path), g, state: stateOf(g), health: healthOf(g), stamp: (was?.stamp ?? 0) + 1 });
  }

  /** moved looks for what the address says; looked is called when somebody looks for something else. */
  function moved(to) {
    search.value = to.query.get('find') ?? '';
    words = search.value.trim().toLowerCase();
    chips.only = to.query.get('state') ?? '';
    ill.setAttribute('aria-pressed', String(to.query.get('ready') === 'no'));
    arrange();
  }
  function looked() {
    keep('groups', { find: search.value.trim(), state: chips.only, ready: ill.getAttribute('aria-pressed') === 'true' && 'no' });
    arrange();
  }

  function arrange() {
    if (!known) return;
    const counts = {};
    for (const x of all.values()) counts[x.state] = (counts[x.state] ?? 0) + 1;
    chips.show(counts);
    const sick = [...all.values()].filter((x) => x.health.state === 'notready').length;
    ill.hidden = !sick && ill.getAttribute('aria-pressed') !== 'true';
    text(ill, `${sick.toLocaleString('en')} not ready`);
    let list = [...all.values()];
    if (words) list = list.filter((x) => x.names.includes(words));
    if (chips.only) list = list.filter((x) => x.state === chips.only);
    if (ill.getAttribute('aria-pressed') === 'true') list = list.filter((x) => x.health.state === 'notready');
    list.sort((a, b) => (a.path < b.path ? -1 : 1));
    text(summary, wrong ? '' : count(all.size, 'group'));
    table.hidden = !list.length;
    none.hidden = list.length > 0;
    none.className = wrong ? 'wrong' : 'empty';
    table.setAttribute('aria-rowcount', String(list.length + 1));
    text(none, wrong || (all.size ? 'No group is like that now.' : 'There are no groups yet, or none that you may see. The command \u201cdrover deploy\u201d makes one of a chart, and \u201cdrover apply\u201d takes EMCO\u2019s files.'));
    rows.set(list);
  }

  function drawRow(row, x) {
    const { g, id } = x;
    fill(row,
      h('span', { role: 'cell', title: x.path }, h('a', { class: 'strong', href: pageOf(x.path) }, id?.name ?? x.path), h('span', { class: 'dim place' }, placeOf(x.path))), // where a phone has no columns for it
      h('span', { role: 'cell', class: 'dim' }, id?.project ?? ''),
      h('span', { role: 'cell', class: 'dim' }, id ? `${id.app} ${id.version}` : ''),
      h('span', { role: 'cell', class: `state is-${x.state}`, title: g.reason ?? '' }, icon(x.state), h('span', {}, g.contextStatus || g.state)),
      h('span', { role: 'cell' }, bar(g.counts)),
      h('span', { role: 'cell', class: x.health.state ? `state is-${x.health.state}` : '', title: sayHealth(g.health) }, x.health.state ? [icon(x.health.state), h('span', {}, x.health.words), h('span', { class: 'dim' }, x.health.n)] : ''),
      h('span', { role: 'cell', class: 'dim' }, when(g.since)));
  }

  const fail = (problem) => {
    wrong = problem.message;
    known = true;
    all = new Map();
    arrange();
  };
  const over = (problem) => {
    if (problem.status === 403 || problem.status === 404) { // what may be seen is less than the fleet
      life.poll(5000, async (signal) => {
        const found = [];
        for await (const page of pages('deployment-intent-groups', {}, signal)) found.push(...page);
        return found;
      }, (found) => {
        wrong = '';
        known = true;
        const there = new Map(found.map((g) => [g.resource, g.status]));
        for (const path of [...all.keys()]) if (!there.has(path)) all.delete(path);
        for (const [path, g] of there) if (JSON.stringify(all.get(path)?.g) !== JSON.stringify(g)) take(path, g);
        arrange();
      }, fail);
      return;
    }
    fail(problem);
  };
  const soonAll = life.each(arrange); // of many changes in a frame all are shown at once
  life.watch('deployment-intent-groups', {}, {
    status: (doc) => {
      known = true;
      const old = all;
      all = new Map();
      for (const [path, g] of Object.entries(doc)) { all.set(path, old.get(path)); take(path, g); }
      arrange();
    },
    change: (doc) => {
      for (const [path, g] of Object.entries(doc)) take(path, g);
      soonAll();
    },
    over,
  });
  moved(at);
  return { moved };
}
