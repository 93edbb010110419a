// One group: what is asked of it and why it is not so yet, its matrix, its history, where it would go.

import { foresee, get, pages, pathOf } from './api.js';
import { showCell } from './cell.js';
import { buttons, operate } from './dialog.js';
import { read as readDiff, whole } from './diff.js';
import { link, showExplanation } from './explain.js';
import { fill, h, icon, scroll, text } from './dom.js';
import { Matrix } from './matrix.js';
import { deniedOn } from './rights.js';
import { operationsTable } from './operations.js';
import { showTables } from './tables.js';
import { clock, count, pageOf, stateOfContext, sum, when } from './words.js';

const tabs = { matrix: 'Matrix', tables: 'Tables', history: 'History', changes: 'What would change', placement: 'Where it would go' };

const absent = 10_000; // how often it is asked whether there is a group by now

export function show(main, at, life) {
  const [project, app, version, name] = at.words;
  const key = pathOf('projects', project, 'composite-apps', app, version, 'deployment-intent-groups', name);
  const here = pageOf(key);
  const hrefOf = (cellApp, cluster) => `${here}?cell=${encodeURIComponent(`${cellApp}/${cluster}`)}`;
  const matrix = new Matrix(life, { href: hrefOf });
  let doc = null; // of the status, without its apps
  let last = null; // explanation
  let denied = {}; // what who looks may not do, by operation
  let tab = ''; // that is looked at
  let cell = null; // that is open
  let gone = false; // whether there is no such group

  const state = h('span', { class: 'state' });
  const facts = h('span', { class: 'dim facts' });
  const actions = h('div', { class: 'actions' });
  const why = h('section', { class: 'why', 'aria-label': 'Where it stands', hidden: true });
  const bar = h('nav', { class: 'tabs', 'aria-label': 'What to look at' }, Object.entries(tabs).map(([t, words]) => h('a', { href: t === 'matrix' ? here : `${here}?tab=${t}`, dataset: { tab: t } }, words)));
  const body = h('div', { class: 'body' });
  const aside = h('aside', { class: 'cellbox', hidden: true, 'aria-label': 'A cell of the matrix' });
  main.append(
    h('p', { class: 'crumbs' }, h('a', { href: '#/groups' }, 'Groups'), ` / ${project} / ${app} ${version}`),
    h('div', { class: 'title' }, h('h1', {}, name), state, facts, h('span', { class: 'grow' }), actions),
    why, bar, h('div', { class: 'split' }, body, aside));

  const group = {
    key,
    revisions: () => revisionsOf(doc?.states?.actions ?? []).filter((r) => !r.now),
  };

  // Why it is not as it was asked to be, anew when something has changed.
  const explainAgain = life.poll(10_000, (signal) => Promise.all([get(`${key}/explain`, { output: 'json' }, signal), deniedOn(key)]), ([e, d]) => explain(e, d), (p) => { last = null; why.hidden = false; fill(why, h('p', { class: 'wrong' }, p.message)); });
  let soon = 0;
  const changed = () => { if (!soon) soon = setTimeout(() => { soon = 0; if (!life.over) explainAgain(); }, 400); };

  function explain(e, d) {
    if (JSON.stringify([last, denied]) === JSON.stringify([e, d])) return;
    const had = actions.contains(document.activeElement) ? document.activeElement.dataset.operation : '';
    const others = last?.may?.join() !== e.may?.join() || JSON.stringify(denied) !== JSON.stringify(d);
    denied = d;
    if (others) fill(actions, buttons(e.may, denied, group, changed));
    if (had) actions.querySelector(`[data-operation="${had}"]`)?.focus();
    last = e;
    showExplanation(why, e, hrefOf);
    if (others && tab === 'history') showTab(); // which has a button for each revision that one may go back to
  }

  function head() {
    const status = doc.deployedStatus ?? '';
    const actionsOf = doc.states?.actions ?? [];
    const now = actionsOf[actionsOf.length - 1];
    const shown = stateOfContext(status);
    state.className = `state is-${shown}`;
    const ready = readyWords(doc, shown);
    fill(state, icon(shown), h('span', {}, status || now?.state || ''), ready ? h('span', { class: 'dim' }, ` and ${ready}`) : null);
    fill(facts, now?.revision ? `revision ${now.revision} · ` : '', now ? when(now.time) : null);
  }

  const only = (d, names) => Object.fromEntries(names.filter((n) => n in d).map((n) => [n, d[n]]));
  /**
   * standing is what was asked for and what came of it: a tab that was read once is read again when that is another one. What describes the
   * group is not in it, so that such a tab says when it was read.
   */
  const standing = () => JSON.stringify([doc.states, doc.deployedStatus]);
  const again = () => { if (['history', 'changes', 'placement'].includes(tab)) showTab(); };
  const members = ['states', 'deployedStatus', 'readyStatus', 'readyCounts', 'unconfirmedClusters', 'warnings'];
  life.watch(`${key}/status`, { status: 'ready', output: 'counts' }, {
    status: (d) => {
      const before = doc && standing();
      doc = only(d, members);
      matrix.take(d);
      head();
      changed();
      if (before !== standing() && (before || tab === 'history')) again();
      cell?.changed();
    },
    change: (d) => {
      const before = standing();
      for (const m of members) if (m in d) doc[m] = d[m] === null ? undefined : d[m];
      const touched = matrix.change(d);
      if (members.some((m) => m in d)) head();
      if (before !== standing()) again();
      changed();
      if (cell && touched.includes(cell.of)) cell.changed();
    },
    back: (since) => reread?.(since),
    over: (problem) => {
      life.clear();
      gone = true;
      fill(main, h('p', { class: 'crumbs' }, h('a', { href: '#/groups' }, 'Groups')), h('h1', {}, name),
        h('p', { class: 'wrong' }, problem.status === 404 ? 'There is no such group, or it has been deleted, or you may not see it.' : problem.message));
      if (problem.status === 404) setTimeout(seek, absent);
    },
  });

  /** seek waits until there is such a group: somebody may make it again, and a proxy says 404 for an API that is away. */
  function seek() {
    if (life.over) return;
    life.poll(absent, (signal) => get(key, {}, signal), anew, () => {});
  }

  /** anew has all of it shown again. */
  function anew() {
    life.end();
    dispatchEvent(new Event('hashchange'));
  }

  // What is looked at.
  let ending = null;
  let reread = null; // has what was read once read again, unless that was asked for since a time
  let before; // how many steps back it is from the cell that is open to where none was, 0 where that is not known
  let left = null; // where the keyboard was before a cell was opened
  let closing = false; // the address of a cell is being left

  function showTab() {
    ending?.abort();
    ending = new AbortController();
    reread = null;
    if (tab === 'matrix') fill(body, matrix.element);
    else if (tab === 'history') reread = showHistory(body, key, doc, ending.signal, (revision) => operate('rollback', group, changed, revision), () => (last?.may ?? []).filter((op) => !denied[op]));
    else if (tab === 'tables') showTables(body, key, life, ending.signal);
    else if (tab === 'changes') reread = asOf(body, tabs.changes, 'Rendering and placing, as an approve does', 'What an update, or where nothing runs an instantiate, would do. It compares with what Drover has applied, and nothing is done.', (s) => readDiff(key, {}, s), (d, s) => whole(key, {}, d, s), ending.signal);
    else reread = asOf(body, tabs.placement, 'Rendering and placing, as an approve does', 'Where an instantiate would put what. Nothing is done.', (s) => foresee(`${key}/preview`, {}, s), placement, ending.signal);
  }
  life.onEnd(() => ending?.abort());
  life.listen(document, 'visibilitychange', () => { if (!document.hidden) reread?.(Date.now()); });

  /** close leaves the address of a cell: to where one has come from to the first of those that were looked at, if that is known. */
  function close() {
    if (closing) return; // a key that is held, or pressed twice, goes no further back
    closing = true;
    setTimeout(() => { closing = false; }, 1000); // if the browser does not go there
    const steps = history.state?.cells;
    if (steps) history.go(-steps);
    else location.replace(here);
  }

  function moved(to, first) {
    closing = false;
    if (gone) { anew(); return; }
    const wanted = Object.hasOwn(tabs, to.query.get('tab') ?? '') ? to.query.get('tab') : 'matrix';
    if (wanted !== tab) {
      tab = wanted;
      for (const a of bar.children) {
        if (a.dataset.tab === tab) {
          a.setAttribute('aria-current', 'page');
          a.scrollIntoView({ block: 'nearest', inline: 'nearest' });
        } else a.removeAttribute('aria-current');
      }
      showTab();
      matrix.rows.soon();
    }
    const of = to.query.get('cell') ?? '';
    if (cell?.of === of) return;
    const was = cell;
    cell?.end();
    cell = null;
    aside.hidden = !of;
    if (!of) {
      before = undefined;
      if (!was) return;
      // What the keyboard was on may be gone, or be of another cluster: rows are.
      if (left.from.href === left.to) left.from.focus({ preventScroll: true });
      if (document.activeElement !== left.from && tab === 'matrix') matrix.go(was.app, was.cluster);
      left = null;
      return;
    }
    if (history.state?.cells === undefined) history.replaceState({ ...history.state, cells: first || before === 0 ? 0 : (before ?? 0) + 1 }, '');
    before = history.state.cells;
    left ??= { from: document.activeElement, to: document.activeElement.href };
    const cut = of.indexOf('/');
    cell = showCell(aside, life, { key, app: of.slice(0, cut), cluster: of.slice(cut + 1), back: here, close, matrix });
    Object.assign(cell, { of, app: of.slice(0, cut), cluster: of.slice(cut + 1) });
  }
  life.listen(document, 'keydown', (e) => { if (e.key === 'Escape' && cell && !document.querySelector('dialog[open]')) close(); });
  moved(at, true);
  return { moved };
}

