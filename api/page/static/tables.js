// Combined status: tables over what all clusters report of an object, and a box to try a collector in.

import { evaluate, get } from './api.js';
import { fill, h, scroll } from './dom.js';
import { count, when } from './words.js';

const together = 'drover.io'; // the API group of a document of all objects of an app
const every = 5; // seconds between two looks at tables
const example = `spec:
  select:
  - {name: cluster, def: inventory.name}
  - {name: ready, def: returned.status.readyReplicas}
tests:
  kinds: [Deployment]
`;

/** showTables fills body as long as life and signal last. */
export function showTables(body, key, life, signal) {
  const tables = h('div', {}, h('p', { class: 'dim' }, 'Reading\u2026'));
  fill(body, tables, h('h2', {}, 'Try a collector'), tryBox({ signal, keyOf: () => key }));
  // The group's status is a stream already, and a browser has six connections to a host for all its tabs: a second one is not worth it.
  let last = '';
  const again = life.poll(every * 1000, async (s) => {
    const list = await get(`${key}/combined-status`, {}, s);
    return { items: list.items ?? [], none: list.items?.length ? '' : await whyNone(key, 'No status intent of this group asks for a table of an object that it has.', s) };
  }, (list) => {
    const said = JSON.stringify(list);
    if (said === last || signal.aborted) return;
    last = said;
    const open = new Set([...tables.querySelectorAll('details[open]')].map((d) => d.dataset.key));
    fill(tables, h('p', { class: 'dim' }, `Read every ${every} seconds.`), list.none ? h('p', { class: 'empty' }, list.none) : tablesOf(list, open));
  }, (p) => { last = ''; fill(tables, h('p', { class: 'wrong' }, p.message)); });
  signal.addEventListener('abort', () => again.end(), { once: true });
}

/** tryBox is where a collector is evaluated once, on the group whose path keyOf gives; begin is the text that there is first. */
export function tryBox({ signal, keyOf, begin }) {
  const text = h('textarea', { rows: 9, spellcheck: false, class: 'mono', 'aria-label': 'A status collector' });
  text.value = begin ?? example;
  const answer = h('div', { role: 'status' });
  const button = h('button', { type: 'button', class: 'primary' }, 'Try it');
  button.addEventListener('click', async () => {
    button.disabled = true;
    fill(answer, h('p', { class: 'dim' }, 'Evaluating\u2026'));
    try {
      const key = keyOf();
      const list = await evaluate(`${key}/combined-status/query`, text.value, signal);
      fill(answer, list.items?.length ? tablesOf(list) : h('p', { class: 'empty' }, await whyNone(key, 'No object of the group is like that.', signal)));
    } catch (e) {
      if (!signal.aborted) fill(answer, h('p', { class: 'wrong' }, e.message), e.fields?.length ? h('ul', { class: 'tight wrong' }, e.fields.map((f) => h('li', {}, `${f.field}: ${f.message}`))) : null);
    }
    button.disabled = false;
  });
  return h('div', {},
    h('p', { class: 'dim' }, 'A SELECT over what clusters report now, in YAML: groupBy with combinedFields, or select; expressions are CEL over returned, inventory, obj and propagation. Nothing is stored.'),
    text, h('p', {}, button), answer);
}

/** whyNone says why there are no tables of a group; otherwise too where its status cannot be had. */
async function whyNone(key, otherwise, signal) {
  const over = ({ deployedStatus: status }) => !status || status === 'Terminated' || status === 'Updated';
  return await get(`${key}/status`, { output: 'summary' }, signal).then(over, () => false) ? 'The group has nothing in clusters, so that there are no tables.' : otherwise;
}

/** tablesOf are the tables of a list; open has the keys of what has been opened in them. */
function tablesOf(list, open = new Set()) {
  return list.items.map((i) => {
    const label = (name) => i.metadata.annotations?.[`status.kubestellar.io/${name}`] ?? i.metadata.labels?.[`status.kubestellar.io/${name}`] ?? ''; // a label may be cut
    const group = label('api-group');
    const resource = label('resource') + (group && group !== together ? `.${group}` : '');
    const name = (label('namespace') && `${label('namespace')}/`) + label('name');
    const app = i.metadata.annotations?.['drover.io/app'] ?? '';
    const more = (what, ...children) => {
      const key = `${app} ${resource} ${name} ${what}`;
      return h('details', { dataset: { key }, open: open.has(key) }, ...children);
    };
    return h('section', {},
      h('h2', {}, `${resource} ${name}`, h('span', { class: 'dim' }, ` ${app} · reported by ${i.inputs.reported} of ${count(i.inputs.clusters, 'cluster')}`)),
      i.inputs.unconfirmed?.length ? more('unheard', h('summary', { class: 'warn' }, `${count(i.inputs.stale, 'cluster')} not heard of now`), h('ul', { class: 'tight' }, i.inputs.unconfirmed.map((u) => h('li', {}, `${u.clusterId}: ${u.reason}`, u.since ? [', since ', when(u.since)] : null)))) : null,
      i.results.map((r) => h('div', {},
        h('h3', {}, r.name),
        (r.errors ?? []).map((e) => h('p', { class: 'wrong' }, e)), (r.warnings ?? []).map((w) => h('p', { class: 'warn' }, w)),
        scroll(h('table', {},
          h('thead', {}, h('tr', {}, r.columnNames.map((c) => h('th', { scope: 'col' }, c)))),
          h('tbody', {}, r.rows.map((row) => h('tr', {}, row.columns.map((c) => h('td', { class: c.type === 'Number' ? 'number' : c.type === 'Null' ? 'dim' : '' }, valueOf(c)))))))),
        r.truncated ? h('p', { class: 'dim' }, `${r.rows.length} of ${r.totalRows} rows`) : null,
        r.totalRowErrors ? more(`values ${r.name}`, h('summary', { class: 'warn' }, `${count(r.totalRowErrors, 'value')} could not be told`), h('ul', { class: 'tight' }, (r.rowErrors ?? []).map((e) => h('li', {}, `${placeOfRow(e)}, ${e.columnName || 'the filter'}: ${e.error}`)))) : null,
        r.aggregationErrors?.length ? more(`aggregates ${r.name}`, h('summary', { class: 'warn' }, 'Not all values count in the aggregates'), h('ul', { class: 'tight' }, r.aggregationErrors.map((e) => h('li', {}, `${e.columnName}: ${e.error}`)))) : null)));
  });
}

/** placeOfRow is the cluster of a row, with the object in a table of several. */
const placeOfRow = (e) => (e.object ? `${e.object} on ${e.wec.clusterId}` : e.wec.clusterId);

function valueOf(c) {
  switch (c.type) {
    case 'String': return c.string ?? '';
    case 'Number': return c.float ?? '';
    case 'Bool': return String(c.bool ?? false);
    case 'Null': return 'Null';
    default: return JSON.stringify(c.object ?? c.array);
  }
}
