// The page as a whole: what is listed, what is selected, what has just happened, and how it stands with the server.
import {button, find, make, menu} from './dom.js';
import * as exporting from './export.js';
import {Grid} from './grid.js';
import * as intake from './intake.js';
import * as lessons from './lessons.js';
import * as store from './pictures.js';
import {reviewList, reviewUnsure, setReadonly} from './review.js';
import {asking, changeToken, connection, get, keepsAs, limits, tryNow} from './server.js';
import {tagbox} from './tagbox.js';
import * as views from './views.js';
import {count, list, number, plain, same} from './words.js';

const POLL = 4000, LIBRARY = keepsAs('l3a-library'), ENOUGH = 5;
const {pictures, known} = store;
let status = {library: false, readonly: false, demo: false, model: ''};
let filter = {kind: 'all'}, listed = [];

// --- messages -------------------------------------------------------------------------------------------------------------------------

const notices = new Map();

function notice(id, text, {hint = '', actions = [], plainly = false, closes = true} = {}) {
  dismiss(id);
  const close = closes ? [button('Close', () => dismiss(id), {class: 'link'})] : [];
  const element = make('div', {class: plainly ? 'notice plain' : 'notice', role: plainly ? 'status' : 'alert'},
    make('div', {}, text, hint ? make('span', {class: 'soft'}, ` ${hint}`) : ''), ...actions, ...close);
  notices.set(id, element);
  find('#notices').append(element);
}

function dismiss(id) {
  notices.get(id)?.remove();
  notices.delete(id);
}

// What changed, in words, for eyes and screen readers. The review covers the page, so it has a line of its own.
function say(text, undo = false) {
  const inside = find('#review').open ? '#review' : 'footer';
  for (const root of ['#review', 'footer']) {
    find(`${root} .line`).textContent = root === inside ? text : '';
    find(`${root} .undo`).hidden = root !== inside || !undo || status.readonly;
  }
  drawProgress();
}

lessons.events.addEventListener('line', ({detail}) => {
  say(detail.text, detail.undo);
  dismiss('refused');
  if (location.hash === '#history') views.history(status.readonly);
  if (location.hash === '#quality') views.quality(showTag);
});
lessons.events.addEventListener('refused', ({detail}) => {
  if (find('#review').open) find('#review').close();
  say('');
  const open = detail.pictures.length ? [button('Show the picture', () => reviewList([detail.pictures[0]], detail.pictures[0]))] : [];
  notice('refused', `This could not be learned. ${detail.text}`, {hint: detail.hint, actions: open});
});
for (const undo of document.querySelectorAll('.undo')) undo.addEventListener('click', () => lessons.undo());

connection.addEventListener('change', () => {
  dismiss('gone');
  if (connection.gone) {
    const unsaved = lessons.pending();
    notice('gone', `The server does not answer.${unsaved ? ` ${count(unsaved, 'lesson')} will be saved when it is back.` : ''}`,
      {hint: "Check that 'l3a serve' is running. The page keeps trying.", actions: [button('Try now', tryNow)], closes: false});
  }
  drawProgress();
});
addEventListener('beforeunload', event => {
  if (lessons.pending()) event.preventDefault();
});

// --- what is listed -------------------------------------------------------------------------------------------------------------------

const FILTERS = {
  all: {title: 'All pictures', takes: () => true, empty: ''},
  unsure: {title: 'Not sure', takes: store.isUnsure, empty: 'Nothing is in doubt at the moment.'},
  none: {title: 'None of these', takes: store.isNone, empty: 'Every picture has a tag.'},
  taught: {title: 'Taught by you', takes: store.isTaught, empty: 'Nothing here has been taught yet.'},
  failed: {title: 'Cannot be read', takes: picture => picture.state === 'failed', empty: 'All pictures can be read.'},
};
const tagFilter = tag => ({title: tag, takes: picture => store.shown(picture).includes(tag), empty: `No picture here has the tag ${tag} yet.`});
const filtering = () => filter.kind === 'tag' ? tagFilter(filter.tag) : FILTERS[filter.kind];