/** readyWords say whether what a group has in clusters is ready; nothing where it has nothing there. */
function readyWords(doc, shown) {
  if (!doc.readyStatus || shown === 'gone') return '';
  if (doc.readyStatus === 'Ready') return 'ready';
  return doc.unconfirmedClusters && (doc.readyCounts?.Ready ?? 0) === sum(doc.readyCounts) ? 'not confirmed' : 'not ready';
}

/** revisionsOf are those that a rollback can go to, the last first; now is the one that there is. What a migrate has made is revision 0. */
function revisionsOf(actions) {
  const found = [];
  for (let i = actions.length - 1; i >= 0; i--) {
    if (actions[i].state !== 'Instantiated') continue;
    found.push({ ...actions[i], revision: actions[i].revision ?? 0, action: actions[i], now: !found.length });
    if (actions[i - 1]?.state !== 'Updated') break; // what was before is of another instance
  }
  return found;
}

/** runOf is the operation by which an action was done, as far as Temporal still knows of it: of those on its instance the one that it names. */
function runOf(action, operations) {
  const of = operations.filter((o) => action.instance && o.instance === action.instance);
  return of.find((o) => (o.detail || o.operation) === action.operation) ?? of.find((o) => o.operation === action.operation) ?? (of.length === 1 ? of[0] : undefined);
}

