// The fleet: a tile for each cluster, and what runs on one.

import { get, now, pages, pathOf } from './api.js';
import { Chips } from './chips.js';
import { fill, h, icon, scroll, text } from './dom.js';
import { showExplanation } from './explain.js';
import { keep } from './filters.js';
import { operationsTable } from './operations.js';
import { Rows } from './rows.js';
import { bar, count, groupOf, namesOf, pageOf, span, when } from './words.js';

export function show(main, at, life) {
  if (at.words.length === 2) return showCluster(main, at.words[0], at.words[1], life);
  return showFleet(main, at, life);
}

const words = { retrying: 'Do not answer', unknown: 'Not heard of', ready: 'Heard', applied: 'Idle', gone: 'Never seen' };

/** stateOf is how a cluster is shown. */
function stateOf(s) {
  if (s.connectivity === 'Retrying') return 'retrying';
  if (s.heard) return 'ready';
  if (s.groups && s.report !== 'none') return 'unknown';
  return s.connectivity === 'Available' ? 'applied' : 'gone';
}

const tileWidth = 232;
const tileHeight = 92;
const gap = 8;
const soon = 14 * 86_400_000; // that a credential expires in: ExpiryNotice of the API

/** expiring says when a cluster's credentials expire, '' as long as nobody needs to do anything. */
function expiring(s) {
  if (!s.credentialsExpire) return '';
  const left = new Date(s.credentialsExpire).getTime() - now();
  if (left > soon) return '';
  return left <= 0 ? 'credentials have expired' : `credentials expire in ${span(Math.round(left / 1000))}`;
}

/**
 * makeTile makes an empty tile. Its parts are filled anew where they say something else: to make thousands of them takes too long. It is one
 * block of four lines, as each box that cuts off its text is painted apart.
 */
function makeTile() {
  const tile = h('div', { role: 'listitem' });
  const name = h('span', { class: 'strong' });
  const [where, what, last] = [1, 2, 3].map(() => h('span', { class: 'dim' }));
  const link = h('a', { class: 'tile' }, icon('gone'), name, '\n', where, '\n', what, '\n', last);
  tile.append(link);
  tile.parts = { link, name, where, what, last, icons: {}, path: '', state: '' };
  return tile;
}

/** groupsThere is how many groups a cluster has. What hangs or has failed are their operations, here or elsewhere: not this cluster. */
function groupsThere(s) {
  const of = [s.working && `${s.working} at work`, s.failed && `${s.failed} failed`].filter(Boolean).join(', ');
  return of ? `of its ${count(s.groups, 'group')} ${of}` : count(s.groups, 'group');
}

/** sinceWhen is what is said of a cluster that work or watches cannot reach before the time of it, and that; nothing where there is none. */
function sinceWhen(s) {
  if (s.unreachableSince) return ['stopped answering ', s.unreachableSince];
  if (s.heard) return [];
  if (s.lastHeard) return ['last heard ', s.lastHeard];
  return ['registered ', s.triedAt];
}

function drawTile(tile, c) {
  const { status, state } = c;
  const p = tile.parts;
  if (p.path !== c.path) {
    p.path = c.path;
    p.link.href = `#/fleet/${encodeURIComponent(c.provider)}/${encodeURIComponent(c.name)}`;
    text(p.name, c.name);
  }
  if (p.state !== state) {
    p.state = state;
    p.link.className = `tile is-${state}`;
    p.link.firstChild.replaceWith(p.icons[state] ??= icon(state, words[state]));
  }
  if (p.link.title !== (status.reason ?? '')) p.link.title = status.reason ?? '';
  text(p.where, [c.provider, status.version, status.report].filter(Boolean).join(' \u00b7 '));
  text(p.what, groupsThere(status));
  const labels = (status.labels ?? []).join(', ');
  const ends = expiring(status);
  const kind = ends ? 'warn' : 'dim';
  if (p.last.className !== kind) p.last.className = kind;
  const [began, since] = ends ? [] : sinceWhen(status);
  if (since) fill(p.last, began, when(since), status.reason ? `: ${status.reason}` : '');
  else text(p.last, ends || (status.heard ? labels : status.reason || labels));
}