const ORDERS = {
  added: null,
  name: (a, b) => a.path.localeCompare(b.path, 'en', {numeric: true}),
  unsure: (a, b) => store.doubt(b) - store.doubt(a),
};

function show(next) {
  filter = next;
  grid.selectNone();
  draw();
  scrollTo(0, 0);
}

function showTag(tag) {
  location.hash = '#pictures';
  show({kind: 'tag', tag});
}

function filterButton(next, text, n, more = '') {
  const pressed = filter.kind === next.kind && filter.tag === next.tag;
  const described = `${text}: ${count(n, 'picture')}${more ? `, ${more}` : ''}`;
  return make('button', {type: 'button', 'aria-pressed': String(pressed), 'aria-label': described, title: more ? described : null, onclick: () => show(next)}, make('span', {}, text), make('span', {class: 'n'}, number(n)));
}

let drawnFilters = '';
function drawFilters(sums) {
  const now = JSON.stringify([filter, sums.all, sums.unsure, sums.none, sums.taught, sums.failed, [...sums.tags].map(([tag, n]) => [tag, n.taught, n.suggested])]);
  if (now === drawnFilters) return;
  drawnFilters = now;
  const root = find('#filters'), focused = [...root.querySelectorAll('button')].indexOf(document.activeElement);
  const tags = [...sums.tags].sort(([a], [b]) => a.localeCompare(b, 'en'));
  root.replaceChildren(filterButton({kind: 'all'}, 'All pictures', sums.all), filterButton({kind: 'unsure'}, 'Not sure', sums.unsure), filterButton({kind: 'none'}, 'None of these', sums.none),
    filterButton({kind: 'taught'}, 'Taught by you', sums.taught), ...(sums.failed ? [filterButton({kind: 'failed'}, 'Cannot be read', sums.failed)] : []),
    ...(tags.length ? [make('h3', {}, 'Tags')] : []),
    ...tags.map(([tag, n]) => filterButton({kind: 'tag', tag}, tag, n.taught + n.suggested, `${n.taught} taught, ${n.suggested} suggested`)));
  if (focused >= 0) root.querySelectorAll('button')[focused]?.focus();
}

// A word of advice where the next step is not obvious; one at a time.
function tip(sums) {
  if (status.readonly || !pictures.length) return '';
  const fewest = known.classes.filter(one => one.pictures > 0 && one.pictures < ENOUGH).sort((a, b) => a.pictures - b.pictures)[0];
  if (status.demo && !demoDone()) return demoTip();
  if (!known.classes.length) return `Select at least ${ENOUGH} pictures that show the same thing (the circle in their corner, or the space bar), and say what it is.`;
  if (known.classes.length === 1) return 'With a single tag, it marks too much: it has seen nothing else. Teach a second tag, or a few pictures that show none.';
  if (fewest) return `${fewest.name} has ${count(fewest.pictures, 'picture')}. ${ENOUGH} or more make it reliable.`;
  if (sums.unsure && !sums.taught) return 'Review the pictures it is not sure of: these teach it the most.';
  return '';
}

const demoTag = () => status.demo.teach ?? 'umbrella';
const demoDone = () => known.classes.some(one => same(one.name, demoTag()));

function demoTip() {
  const names = known.classes.map(one => one.name), few = names.slice(0, 3), missing = demoTag();
  const start = `This demonstration knows ${list([...few, ...(names.length > 3 ? [`${names.length - 3} other things`] : [])])}.`;
  return `${start} It has never been told what ${/^[aeiou]/.test(missing) ? 'an' : 'a'} ${missing} is: select five pictures that show one, type ${missing}, and watch the others.`;
}

