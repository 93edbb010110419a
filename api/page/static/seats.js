// Connections for streams, shared by all tabs of a browser that show this page. Over HTTP/1.1 a browser has six for a host, and a stream
// keeps one: with six tabs no request would be answered any more.

const most = 4; // streams of all tabs together; what is left is for requests
const beat = 2_000; // between two words of a tab about its streams
const gone = 7_000; // a tab that has said nothing for so long is not there any more

const plenty = /^h[23]/.test(performance.getEntriesByType('navigation')[0]?.nextHopProtocol ?? ''); // HTTP/2 has one for all of them
const me = [...crypto.getRandomValues(new Uint32Array(3))].join('-');
const mine = new Map(); // the streams of this tab, each with what to tell when the seats are others
const others = new Map(); // by tab: what it has said of its own last
let looked = Date.now(); // when somebody has turned to this tab last
let turning = false; // whether a stream of this tab has its turn
let made = 0;
let timer = 0;

const channel = plenty ? null : new BroadcastChannel('drover.streams');

function say(more) {
  channel?.postMessage({ tab: me, looked, wants: [...mine.keys()], turning, ...more });
}

/** here are the other tabs that are there. */
function here() {
  for (const [tab, o] of others) if (Date.now() - o.heard > gone) others.delete(tab);
  return [...others.values()];
}

/** keeps is whether a stream may go on: those of the tabs that were turned to last may, and where not all can, one seat is left for turns. */
function keeps(n) {
  if (plenty) return true;
  const all = [...here(), { tab: me, looked, wants: [...mine.keys()] }].flatMap((o) => o.wants.map((w) => ({ n: w, tab: o.tab, looked: o.looked })));
  all.sort((a, b) => b.looked - a.looked || (a.tab < b.tab ? -1 : a.tab > b.tab ? 1 : a.n - b.n));
  return all.findIndex((s) => s.tab === me && s.n === n) < (all.length > most ? most - 1 : most);
}

function tell() {
  for (const changed of [...mine.values()]) changed();
}

function look() {
  if (document.hidden) return;
  looked = Date.now();
  if (!mine.size) return;
  say();
  tell();
}

if (channel) {
  channel.addEventListener('message', ({ data }) => {
    if (data.wants.length) others.set(data.tab, { ...data, heard: Date.now() });
    else others.delete(data.tab);
    if (data.hello && mine.size) say();
    tell();
  });
  addEventListener('focus', look);
  document.addEventListener('visibilitychange', look);
  addEventListener('pagehide', () => say({ wants: [], turning: false }));
}

/**
 * seat asks for a connection for a stream. keeps is whether it may have one for as long as it goes on; changed is called when that may be
 * otherwise. A stream that may not asks for a turn, which one has at a time, and ends it soon.
 */
export function seat(changed) {
  const n = ++made;
  let turn = false;
  const end = () => {
    if (!turn) return;
    turn = turning = false;
    say();
  };
  return {
    enter() {
      if (mine.has(n)) return;
      mine.set(n, changed);
      if (!plenty) timer ||= setInterval(() => { say(); tell(); }, beat);
      say({ hello: true });
    },
    leave() {
      end();
      if (!mine.delete(n)) return;
      if (!mine.size) timer = clearInterval(timer) ?? 0;
      say();
    },
    keeps: () => keeps(n),
    begin() {
      if (turning || here().some((o) => o.turning)) return false;
      turn = turning = true;
      say();
      return true;
    },
    end,
  };
}
