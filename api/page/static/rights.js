// What who looks may do: asked of the API (/v2/whoami), which decides it once more when something is asked for.

import { get } from './api.js';

const fresh = 20_000; // for how long an answer is good: what is withdrawn ends within 10 s, and the API refuses it in any case
const hurried = 5_000; // then nobody waits for an answer any longer: in trouble an operation must be offered
let kept = new Map(); // by question: { at, answer }, a promise of it: many ask the same at a time

/** forget is called when somebody else may look: what is on its way is of the one before, too. */
export function forget() { kept = new Map(); }

/** verbs of the operations on owners. */
const operations = ['approve', 'instantiate', 'update', 'rollback', 'migrate', 'stop', 'terminate'];

/** ownerOf reads of a resource's path which noun it is of and where it lies, null where it is no owner. */
export function ownerOf(key) {
  const words = key.split('/').map(decodeURIComponent);
  if (words[0] === 'projects' && words[2] === 'composite-apps' && words[5] === 'deployment-intent-groups') return { noun: words[5], project: words[1] };
  if (words[0] === 'projects' && words[2] === 'logical-clouds') return { noun: words[2], project: words[1] };
  if (words[0] === 'cluster-providers' && words[2] === 'clusters') return { noun: words[2], clusterProvider: words[1] };
  return null;
}

const nobody = {}; // is denied anything

const offered = { 'deployment-intent-groups': operations, 'logical-clouds': ['instantiate', 'stop', 'terminate', 'update'], clusters: ['stop', 'terminate'] };

/**
 * deniedOn answers with what one may not do to the resource: by verb { kind, why }, where kind is NotFound for what one may not know of
 * either. When it cannot be found out nothing is said to be denied: the API will say so.
 */
export async function deniedOn(key) {
  const owner = ownerOf(key);
  if (!owner) return {};
  const question = JSON.stringify(owner);
  const mine = kept;
  const known = mine.get(question);
  if (known && Date.now() - known.at < fresh) return known.answer;
  const answer = get('whoami', { ...owner, verb: offered[owner.noun] }, undefined, hurried).then(
    (said) => Object.fromEntries((said.rights?.[0]?.mayNot ?? []).map((d) => [d.verb, d])),
    () => {
      mine.delete(question);
      if (known) mine.set(question, known);
      return known?.answer ?? nobody;
    });
  mine.set(question, { at: Date.now(), answer });
  return answer;
}