function draw() {
  const sums = store.tally(), has = pictures.length > 0 || folder !== null;
  find('#welcome').hidden = has;
  find('#collection').hidden = !has;
  find('#remove-all').hidden = !has;
  if (!has) return;
  drawFilters(sums);
  const rules = filtering(), by = ORDERS[filter.kind === 'unsure' ? 'unsure' : find('#order').value];
  listed = pictures.filter(rules.takes);
  if (by) listed.sort(by);
  const tag = filter.kind === 'tag' && known.classes.find(one => one.name === filter.tag);
  find('#filter-title').textContent = rules.title;
  find('#filter-count').textContent = tag ? `${sums.tags.get(filter.tag)?.taught ?? 0} taught, ${sums.tags.get(filter.tag)?.suggested ?? 0} suggested here` : count(listed.length, 'picture');
  find('#rename').hidden = !tag || status.readonly;
  find('#empty').textContent = pictures.length ? rules.empty : 'There are no pictures in this folder itself.';
  find('#empty').hidden = listed.length > 0;
  find('#grid').hidden = listed.length === 0;
  drawReviewButton();
  const advice = tip(sums);
  find('#tip').textContent = advice;
  find('#tip').hidden = !advice;
  grid.set(listed, filter.tag);
  drawProgress();
}

const open_ = () => listed.filter(picture => store.isDone(picture) && !store.isSettled(picture));

function drawReviewButton() {
  const unsure = listed.filter(store.isUnsure).length, start = find('#start-review');
  start.hidden = status.readonly || !known.classes.length;
  start.disabled = open_().length === 0;
  start.textContent = unsure ? `Review: ${number(unsure)} unsure` : 'Review';
}

function drawProgress() {
  const {total, done} = store.progress();
  find('#progress').hidden = done === total;
  find('#line').classList.toggle('quiet', done === total && !find('footer .line').textContent);
  find('#progress-bar').max = Math.max(1, total);
  find('#progress-bar').value = done;
  find('#progress-text').textContent = connection.gone ? 'waiting for the server' : connection.busy ? 'the server is busy; this continues by itself' : `${number(done)} of ${number(total)} looked at`;
}

const grid = new Grid(find('#grid'), {open: picture => reviewList(listed, picture), select: drawSelection});
store.showFirst(() => grid.visible());
store.events.addEventListener('change', draw);
find('#order').addEventListener('change', draw);
// What is in doubt when the review starts is gone through, also when its filter no longer takes it.
find('#start-review').addEventListener('click', () => {
  const pool = filter.kind === 'unsure' ? () => pictures : (items => () => items)([...listed]);
  if (!reviewUnsure(pool)) say('Nothing is left to review here.');
});

// --- selected pictures ----------------------------------------------------------------------------------------------------------------

const chosen = [];
const box = tagbox({label: 'They show', hint: 'type a tag', pick: tag => { choose(tag); box.input.focus({preventScroll: true}); }, done: teachSelection, without: () => chosen});
find('#selection-add').append(box);

function choose(tag) {
  if (!chosen.some(one => same(one, tag))) chosen.push(tag);
  drawSelection();
}

function drawSelection() {
  const selected = grid.selected.size;
  find('#selection').hidden = !selected || status.readonly;
  find('#selection-count').textContent = `${count(selected, 'picture')} selected`;
  find('#selection-tags').replaceChildren(...chosen.map(tag => button(tag, () => {
    chosen.splice(chosen.indexOf(tag), 1);
    drawSelection();
    box.input.focus({preventScroll: true});
  }, {icon: 'close', 'aria-label': `Leave out ${tag}`})));
  find('#selection-none').hidden = !known.classes.length || chosen.length > 0;
  if (!selected && chosen.length) chosen.length = 0;
}

function endSelection() {
  chosen.length = 0;
  find('#selection-complete').checked = false;
  box.empty();
  grid.selectNone();
  find('#grid').focus({preventScroll: true});
}