function showFleet(main, at, life) {
  let all = new Map();
  let wanted = '';
  let width = 0;
  let found = [];
  let wrong = ''; // why nothing can be shown
  let known = false;
  let wish = {}; // what is chosen of the selects by their names, also while it is not there to be chosen
  const chips = new Chips(words, 'Show only clusters that are', () => looked());
  const select = (name, label) => h('select', { name, 'aria-label': label, on: { change: (e) => { wish[name] = e.target.value; looked(); } } });
  const providers = select('provider', 'Provider');
  const labels = select('label', 'Label');
  const reports = select('report', 'Report');
  const keys = h('button', { type: 'button', 'aria-pressed': 'false', hidden: true, on: { click: () => { keys.setAttribute('aria-pressed', String(keys.getAttribute('aria-pressed') !== 'true')); looked(); } } });
  const search = h('input', { type: 'search', class: 'search', placeholder: 'Find clusters', 'aria-label': 'Find clusters by name or version', on: { input: () => { wanted = search.value.trim().toLowerCase(); looked(); } } });
  const summary = h('span', { class: 'dim' });
  const none = h('p', { class: 'empty' }, 'Reading\u2026');
  const rows = new Rows(life, { height: tileHeight + gap, gap, label: 'Clusters', roles: ['list', 'listitem'], key: (c) => c.path, make: makeTile, draw: drawTile });
  rows.element.classList.add('tiles');
  main.append(h('div', { class: 'title' }, h('h1', {}, 'Fleet'), summary), h('div', { class: 'tools' }, chips.element, keys, h('span', { class: 'grow' }), providers, labels, reports, search), rows.element, none);
  rows.element.hidden = true;

  function options(select, name, values) {
    const key = values.join();
    const had = wish[select.name] ?? '';
    if (select.dataset.key === key && select.options.length) return;
    fill(select, h('option', { value: '' }, name), values.map((v) => h('option', { value: v }, v)));
    select.value = values.includes(had) ? had : '';
    select.dataset.key = key;
  }

  /** moved looks for what the address says; looked is called when somebody looks for something else. */
  function moved(to) {
    search.value = to.query.get('find') ?? '';
    wanted = search.value.trim().toLowerCase();
    chips.only = to.query.get('state') ?? '';
    keys.setAttribute('aria-pressed', String(to.query.has('expiring')));
    wish = Object.fromEntries([providers, labels, reports].map((s) => [s.name, to.query.get(s.name) ?? '']));
    for (const s of [providers, labels, reports]) s.value = [...s.options].some((o) => o.value === wish[s.name]) ? wish[s.name] : '';
    arrange();
  }
  function looked() {
    keep('fleet', { find: search.value.trim(), state: chips.only, expiring: keys.getAttribute('aria-pressed') === 'true' && 'yes', ...wish });
    arrange();
  }

  function arrange() {
    if (!known) return;
    const counts = {};
    for (const c of all.values()) counts[c.state] = (counts[c.state] ?? 0) + 1;
    chips.show(counts);
    const ending = [...all.values()].filter((c) => expiring(c.status)).length;
    const only = keys.getAttribute('aria-pressed') === 'true';
    keys.hidden = !ending && !only;
    text(keys, `${ending} with credentials that expire`);
    found = [...all.values()].filter((c) => (!chips.only || c.state === chips.only) && (!wanted || c.words.includes(wanted))
      && (!providers.value || c.provider === providers.value) && (!labels.value || c.status.labels?.includes(labels.value))
      && (!reports.value || c.status.report === reports.value) && (!only || expiring(c.status)));
    text(summary, wrong ? '' : count(all.size, 'cluster'));
    rows.element.hidden = !found.length;
    none.hidden = found.length > 0;
    none.className = wrong ? 'wrong' : 'empty';
    text(none, wrong || (all.size ? 'No cluster is like that now.' : 'No cluster is registered, or none that you may see. The command \u201cdrover cluster add\u201d registers one.'));
    lay();
  }

  /** lay has as many tiles in a line as there is room for. */
  function lay() {
    width ||= main.clientWidth;
    rows.set(found, Math.max(1, Math.floor(width / tileWidth)));
  }
  // The width is told, and not asked for: after each letter of a filter that would have the whole page laid out at once.
  const observer = new ResizeObserver(() => {
    const now = rows.element.clientWidth || main.clientWidth;
    if (now === width) return;
    width = now;
    lay();
  });
  observer.observe(main);
  life.onEnd(() => observer.disconnect());

  /** take notes where a cluster stands, null for one that is gone; what is said again is the same. */
  function take(path, status, was) {
    if (!status) { all.delete(path); return; }
    const [, provider, , name] = path.split('/');
    const said = JSON.stringify(status);
    all.set(path, was?.said === said ? was : { path, provider, name, status, words: `${namesOf(path)} ${status.version ?? ''}`.toLowerCase(), state: stateOf(status), said, stamp: (was?.stamp ?? 0) + 1 });
  }

  function choices() {
    const clusters = [...all.values()];
    options(providers, 'All providers', [...new Set(clusters.map((c) => c.provider))].sort());
    options(labels, 'All labels', [...new Set(clusters.flatMap((c) => c.status.labels ?? []))].sort());
    options(reports, 'All reports', [...new Set(clusters.map((c) => c.status.report))].sort());
    arrange();
  }

  /** taken takes all of them, as pairs of path and status, sorted by path. */
  function taken(pairs) {
    wrong = '';
    known = true;
    const old = all;
    all = new Map();
    for (const [path, status] of pairs) take(path, status, old.get(path));
    choices();
  }

  const fail = (problem) => {
    wrong = problem.message;
    known = true;
    all = new Map();
    choices();
  };
  const over = (problem) => {
    if (problem.status === 403 || problem.status === 404) { // what may be seen is less than the fleet
      life.poll(5000, async (signal) => {
        const list = [];
        for await (const page of pages('clusters', {}, signal)) list.push(...page);
        return list;
      }, (list) => taken(list.map((c) => [c.resource, c.status])), fail);
      return;
    }
    fail(problem);
  };
  const soonAll = life.each(choices); // of many changes in a frame all are shown at once
  life.watch('clusters', {}, {
    status: (doc) => taken(Object.entries(doc)),
    change: (doc) => {
      const more = Object.keys(doc).some((path) => doc[path] && !all.has(path));
      for (const [path, status] of Object.entries(doc)) take(path, status, all.get(path));
      if (more) all = new Map([...all].sort(([a], [b]) => (a < b ? -1 : 1)));
      soonAll();
    },
    over,
  });
  life.every(60_000, () => { for (const c of all.values()) if (c.status.credentialsExpire) c.stamp++; arrange(); }); // a time may come near
  moved(at);
  return { moved };
}

