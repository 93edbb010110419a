// Nouns that are lists and details: tenants, rules, status collectors, readiness rules.

import { get, pages, pathOf } from './api.js';
import { fill, h, icon, scroll } from './dom.js';
import { showExplanation } from './explain.js';
import { tryBox } from './tables.js';
import { count, groupOf, nameOf, sum, when, yaml } from './words.js';

const nouns = {
  tenants: {
    title: 'Tenants', of: 'tenants', one: 'tenant', explained: true,
    about: 'Whoever tells of the workloads of own clusters; what rules want for them is made in an infrastructure cluster.',
    more: async (key, signal) => get(`${key}/status`, {}, signal),
    columns: { Connection: (o, s) => h('span', { class: `state is-${s.connected ? 'ready' : 'unknown'}` }, icon(s.connected ? 'ready' : 'unknown'), h('span', {}, s.connected ? 'Connected' : 'Stale'), s.staleSince && !s.connected ? [' ', when(s.staleSince)] : null), Workloads: (o, s) => `${s.workloads}${s.held ? `, ${s.held} held` : ''}`, Matches: (o, s) => `${s.matches?.Applied ?? 0} of ${sum(s.matches)} made${s.due ? `, ${s.due} due` : ''}` },
    below: [['workload-rules', 'Rules'], ['hosts', 'Hosts']], matches: true, stands: true,
  },
  rules: { title: 'Rules', of: 'workload-rules', explained: true, matches: true, about: 'The operator’s rules: what is made for the workloads of all tenants.',
    columns: { 'Applies to': (o) => appliesTo(o.spec), Makes: (o) => madeOf(o.spec?.ruleTemplate) },
  },
  collectors: {
    title: 'Collectors', of: 'status-collectors', tries: true, inProjects: true, about: 'SELECTs over what all clusters report: the library of the fleet, and those of projects.',
    columns: { Of: (o) => o.project ?? 'the fleet', Columns: (o) => [...(o.spec?.groupBy ?? []), ...(o.spec?.combinedFields ?? []), ...(o.spec?.select ?? [])].map((c) => c.name).join(', '), State: (o) => (o.status?.errors?.length ? h('span', { class: 'wrong' }, o.status.errors[0]) : 'can be evaluated') },
  },
  readiness: {
    title: 'Readiness', of: 'readiness-rules', about: 'Rules of your own for when a kind is ready; of all other kinds kstatus decides.',
    columns: { Kind: (o) => `${o.spec?.kind ?? ''}${o.spec?.group ? `.${o.spec.group}` : ''} ${o.spec?.version ?? ''}`, 'Ready when': (o) => h('span', { class: 'mono' }, o.spec?.ready ?? '') },
  },
};

/** appliesTo says to which workloads a rule applies: its terms, of which one has to hold. */
function appliesTo(spec) {
  const one = (e) => `${e.key} ${e.operation}${e.values?.length ? ` ${e.values.join(', ')}` : ''}`;
  return [spec?.resourceType, (spec?.workloadTerms ?? []).map((t) => (t.matchExpressions ?? []).map(one).join(' and ')).join(' or ')].filter(Boolean).join(' with ');
}

/** madeOf is what a template makes, which may be written as text. */
function madeOf(template) {
  if (template && typeof template === 'object') return template.kind ?? '';
  return /"?kind"?:\s*"?([A-Za-z]+)/.exec(template ?? '')?.[1] ?? '';
}

/** viewOf is the view of one of them. */
export const viewOf = (name) => ({ show: (main, at, life) => show(main, at, life, name, nouns[name]) });