function teachSelection() {
  box.flush();
  const selected = [...grid.selected].filter(picture => picture.state !== 'failed'), tags = [...chosen];
  if (!tags.length) {
    box.input.focus({preventScroll: true});
    return;
  }
  if (!selected.length) return;
  lessons.teachAlso(selected, tags, find('#selection-complete').checked);
  say(`Teaching ${list(tags)} from ${count(selected.length, 'picture')}…`);
  endSelection();
}

find('#selection-teach').addEventListener('click', teachSelection);
find('#selection-clear').addEventListener('click', endSelection);
find('#selection-remove').addEventListener('click', () => {
  const gone = [...grid.selected];
  endSelection();
  store.remove(gone);
  say(`${count(gone.length, 'picture')} removed from this page. What was taught stays.`);
});
find('#selection-none').addEventListener('click', () => {
  lessons.teach([...grid.selected].filter(picture => picture.state !== 'failed'), {tags: []});
  endSelection();
});

// --- adding pictures ------------------------------------------------------------------------------------------------------------------

async function take({files, left}) {
  location.hash = '#pictures';
  if (!files.length) {
    notice('taken', left ? `No pictures were found among ${count(left, 'file')}.` : 'No pictures were found.', {hint: 'JPEG, PNG, WebP, HEIC and AVIF files can be added.'});
    return;
  }
  dismiss('taken');
  const {added, kept} = await store.addFiles(files);
  const twice = files.length - added;
  say([`${count(added, 'picture')} added.`, twice ? `${number(twice)} were here already.` : '', left ? `${count(left, 'other file')} left out.` : '',
    added > kept ? `This browser cannot remember ${number(added - kept)} of them: drop them again after a reload.` : ''].filter(Boolean).join(' '));
}

const clicks = {'choose-files': 'files', 'choose-folder': 'folder', 'welcome-files': 'files', 'welcome-folder': 'folder'};
for (const [from, to] of Object.entries(clicks)) find(`#${from}`).addEventListener('click', () => find(`#${to}`).click());
for (const id of ['files', 'folder']) find(`#${id}`).addEventListener('change', event => take(intake.fromInput(event.target)));
for (const id of ['open-library', 'welcome-library']) find(`#${id}`).addEventListener('click', () => {
  location.hash = '#pictures';
  openLibrary('');
});
find('#remove-all').addEventListener('click', () => {
  localStorage.removeItem(LIBRARY);
  folder = null;
  grid.selectNone();
  filter = {kind: 'all'};
  store.remove([...pictures]);
  drawFolders([]);
  say('All pictures were removed from this page. What was taught stays.');
});

let depth = 0;
const hasFiles = event => [...event.dataTransfer?.types ?? []].includes('Files');
addEventListener('dragenter', event => { if (hasFiles(event)) find('#drop').hidden = ++depth === 0; });
addEventListener('dragleave', event => { if (hasFiles(event)) find('#drop').hidden = (depth = Math.max(0, depth - 1)) === 0; });
addEventListener('dragover', event => { if (hasFiles(event)) event.preventDefault(); });
addEventListener('drop', async event => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  depth = 0;
  find('#drop').hidden = true;
  take(await intake.fromDrop(event.dataTransfer));
});

let folder = null; // of the library: {name, deep}; null: not open

async function readFolder(name, still) {
  const below = [];
  for (let from = 0, total = 1; from < total && still();) {
    const part = await get(`/v1/library?folder=${encodeURIComponent(name)}&from=${from}&count=1000`);
    if (from === 0) below.push(...part.folders);
    if (still()) store.addLibrary(part.pictures.map(picture => picture.path));
    from += part.pictures.length;
    total = part.pictures.length ? part.total : 0;
  }
  return below;
}

