// Every request to the server. A request that changes or reads something waits while the server is busy, away or asks for its token,
// and is then sent again; the page shows why it waits. Sending a lesson twice is harmless: the server skips what it has learned already.

// The server may be below a path of its own (--base-path): everything is found from where this file is.
const base = new URL('..', import.meta.url);
const address = path => new URL(path.slice(1), base);
// What the browser keeps for this server and for no other of the same site.
export const keepsAs = name => base.pathname === '/' ? name : `${name}:${base.pathname}`;

const TOKEN = keepsAs('l3a-token');
const pause = seconds => new Promise(done => setTimeout(done, 1000 * seconds));

export class Problem extends Error {
  constructor(status, text, hint) {
    super(text);
    this.status = status;
    this.hint = hint || '';
  }
}

// What happens to the connection; page.js shows it.
export const connection = Object.assign(new EventTarget(), {gone: false, busy: false});
// Set by page.js: asks the person for the token, and resolves to it; optional: to nothing if the person gives none.
export const asking = {token: null};
// Set by page.js: the bytes that a request may have, and whether nothing may be taught. A server that refuses more bytes ends the
// connection, and Firefox then shows no answer.
export const limits = {body: Infinity, readonly: false};

let retry = null; // ends the current pause early
let waiting = 0;  // requests that the server was too busy for

function tell(change) {
  Object.assign(connection, change);
  connection.dispatchEvent(new Event('change'));
}

export function tryNow() {
  if (retry) retry();
}

// One pause for all requests, however many wait.
let away = null;
function untilBack() {
  away ??= (async () => {
    tell({gone: true});
    for (let seconds = 1;; seconds = Math.min(2 * seconds, 10)) {
      await Promise.race([pause(seconds), new Promise(done => { retry = done; })]);
      try {
        const answer = await fetch(address('/v1/status'), {headers: headers(), cache: 'no-store'});
        if (answer.status < 500) break;
      } catch { /* still away */ }
    }
    away = retry = null;
    tell({gone: false});
  })();
  return away;
}

function headers(type) {
  const token = sessionStorage.getItem(TOKEN);
  return {'X-L3A': '1', ...(type && {'Content-Type': type}), ...(token && {Authorization: `Bearer ${token}`})};
}

let entering = null;
function enterToken(wrong, optional = false) {
  entering ??= asking.token(wrong, optional).then(token => {
    if (token) sessionStorage.setItem(TOKEN, token);
    entering = null;
  });
  return entering;
}

// Asks for another token, of somebody who may do more. Escape keeps the one there is.
export const changeToken = () => enterToken(false, true);

async function wait(answer) {
  const seconds = Number(answer.headers.get('Retry-After')) || 1;
  waiting++;
  tell({busy: true});
  await pause(Math.min(seconds, 30) * (1 + Math.random() / 4));
  if (--waiting === 0) tell({busy: false});
}

async function problem(answer) {
  let text = `The server answered with status ${answer.status}.`, hint = '';
  try {
    const body = await answer.json();
    if (typeof body.error === 'string') text = body.error;
    if (typeof body.hint === 'string') hint = body.hint;
  } catch { /* not the server's own answer; a proxy's, perhaps */ }
  return new Problem(answer.status, text, hint);
}

// Resolves to the answer, whatever its kind. patient: false gives up when the server does not answer.
export async function send(method, path, {body, type, signal, patient = true} = {}) {
  if ((body?.size ?? body?.length ?? 0) > limits.body) {
    throw new Problem(413, `This is too large: the server takes ${Math.floor(limits.body / 2 ** 20)} MB at a time.`, 'Use a smaller copy, or start the server with a larger --max-body.');
  }
  for (let tries = 0;;) {
    const used = sessionStorage.getItem(TOKEN);
    let answer;
    try {
      answer = await fetch(address(path), {method, body, signal, headers: headers(type), cache: 'no-store', redirect: 'error'});
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      if (!patient) throw new Problem(0, 'The server does not answer.', "Check that 'l3a serve' is running.");
      await untilBack();
      continue;
    }
    if (answer.ok) return answer;
    if (answer.status === 401 && asking.token) {
      if (used === sessionStorage.getItem(TOKEN)) await enterToken(used !== null);
    } else if (patient && (answer.status === 429 || answer.status === 502 || answer.status === 503 && answer.headers.has('Retry-After'))) {
      await wait(answer);
    } else if (patient && method === 'GET' && answer.status >= 502 && tries++ < 3) {
      await pause(1); // it is about to end, or something between us is
    } else {
      throw await problem(answer);
    }
  }
}

export async function get(path, options) {
  return (await send('GET', path, options)).json();
}

export async function post(path, value, options) {
  return (await send('POST', path, {...options, body: JSON.stringify(value), type: 'application/json'})).json();
}

// The bytes of a file as base64, for requests that hold several pictures.
export async function base64(blob) {
  const bytes = new Uint8Array(await blob.arrayBuffer());
  let text = '';
  for (let i = 0; i < bytes.length; i += 32768) text += String.fromCharCode(...bytes.subarray(i, i + 32768));
  return btoa(text);
}