/** showHistory is what was asked for, by whom, and what came of it. It returns what has the operations read again, see asOf. */
function showHistory(body, key, doc, signal, rollback, may) {
  const actions = [...(doc?.states?.actions ?? [])].reverse();
  const possible = new Map(revisionsOf(doc?.states?.actions ?? []).filter((r) => !r.now).map((r) => [r.action, r.revision]));
  const runs = h('div', {});
  const ran = actions.map(() => h('td', {})); // the run of each, once it is known
  fill(body,
    h('h2', {}, 'What was asked for'),
    scroll(h('table', {},
      h('thead', {}, h('tr', {}, ['When', 'State', 'What', 'By', 'Revision', 'Instance', 'Run', ''].map((c) => h(c ? 'th' : 'td', c ? { scope: 'col' } : {}, c)))),
      h('tbody', {}, actions.map((a, i) => h('tr', {},
        h('td', {}, when(a.time)), h('td', {}, a.state), h('td', {}, a.operation ?? ''), h('td', {}, a.requestedBy ?? ''), h('td', {}, a.state === 'Instantiated' || a.revision ? String(a.revision ?? 0) : ''),
        h('td', { class: 'mono' }, a.instance ?? ''), ran[i],
        h('td', {}, possible.has(a) && may().includes('rollback') ? h('button', { type: 'button', class: 'small', on: { click: () => rollback(possible.get(a)) } }, `Roll back to ${possible.get(a)}`) : null)))))),
    runs);
  return asOf(runs, 'Operations', 'Reading', null, async (s) => {
    const found = [];
    for await (const page of pages('operations', { owner: `/v2/${key}`, limit: 200 }, s)) {
      found.push(...page);
      if (found.length >= 200) break;
    }
    return found;
  }, (found) => {
    actions.forEach((a, i) => fill(ran[i], link(runOf(a, found)?.workflow?.link, 'run')));
    return found.length ? operationsTable(found) : h('p', { class: 'empty' }, 'None that Temporal still knows of.');
  }, signal);
}