function showCluster(main, provider, name, life) {
  const key = pathOf('cluster-providers', provider, 'clusters', name);
  const state = h('span', { class: 'state' });
  const why = h('section', { class: 'why', 'aria-label': 'Where it stands', hidden: true });
  const body = h('div', {}, h('p', { class: 'dim' }, 'Reading\u2026'));
  main.append(h('p', { class: 'crumbs' }, h('a', { href: '#/fleet' }, 'Fleet'), ` / ${provider}`), h('div', { class: 'title' }, h('h1', {}, name), state), why, body);
  let last = '';
  life.poll(4000, async (signal) => {
    const unread = (e) => ({ unread: `could not be read: ${e.message}` });
    const [explanation, full, operations, labels] = await Promise.all([
      get(`${key}/explain`, { output: 'json' }, signal), get(`${key}/status`, { view: 'full' }, signal),
      get('operations', { cluster: `${provider}+${name}`, limit: 20 }, signal).then((list) => list.items ?? [], unread),
      get(`${key}/labels`, {}, signal).then((list) => (list ?? []).map((l) => l.clusterLabel ?? l.metadata?.name), unread),
    ]);
    return { explanation, full, operations, labels };
  }, (answer) => {
    if (answer.full.heard) delete answer.full.lastHeard; // another one with each pulse, and it is not shown
    const said = JSON.stringify(answer);
    if (said === last) return;
    last = said;
    const { explanation, full, operations, labels } = answer;
    const shown = stateOf({ ...full, groups: (full.deployments ?? []).filter((d) => groupOf(d.resource)).length }); // as the fleet counts them: logical clouds and networks are none
    state.className = `state is-${shown}`;
    fill(state, icon(shown), h('span', {}, { retrying: 'Does not answer', unknown: 'Not heard of', ready: 'Heard', applied: 'Idle', gone: 'Never seen' }[shown]));
    showExplanation(why, explanation);
    fill(body,
      h('p', { class: 'dim facts' }, labels.unread ? `Labels ${labels.unread} \u00b7 ` : labels.length ? `Labels: ${labels.join(', ')} \u00b7 ` : '', `Reports: ${full.report}`, full.lastHeard && !full.heard ? [' \u00b7 last heard ', when(full.lastHeard)] : null, full.unheard ? ` \u00b7 ${full.unheard}` : '',
        full.tried ? [` \u00b7 registration tried `, when(full.tried.at), full.tried.error ? `: ${full.tried.error}` : full.tried.version ? ` (Kubernetes ${full.tried.version})` : ''] : null),
      full.credentialsExpire ? h('p', { class: expiring(full) ? 'warn' : 'dim' }, `Its credentials expire at ${new Date(full.credentialsExpire).toLocaleString()}${expiring(full) ? `. Replace them: drover cluster rotate ${name}; or, where cluster add has not made them, PUT a kubeconfig with the same rights.` : '.'}`) : null,
      h('h2', {}, 'What runs there'),
      full.deployments?.length ? scroll(h('table', {},
        h('thead', {}, h('tr', {}, ['What', 'State', 'App', 'Resources', 'Why'].map((c) => h('th', { scope: 'col' }, c)))),
        h('tbody', {}, full.deployments.flatMap((d) => (d.apps?.length ? d.apps : [null]).map((a, i) => h('tr', {},
          h('td', {}, i ? '' : [pageOf(d.resource) && d.resource !== key ? h('a', { class: 'strong', href: pageOf(d.resource) }, d.resource.split('/').pop()) : h('span', { class: 'strong' }, d.resource.split('/').pop()), h('span', { class: 'dim' }, ` ${d.kind}`)]),
          h('td', {}, i ? '' : h('span', { class: `state is-${d.asWished ? 'ready' : 'notready'}` }, icon(d.asWished ? 'ready' : 'notready'), h('span', {}, d.status || d.state))),
          h('td', {}, a?.app ?? ''), h('td', {}, a ? bar(a.resources) : ''), h('td', { class: 'long' }, a?.error || a?.reason || (i ? '' : d.asWished ? '' : d.summary)))))))) : h('p', { class: 'empty' }, 'Nothing runs here.'),
      h('h2', {}, 'Operations'), operations.unread ? h('p', { class: 'wrong' }, `They ${operations.unread}`) : operations.length ? operationsTable(operations, true) : h('p', { class: 'empty' }, 'None that Temporal still knows of.'));
  }, (p) => {
    last = '';
    why.hidden = true;
    fill(state);
    fill(body, h('p', { class: 'wrong' }, p.status === 404 ? 'There is no such cluster, or you may not see it.' : p.message));
  });
}
