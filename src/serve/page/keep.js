// Remembers the pictures that were dropped on the page, in this browser, so that they are still there after a reload. The server keeps
// none of them. There is a limit, so that a large collection does not fill the disk.
import {keepsAs} from './server.js';

const PICTURES = 2000, BYTES = 2e9;
let database = null;

function promise(request) {
  return new Promise((done, fail) => {
    request.onsuccess = () => done(request.result);
    request.onerror = () => fail(request.error);
  });
}

function open() {
  database ??= (async () => {
    const request = indexedDB.open(keepsAs('l3a'), 1);
    request.onupgradeneeded = () => request.result.createObjectStore('pictures', {keyPath: 'order'});
    return promise(request);
  })();
  return database;
}

async function store(mode) {
  return (await open()).transaction('pictures', mode).objectStore('pictures');
}

let kept = 0, bytes = 0;

// Private windows and full disks keep nothing; the page works without.
async function attempt(action, otherwise) {
  try {
    return await action();
  } catch {
    return otherwise;
  }
}

export function restore() {
  return attempt(async () => {
    const entries = await promise((await store('readonly')).getAll());
    kept = entries.length;
    bytes = entries.reduce((sum, entry) => sum + entry.file.size, 0);
    return entries;
  }, []);
}

// True if it fitted.
export function keep(order, path, file) {
  if (kept >= PICTURES || bytes + file.size > BYTES) return false;
  kept++;
  bytes += file.size;
  return attempt(async () => promise((await store('readwrite')).put({order, path, file, key: null})).then(() => true), false);
}

// So that after a reload the server may still know the picture, and need not be sent it again.
export function keepKey(order, key) {
  return attempt(async () => {
    const all = await store('readwrite');
    const entry = await promise(all.get(order));
    if (entry) await promise(all.put({...entry, key}));
  });
}

export function forget(orders) {
  return attempt(async () => {
    const all = await store('readwrite');
    await Promise.all(orders.map(order => promise(all.delete(order))));
    await restore();
  });
}
