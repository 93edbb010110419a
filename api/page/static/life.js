// The life of what is shown: what it reads ends with it, and whether what it shows holds is said at the top of the page.

import { Problem, get, watch } from './api.js';

/** Life is that of one view. */
export class Life {
  #ends = [];
  #control = new AbortController();
  #sources = new Map(); // why a source is lost, null while it is live
  #told;

  /** told is called with { lost, since, why, live } whenever that changes. */
  constructor(told) { this.#told = told; }

  get signal() { return this.#control.signal; }
  get over() { return this.#control.signal.aborted; }

  end() {
    this.#control.abort();
    for (const f of this.#ends.splice(0)) f();
    this.#sources.clear();
  }

  onEnd(f) { this.#ends.push(f); }

  /** #say notes that a source is live, or why it is lost and as of when what it has said is. */
  #say(source, why, since) {
    if (this.over) return;
    this.#sources.set(source, why === null ? null : { why, since });
    this.#tell();
  }

  #tell() {
    const lost = [...this.#sources.values()].filter(Boolean).sort((a, b) => a.since - b.since)[0];
    this.#told({ lost: Boolean(lost), ...lost, live: this.#sources.size > 0 });
  }

  /** watch reads a stream as long as the view lives. */
  watch(path, query, handlers) {
    const source = Symbol(path);
    const close = watch(path, query, {
      status: (d) => { if (!this.over) { this.#say(source, null); handlers.status(d); } },
      change: (d) => { if (!this.over) { this.#say(source, null); handlers.change(d); } },
      live: () => { if (this.#sources.get(source)) this.#say(source, null); },
      lost: (why, since) => this.#say(source, why, since),
      over: (problem) => { if (!this.over) { this.#sources.delete(source); handlers.over(problem); } },
    });
    const end = () => { this.#sources.delete(source); close(); };
    this.#ends.push(end);
    return end;
  }

  /**
   * poll asks again and again, every so many milliseconds, and at once when what it returns is called; its end ends it before the
   * view does. take gets the answer; refused what is wrong, where asking again does not help.
   */
  poll(every, ask, take, refused) {
    const source = Symbol('poll');
    let heard = Date.now();
    let timer = 0;
    let going = false;
    let anew = false;
    let ended = false;
    const round = async () => {
      if (this.over || ended) return;
      if (document.hidden) { timer = setTimeout(round, every); return; }
      going = true;
      anew = false;
      clearTimeout(timer);
      try {
        const answer = await ask(this.signal);
        if (this.over || ended) return;
        heard = Date.now();
        this.#say(source, null);
        take(answer);
      } catch (e) {
        if (this.over || ended) return;
        if (e instanceof Problem && e.status >= 400 && e.status < 500 && e.status !== 429 && refused) {
          this.#sources.delete(source);
          refused(e);
          return;
        }
        if (!(e instanceof Problem)) console.error(e);
        this.#say(source, e.message, heard);
      } finally {
        going = false;
      }
      timer = setTimeout(round, anew ? 50 : every);
    };
    const again = () => {
      if (going) { anew = true; return; }
      clearTimeout(timer);
      timer = setTimeout(round, 50);
    };
    again.end = () => {
      ended = true;
      clearTimeout(timer);
      if (this.#sources.delete(source)) this.#tell();
    };
    this.#ends.push(() => clearTimeout(timer));
    round();
    return again;
  }

  /** every calls a function again and again. */
  every(milliseconds, f) {
    const timer = setInterval(f, milliseconds);
    this.#ends.push(() => clearInterval(timer));
  }

  /** listen listens as long as the view lives. */
  listen(target, kind, f, options) {
    target.addEventListener(kind, f, { ...options, signal: this.signal });
  }

  get(path, query) { return get(path, query, this.signal); }
}