function show(main, at, life, name, noun) {
  const [project, one] = noun.inProjects && at.words.length === 2 ? at.words : ['', at.words[0]];
  if (one) return showOne(main, { one, project }, life, name, noun);
  const body = h('div', {}, h('p', { class: 'dim' }, 'Reading…'));
  main.append(h('div', { class: 'title' }, h('h1', {}, noun.title), h('span', { class: 'dim' }, noun.about)), body);
  if (noun.tries) main.append(trying(life));
  let last = '';
  let left = 0; // projects that are not asked
  life.poll(5000, async (signal) => {
    const [own, ofProjects] = await Promise.all([get(noun.of, {}, signal), noun.inProjects ? inProjects(noun, signal) : { list: [] }]);
    const list = [...own ?? [], ...ofProjects.list];
    left = ofProjects.left ?? 0;
    const more = noun.more ? await Promise.all(list.slice(0, mostAsked).map((o) => noun.more(pathOf(noun.of, o.metadata.name), signal).then((s) => ({ s }), (e) => ({ why: e.message })))) : [];
    return list.map((o, i) => [o, more[i]]);
  }, (rows) => {
    const said = JSON.stringify([rows, left]);
    if (said === last) return;
    last = said;
    const asked = left ? h('p', { class: 'dim' }, `Of ${count(left, 'project')} more the own ones are not asked for.`) : noun.more && rows.length > mostAsked ? h('p', { class: 'dim' }, `Of these ${count(rows.length, noun.one)} the first ${mostAsked} are asked where they stand.`) : null;
    fill(body, asked, rows.length ? scroll(h('table', {},
      h('thead', {}, h('tr', {}, ['Name', ...Object.keys(noun.columns), 'Description'].map((c) => h('th', { scope: 'col' }, c)))),
      h('tbody', {}, rows.map(([o, more]) => h('tr', {},
        h('td', {}, h('a', { class: 'strong', href: `#/${name}/${pathOf(...[o.project, o.metadata.name].filter(Boolean))}` }, o.metadata.name)),
        cells(noun, o, more), h('td', { class: 'dim' }, o.metadata.description ?? '')))))) : h('p', { class: 'empty' }, 'There are none, or none that you may see.'));
  }, (p) => { last = ''; fill(body, h('p', { class: 'wrong' }, p.message)); });
  return null;
}

/** cells are those of a row; more is what was asked about it beside the list: nothing beyond as many as are asked for. */
function cells(noun, o, more) {
  const columns = Object.values(noun.columns);
  if (!noun.more || more?.s) return columns.map((f) => h('td', {}, f(o, more?.s)));
  return h('td', { class: 'dim', colSpan: columns.length }, more ? `Not known: ${more.why}` : 'Not asked: open it to see');
}

/** inProjects are those that projects have of their own, as far as one may see them; left is how many projects are not asked. */
async function inProjects(noun, signal) {
  const unless = (e) => { if (e.status === 403 || e.status === 404) return []; throw e; };
  const projects = await get('projects', {}, signal).catch(unless) ?? [];
  const lists = await Promise.all(projects.slice(0, mostAsked).map(async ({ metadata: { name } }) => (
    (await get(pathOf('projects', name, noun.of), {}, signal).catch(unless) ?? []).map((o) => ({ ...o, project: name })))));
  return { list: lists.flat(), left: Math.max(0, projects.length - mostAsked) };
}

function showOne(main, { one, project }, life, name, noun) {
  const key = project ? pathOf('projects', project, noun.of, one) : pathOf(noun.of, one);
  const why = h('section', { class: 'why', 'aria-label': 'Where it stands', hidden: true });
  const body = h('div', {}, h('p', { class: 'dim' }, 'Reading…'));
  const below = h('div', {});
  main.append(h('p', { class: 'crumbs' }, h('a', { href: `#/${name}` }, noun.title)), h('div', { class: 'title' }, h('h1', {}, one), project ? h('span', { class: 'dim' }, `of project ${project}`) : null), why, body, below);
  let last = '';
  life.poll(5000, async (signal) => {
    const read = (path, query) => get(path, query, signal).catch((e) => { if (e.status === 403 || e.status === 404) return null; throw e; });
    const [document, explanation, stands, matches, ...parts] = await Promise.all([
      get(key, {}, signal), noun.explained ? read(`${key}/explain`, { output: 'json' }) : null, noun.stands ? read(`${key}/status`) : null,
      noun.matches ? read(`${key}/matches`, { limit: mostMatches }) : null, ...(noun.below ?? []).map(([path]) => read(`${key}/${path}`)),
    ]);
    return { document, explanation, stands, matches, parts };
  }, (answer) => {
    const said = JSON.stringify(answer);
    if (said === last) return;
    last = said;
    const open = new Set([...body.querySelectorAll('details[open]')].map((d) => d.dataset.key));
    if (answer.explanation) showExplanation(why, answer.explanation);
    if (noun.tries && !below.firstChild) fill(below, trying(life, yaml({ spec: answer.document.spec })));
    fill(body,
      answer.stands ? standing(answer.stands) : null,
      answer.matches ? [h('h2', {}, 'Matches'), matchesTable(answer.matches)] : null,
      (noun.below ?? []).map(([path, title], i) => (answer.parts[i]?.length ? [h('h2', {}, title), answer.parts[i].map((o) => part(pathOf(path, o.metadata.name), o, open))] : null)),
      h('h2', {}, 'As it is described'), h('pre', { tabIndex: 0, 'aria-label': one }, yaml(answer.document)));
  }, (p) => {
    last = '';
    why.hidden = true;
    fill(body, h('p', { class: 'wrong' }, p.status === 404 ? 'There is no such thing, or you may not see it.' : p.message));
  });
  return null;
}

