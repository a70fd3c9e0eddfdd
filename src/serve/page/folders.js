// The folders of the library, as a tree beside the pictures. A folder is asked for when it is opened.
import {find, icon, make} from './dom.js';
import {get} from './server.js';
import {count, number} from './words.js';

const opened = new Map(); // path -> its folders, or a promise of them
let chosen = null, change = null, show = () => {};
find('#tree').open = matchMedia('(min-width: 52.01rem)').matches; // on a phone it would push the pictures out of sight

async function open(path) {
  const part = get(`/v1/library/folders?folder=${encodeURIComponent(path)}`).then(answer => answer.folders);
  opened.set(path, part);
  draw();
  try {
    opened.set(path, await part);
  } catch {
    opened.delete(path);
  }
  draw();
}

function row({path, pictures, folders}) {
  const name = path.split('/').pop(), isOpen = opened.has(path), below = opened.get(path);
  const toggle = folders === 0 ? make('span', {class: 'leaf'}) : make('button', {type: 'button', class: 'twist', 'aria-expanded': String(isOpen), 'aria-label': `Folders in ${name}`, 'data-path': path, onclick: () => {
    if (isOpen) opened.delete(path), draw();
    else open(path);
  }}, icon('right'));
  return make('li', {}, make('div', {class: 'folder'}, toggle, make('button', {type: 'button', 'aria-pressed': String(path === chosen), 'aria-label': `Folder ${name}: ${count(pictures, 'picture')}`, title: path, 'data-path': path,
    onclick: () => show(path)}, make('span', {}, name), make('span', {class: 'n'}, number(pictures)))), Array.isArray(below) && below.length ? make('ul', {}, ...below.map(row)) : null);
}

let seen = '';
function draw() {
  const top = opened.get(''), root = find('#tree'), now = JSON.stringify([[...opened].map(([path, below]) => [path, Array.isArray(below) ? below : null]), chosen]);
  root.hidden = !Array.isArray(top) || !top.length;
  if (root.hidden || now === seen) return;
  seen = now;
  const focused = document.activeElement?.closest('#tree button'), place = focused && [focused.className, focused.dataset.path];
  find('#tree ul').replaceWith(make('ul', {'aria-label': 'Folders of the library'}, ...top.map(row)));
  if (place) [...root.querySelectorAll('button')].find(one => one.className === place[0] && one.dataset.path === place[1])?.focus();
}

// folder: the one that is listed, or null; version: of the index, whose folders may have changed.
export function drawFolders(folder, version, show_) {
  show = show_;
  chosen = folder;
  if (!opened.has('')) open('');
  else if (change !== version) for (const path of opened.keys()) if (Array.isArray(opened.get(path))) renew(path);
  change = version;
  draw();
}

async function renew(path) {
  try {
    const {folders} = await get(`/v1/library/folders?folder=${encodeURIComponent(path)}`);
    if (opened.has(path)) opened.set(path, folders);
    draw();
  } catch { /* the next time */ }
}