// deep: with all folders below.
async function openLibrary(next, deep = false) {
  const opened = {name: next, deep};
  const still = () => folder === opened;
  folder = opened;
  localStorage.setItem(LIBRARY, JSON.stringify(opened));
  store.remove(pictures.filter(picture => !picture.file));
  try {
    const below = await readFolder(next, still);
    if (still()) drawFolders(below);
    draw();
    for (const left = deep ? [...below] : []; left.length && still();) left.unshift(...await readFolder(left.shift(), still));
  } catch (problem) {
    notice('library', problem.message, {hint: problem.hint});
  }
}

// Where we are in the library, and the folders below.
function drawFolders(below) {
  const root = find('#folders'), parts = folder?.name ? folder.name.split('/') : [];
  const up = parts.map((name, i) => button(name, () => openLibrary(parts.slice(0, i + 1).join('/')), {class: 'link'}));
  root.hidden = !folder || !below.length && !parts.length;
  root.replaceChildren(button('Library', () => openLibrary(''), {class: 'link'}), ...up.flatMap(one => ['/', one]),
    ...(folder?.deep ? [make('span', {class: 'soft'}, 'and all folders below')] : below.map(name => button(name.split('/').pop(), () => openLibrary(name)))),
    ...(below.length && !folder.deep ? [button('All of them', () => openLibrary(folder.name, true), {class: 'link'})] : []));
}

// --- other views, windows -------------------------------------------------------------------------------------------------------------

