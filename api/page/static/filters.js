// What is looked for in a list is in the address, so that it is there again when one comes back.

/** keep puts the filters of a view into its address, those that are set; letter by letter it is no step back. */
export function keep(view, filters) {
  const query = new URLSearchParams(Object.entries(filters).filter(([, v]) => v));
  try {
    history.replaceState(history.state, '', `#/${view}${query.size ? `?${query}` : ''}`);
  } catch { /* a browser lets nobody do that too often */ }
}
