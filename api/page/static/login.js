// Who one is, and how one becomes somebody: at a provider, which sends one back with a session, or by a token.

import { get, keepToken, token } from './api.js';
import { fill, h, text } from './dom.js';

const beside = (path) => new URL(path, document.baseURI.replace(/#.*/, '')); // of the API, not below it

/** offers are the providers at which one may log in here. Without an answer the token is left. */
async function offers() {
  try {
    const answer = await fetch(beside('login/providers'), { cache: 'no-store', credentials: 'same-origin', redirect: 'error', signal: AbortSignal.timeout(10_000) });
    if (answer.ok) return ((await answer.json()).providers ?? []).filter((p) => p.browser);
  } catch { /* the same */ }
  return [];
}

/** addressOf is where a login at a provider begins; it comes back to where one is now. */
function addressOf(issuer) {
  const url = beside('login');
  url.searchParams.set('issuer', issuer);
  if (location.hash.startsWith('#/')) url.searchParams.set('to', location.hash.slice(1));
  return url.href;
}

/** inSession says whether who asks has a session, of which the cookie is nothing that a script sees. */
const inSession = (me) => / sessions\/[0-9a-f]+$/.test(me?.by ?? '');

/** Person shows who one is, with a way out. */
export function person() {
  const name = h('span', { class: 'dim who' });
  const out = h('button', { class: 'quiet', type: 'button', on: { click: leave } }, 'Sign out');
  const box = h('span', { class: 'person', hidden: true }, name, ' ', out);
  let me = null, left = false;

  async function leave() {
    if (left) { location.reload(); return; }
    out.disabled = true;
    if (!token() && inSession(me)) {
      const answer = await fetch(beside('logout'), { method: 'POST', credentials: 'same-origin', redirect: 'error' }).catch(() => null);
      if (!answer || (!answer.ok && answer.status !== 401)) {
        text(name, 'The API has not ended the session: try again.');
        out.disabled = false;
        return;
      }
      const warning = answer.headers.get('Warning');
      if (warning) { // the session has ended here, and something of it stays good at the provider
        keepToken('');
        left = true;
        text(name, warning.replace(/^299 - "|"$/g, ''));
        text(out, 'Close');
        out.disabled = false;
        return;
      }
    }
    keepToken('');
    location.reload();
  }

  return {
    box,
    /** show is told who one is, null for nobody. */
    show(who) {
      if (left) return; // until one has read what is left
      me = who;
      box.hidden = !me?.name;
      out.hidden = !token() && !inSession(me);
      text(name, me?.name ?? '');
      name.title = me ? [me.by, (me.groups ?? []).join(', ')].filter(Boolean).join('; ') : '';
    },
  };
}

/** whoami is who the API takes one for. */
export const whoami = () => get('whoami');

/** ask asks who one is, and calls in when the API knows a token that was given. */
export function ask(into, why, enter) {
  const field = h('input', { type: 'password', id: 'token', name: 'token', autocomplete: 'off', spellcheck: false, required: true, 'aria-describedby': 'token-help' });
  const wrong = h('p', { class: 'wrong', role: 'alert' }, why);
  const button = h('button', { type: 'submit', class: 'primary' }, 'Sign in');
  const providers = h('div', { class: 'providers' });
  const form = h('form', { class: 'login' },
    h('h1', {}, 'Sign in'),
    wrong, providers,
    h('label', { for: 'token' }, 'Token'), field,
    h('p', { id: 'token-help', class: 'dim' }, 'That of a service account, or of your OpenID provider. The first start of the API has written one of the administrator to its file admin-token. It is kept in this tab alone, until the tab is closed.'),
    button);
  form.addEventListener('submit', async (e) => {
    e.preventDefault();
    const given = field.value.trim().replace(/^Bearer\s+/i, '');
    if (!/^[\x21-\x7e]+$/.test(given)) { text(wrong, 'A token is one word of letters, digits and signs.'); return; }
    button.disabled = true;
    keepToken(given);
    try {
      await enter();
    } catch (problem) {
      keepToken('');
      text(wrong, problem.status === 401 ? 'The API does not know this token, or it has expired.' : problem.message);
      button.disabled = false;
      field.select();
    }
  });
  fill(into, form);
  field.focus();
  offers().then((list) => {
    if (!form.isConnected || list.length === 0) return;
    fill(providers,
      list.map((p) => h('a', { class: 'primary', dataset: { issuer: p.issuer }, href: addressOf(p.issuer) }, `Log in with ${p.name}`)),
      h('p', { class: 'dim' }, 'Or with a token:'));
    if (document.activeElement === field && !field.value) providers.querySelector('a').focus();
  });
}