/** part is something below what is shown, to be opened. */
const part = (key, o, open) => h('details', { dataset: { key }, open: open.has(key) }, h('summary', { class: 'strong' }, o.metadata.name), h('pre', { tabIndex: 0, 'aria-label': o.metadata.name }, yaml(o)));

/** trying is a box to try a collector in, on a group that is chosen; begin is the text that there is first. */
function trying(life, begin) {
  const groups = h('select', { 'aria-label': 'Group to try it on', disabled: true }, h('option', { value: '' }, 'Reading\u2026'));
  (async () => {
    const found = [];
    try {
      for await (const page of pages('deployment-intent-groups', {}, life.signal)) {
        found.push(...page.map((g) => g.resource));
        if (found.length >= mostGroups) break;
      }
    } catch (e) {
      if (!life.over) fill(groups, h('option', { value: '' }, e.message));
      return;
    }
    if (life.over) return;
    fill(groups, found.length ? found.map((path) => { const g = groupOf(path); return h('option', { value: path }, `${g.name} (${g.project} / ${g.app} ${g.version})`); }) : h('option', { value: '' }, 'There are no groups yet'));
    groups.disabled = !found.length;
  })();
  const keyOf = () => {
    if (!groups.value) throw new Error('A collector is tried on a group, and there is none.');
    return groups.value;
  };
  return h('section', { class: 'try' }, h('h2', {}, 'Try a collector'), h('p', {}, 'On the group ', groups), tryBox({ signal: life.signal, keyOf, begin }));
}

const mostGroups = 2000; // to choose one from
const mostMatches = 200;
const mostAsked = 50; // of a list, each with a request of its own
const shownAs = { Applied: 'applied', Pending: 'working', Retrying: 'retrying', Failed: 'failed', Deleted: 'gone' };

/** standing is where a tenant stands. */
function standing(s) {
  return h('p', { class: 'dim facts' }, s.connected ? ['Connected', s.since ? [', since ', when(s.since)] : null] : ['Not connected', s.staleSince ? [', since ', when(s.staleSince)] : null],
    ` \u00b7 ${count(s.workloads ?? 0, 'workload')}`, s.held ? `, ${s.held} held` : '', s.leftOutCount ? `, ${s.leftOutCount} left out` : '', s.due ? ` \u00b7 ${s.due} due` : '');
}

/** matchesTable shows what was made for which workload. */
function matchesTable(list) {
  if (!list.items?.length) return h('p', { class: 'empty' }, 'Nothing matches.');
  return [scroll(h('table', {},
    h('thead', {}, h('tr', {}, ['Workload', 'Rule', 'State', 'Object', 'Cluster', 'Reported', 'Why'].map((c) => h('th', { scope: 'col' }, c)))),
    h('tbody', {}, list.items.map((m) => h('tr', {},
      h('td', {}, m.workload, h('span', { class: 'dim' }, ` ${m.tenant}`)), h('td', {}, nameOf(m.rule)),
      h('td', {}, h('span', { class: `state is-${shownAs[m.state] ?? 'unknown'}` }, icon(shownAs[m.state] ?? 'unknown'), h('span', {}, m.wanted ? m.state : `${m.state}, to go`))),
      h('td', {}, m.object ? `${m.object.kind} ${m.object.namespace}/${m.object.name}` : ''), h('td', {}, m.cluster ?? ''),
      h('td', {}, m.reported?.state ?? ''), h('td', { class: 'long' }, m.reason || m.reported?.message || m.reported?.doubt || '', m.dueSince ? [' due ', when(m.dueSince)] : null)))))),
    list.continue ? h('p', { class: 'dim' }, `the first ${mostMatches} of them`) : null, list.beyond ? h('p', { class: 'warn' }, `${count(list.beyond, 'workload')} more match than the rule may have matches`) : null];
}