/**
 * asOf fills body with what is asked for once, and says as of when it is: what it depends on is in no stream. It has a button to ask again,
 * and returns what asks again, too, unless that was done since a time. doing is what it says meanwhile; draw makes elements of the answer.
 */
function asOf(body, title, doing, about, ask, draw, signal) {
  let asked = 0;
  let read = ''; // what is said of the answer that is shown
  let control = null;
  const at = h('span', { class: 'dim', role: 'status' });
  const answer = h('div', {});
  const round = async () => {
    control?.abort();
    const mine = control = new AbortController();
    const either = AbortSignal.any([signal, mine.signal]);
    asked = Date.now();
    text(at, read ? `${read}; reading again\u2026` : `${doing}\u2026`);
    let shown;
    try {
      shown = draw(await ask(either), signal);
      read = `Read ${clock(asked)}`;
    } catch (e) {
      if (either.aborted) return;
      shown = h('p', { class: 'wrong' }, e.message);
      read = `Not read at ${clock(asked)}`;
    }
    if (either.aborted) return;
    control = null;
    text(at, read);
    fill(answer, shown);
  };
  fill(body, h('h2', {}, title), about && h('p', { class: 'dim' }, about), h('p', {}, at, ' ', h('button', { type: 'button', class: 'small', on: { click: () => { if (!control) round(); } } }, 'Read again')), answer);
  round();
  return (since) => { if (asked < since) round(); };
}

/** placement is where an instantiate would put what, as elements. */
function placement(p) {
  const resource = (r) => h('li', {}, h('b', {}, r.resource), r.absent ? ' is not there' : '', r.effects?.length ? `: ${r.effects.join('; ')}` : '', r.elsewhere?.length ? h('span', { class: 'dim' }, ` (elsewhere: ${r.elsewhere.join('; ')})`) : null);
  return [
    p.warnings?.length ? h('ul', { class: 'tight warn' }, p.warnings.map((w) => h('li', {}, w))) : null,
    p.apps.map((a) => h('section', {},
      h('h2', {}, a.app, h('span', { class: 'dim' }, ` ${count(a.resources, 'resource')} on ${count(a.clusters.length, 'cluster')}`)),
      scroll(h('table', {},
        h('thead', {}, h('tr', {}, ['Cluster', 'Taken because', 'Passed over'].map((c) => h(c ? 'th' : 'td', c ? { scope: 'col' } : {}, c)))),
        h('tbody', {}, a.clusters.slice(0, 500).map((c) => h('tr', {}, h('td', {}, c.cluster), h('td', {}, c.placement), h('td', { class: 'long' }, (c.passed ?? []).join('; '))))))),
      a.clusters.length > 500 ? h('p', { class: 'dim' }, `and ${count(a.clusters.length - 500, 'cluster')} more`) : null,
      a.effects?.length ? [h('h3', {}, 'What intents make of it'), h('ul', { class: 'tight' }, a.effects.map(resource))] : null,
      a.differences?.length ? [h('h3', {}, 'What some clusters get otherwise'), a.differences.map((d) => h('div', {}, h('p', {}, `${d.clusters.slice(0, 8).join(', ')}${d.clusters.length > 8 ? ` and ${d.clusters.length - 8} more` : ''}`), h('ul', { class: 'tight' }, d.resources.map(resource))))] : null)),
  ];
}