function route() {
  const name = ['quality', 'history'].find(one => location.hash === `#${one}`) ?? 'pictures';
  for (const section of ['pictures', 'quality', 'history']) find(`#${section}`).hidden = section !== name;
  for (const link of document.querySelectorAll('header nav a')) {
    if (link.hash === `#${name}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  if (name === 'quality') views.quality(showTag);
  if (name === 'history') views.history(status.readonly);
  if (name === 'pictures') grid.measure();
  else grid.selectNone();
}
find('.skip').addEventListener('click', event => {
  event.preventDefault(); // the address names the view
  find('main').focus();
});
addEventListener('hashchange', () => {
  route();
  scrollTo(0, 0);
});

find('#export-open').addEventListener('click', () => {
  find('#export-what').textContent = count(pictures.filter(store.isDone).length, 'picture');
  find('#export-shown').hidden = filter.kind === 'all';
  find('#export-state').textContent = '';
  find('#export').showModal();
});
async function exports(work) {
  const state = find('#export-state');
  try {
    state.textContent = 'One moment…';
    await work(n => { state.textContent = `${number(n)} written…`; });
    state.textContent = 'Saved to your downloads.';
  } catch (problem) {
    state.textContent = `${problem.message} ${problem.hint ?? ''}`;
  }
}
find('#export').addEventListener('click', event => {
  const {export: kind, download} = event.target.closest('button')?.dataset ?? {};
  const which = new FormData(find('#export form')).get('which');
  const chosenOnes = (which === 'shown' && filter.kind !== 'all' ? listed : pictures).filter(picture => store.isDone(picture) && (which !== 'taught' || store.isTaught(picture)));
  const base = status.model.split('/').pop().replace(/\.(l3a|safetensors)$/, '') || 'model';
  if (kind) exports(progress => exporting.save(kind, chosenOnes, which === 'taught', progress));
  if (download === 'model') exports(() => exporting.saveFrom('/v1/model', status.model.split('/').pop() || 'model.l3a'));
  if (download === 'backup') exports(() => exporting.saveFrom('/v1/backup', `${base}-backup.tar`));
});

asking.token = (wrong, optional) => new Promise(done => {
  const dialog = find('#token'), text = find('#token-text');
  find('#token-wrong').textContent = wrong ? 'That was not the right token.' : '';
  text.value = '';
  const closed = () => {
    const token = text.value.trim();
    if (!token && !optional) {
      dialog.showModal();
      return;
    }
    dialog.removeEventListener('close', closed);
    done(token);
  };
  dialog.addEventListener('close', closed);
  dialog.showModal();
});

find('#rename').addEventListener('click', () => {
  find('#renaming-title').textContent = `Rename ${filter.tag}`;
  find('#renaming-text').value = filter.tag;
  find('#renaming-note').textContent = '';
  find('#renaming').returnValue = '';
  find('#renaming').showModal();
  find('#renaming-text').select();
});
find('#renaming-text').addEventListener('input', event => {
  const other = known.classes.some(one => one.name === plain(event.target.value) && one.name !== filter.tag);
  find('#renaming-note').textContent = other ? 'There is such a tag already. The two become one.' : '';
});
find('#renaming-cancel').addEventListener('click', () => find('#renaming').close());
find('#renaming form').addEventListener('submit', async () => {
  const from = filter.tag, to = plain(find('#renaming-text').value);
  if (!to || to === from) return;
  if (await lessons.rename(from, to)) show({kind: 'tag', tag: to});
});

// --- the server -----------------------------------------------------------------------------------------------------------------------

// Why nothing can be taught here; said once, so that its button stays where it is.
let barrier = '';
function showBarrier(next) {
  const now = next.readonly ? 'server' : next.role === 'read' ? 'token' : '';
  if (now === barrier) return;
  barrier = now;
  if (now === 'server') {
    notice('readonly', 'This server shows tags, but learns nothing.', {hint: 'Corrections cannot be saved here.', plainly: true});
  } else if (now === 'token') {
    notice('readonly', 'Your token lets you look, but not teach.', {hint: 'Corrections cannot be saved with it.', plainly: true, actions: [button('Use another token', useAnotherToken)]});
  } else {
    dismiss('readonly');
  }
}

async function useAnotherToken() {
  await changeToken();
  learnStatus(await get('/v1/status'));
}

function learnStatus(next) {
  const first = status.model === '', before = status.readonly;
  status = {...next, readonly: next.readonly || next.role === 'read'};
  limits.body = next.max_body;
  find('#model').textContent = next.model.split('/').pop();
  document.title = `${next.model.split('/').pop()} – l3a`;
  setReadonly(status.readonly);
  find('#export-tagger').hidden = next.role !== 'admin';
  for (const id of ['open-library', 'welcome-library']) find(`#${id}`).hidden = !next.library;
  find('#welcome-demo').hidden = Boolean(next.demo);
  showBarrier(next);
  const trouble = next.savable === false ? 'Your lessons are kept, but the model file cannot be updated.' : 'The server is not ready.';
  if (next.ready === false) notice('ready', trouble, {hint: next.trouble ?? 'See its messages in the terminal.', closes: false});
  else dismiss('ready');
  if (!first && before !== status.readonly) {
    draw();
    drawSelection();
    if (location.hash === '#history') views.history(status.readonly);
  }
  return first;
}

async function watch() {
  for (;;) {
    await new Promise(done => setTimeout(done, document.hidden ? 5 * POLL : POLL));
    try {
      learnStatus(await get('/v1/status'));
      if (status.edition !== known.edition && !lessons.pending()) await store.refresh();
    } catch (problem) {
      notice('status', problem.message, {hint: problem.hint});
    }
  }
}

let wasGone = false;
connection.addEventListener('change', () => {
  if (wasGone && !connection.gone) store.refresh(); // it may have started anew, without what it had in memory
  wasGone = connection.gone;
});

async function start() {
  menu(find('#add'));
  new ResizeObserver(([{target}]) => document.documentElement.style.setProperty('--header', `${target.offsetHeight}px`)).observe(find('header'));
  route();
  try {
    learnStatus(await get('/v1/status'));
    await store.readClasses();
    await store.restore();
    const library = JSON.parse(localStorage.getItem(LIBRARY) ?? 'null') ?? (status.demo && !pictures.length ? {name: '', deep: true} : null);
    if (status.library && library) await openLibrary(library.name, library.deep);
  } catch (problem) {
    notice('status', problem.message, {hint: problem.hint});
  }
  draw();
  document.body.dataset.ready = 'true';
  watch();
}

start();
