// The page as a whole: what is listed, and how it stands with the server.
import {adding, leftOut} from './adding.js';
import {exportDialog, renameDialog} from './dialogs.js';
import {button, find, make, menu} from './dom.js';
import {drawFilters, rulesOf} from './filters.js';
import {Grid, MOST_SELECTED} from './grid.js';
import {hasIndex, isFound, openList, refresh, tally, watch as watchPictures} from './collection.js';
import {duplicates} from './duplicates.js';
import {drawFolders as drawTree} from './folders.js';
import {history} from './history.js';
import * as lessons from './lessons.js';
import {isBusy, isCounting, library, readState} from './library.js';
import {dismiss, drawLine, notice, say} from './messages.js';
import * as picture from './picture.js';
import * as store from './pictures.js';
import {drawProblems, hideProblems} from './problems.js';
import {quality} from './quality.js';
import {filterOf, isOrdered, judgedTag, textOf} from './query.js';
import {reviewList, reviewUnsure, setReadonly} from './review.js';
import {searchBox, showSearch} from './search.js';
import {drawSelection, selectionOf} from './selection.js';
import {changeToken, connection, get, keepsAs, limits, tryNow} from './server.js';
import {count, list as listed, number, same, time} from './words.js';

const POLL = 4000, BUSY = 1500, COUNTING = 300, LIBRARY = keepsAs('l3a-library'), ENOUGH = 5;
const MOST_LIKE = 50, TO_REVIEW = 200;
const {known} = picture, {pictures} = store;
let status = {library: false, demo: false, model: ''};
let filter = {kind: 'all'};        // what the person wants to see
let list = openList(filter, 'added'); // what is shown; it has the filter that it came from
let coming = null;                 // the next list, while its first pictures are on their way

lessons.events.addEventListener('line', ({detail}) => {
  say(detail.text, detail.undo);
  dismiss('refused');
  if (location.hash === '#history') history();
  if (location.hash === '#quality') quality(showTag);
});
lessons.events.addEventListener('refused', ({detail}) => {
  if (find('#review').open) find('#review').close();
  say('');
  const open = detail.pictures.length ? [button('Show the picture', () => reviewList([detail.pictures[0]], 0))] : [];
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

const ORDERS = {added: 'as added', date: 'newest first', score: 'most sure first', unsure: 'least sure first', novel: 'what to judge next', name: 'by name'};
const HERE = ['added', 'score', 'unsure', 'name'], FOUND = ['date', 'score', 'unsure', 'novel', 'name'];
const OWN = {tag: 'score', like: 'score', unsure: 'unsure', next: 'novel'};
const preferred = {here: 'added', found: 'date'}; // for lists that have no order of their own
const FILES = ['failed', 'left']; // these are listed by name

const place = () => isFound(filter) ? 'found' : 'here';
const isRanked = () => filter.kind === 'like' || judgedTag(filter) !== null;
const ownOrder = () => OWN[filter.kind] ?? (isRanked() ? 'score' : preferred[place()]);

function offerOrders(order) {
  const offered = (isFound(filter) ? FOUND : HERE).filter(name => name !== 'score' || isRanked());
  find('#order').replaceChildren(...offered.map(name => make('option', {value: name, selected: name === order}, name === 'score' && filter.kind === 'like' ? 'most alike first' : ORDERS[name])));
}

// The list takes the place of the one before when its first pictures are there.
async function open(order, {unsure = false, stay = false} = {}) {
  offerOrders(order);
  const opened = coming = openList(filter, order, unsure);
  if (opened.ready) {
    draw();
    await opened.ready;
  }
  if (coming !== opened) return;
  coming = null;
  list = opened;
  if (!stay) grid.selectNone();
  draw();
  if (!stay) scrollTo(0, 0);
}

function show(next) {
  filter = next;
  hideProblems();
  find('#groups').hidden = true;
  if (next.kind === 'duplicates') duplicates(reviewList);
  if (hasIndex() && FILES.includes(next.kind)) readUnread();
  return open(ownOrder());
}

function showTag(tag) {
  location.hash = '#pictures';
  show({kind: 'tag', tag});
}

function showLike(which) {
  const ids = which.map(({id}) => id).filter(id => id !== null).slice(0, MOST_LIKE);
  if (ids.length) show({kind: 'like', ids, names: which.slice(0, ids.length).map(({name}) => name), judged: grid.tag});
}

// A word of advice where the next step is not obvious; one at a time.
function tip(sums) {
  if (hasIndex() && library.state.to_look) return 'The server looks at the library by itself. You can use what is there, or close this tab and come back.';
  if (limits.readonly || !sums.all) return '';
  const fewest = known.classes.filter(one => one.pictures > 0 && one.pictures < ENOUGH).sort((a, b) => a.pictures - b.pictures)[0];
  if (status.demo && !demoDone()) return demoTip();
  if (!known.classes.length && library.state?.words) return `What do you want to find? Search for a word, as word:dog, and accept (✓) ${ENOUGH} pictures that show it. Or select pictures, and say what they show.`;
  if (!known.classes.length) return `Select at least ${ENOUGH} pictures that show the same thing (the circle in their corner, a frame drawn with the mouse, or the space bar), and say what it is.`;
  if (known.classes.length === 1) return 'With a single tag, it may mark too much. Teach a second tag, or a few pictures that do not show it.';
  if (fewest) return `${fewest.name} has ${count(fewest.pictures, 'picture')}. ${ENOUGH} or more make it reliable.`;
  if (sums.unsure && !sums.taught) return 'Review the pictures it is not sure of: these teach it the most.';
  return '';
}

const demoTag = () => status.demo.teach ?? 'umbrella';
const demoDone = () => known.classes.some(one => same(one.name, demoTag()));

function demoTip() {
  const names = known.classes.map(one => one.name), few = names.slice(0, 3), missing = demoTag();
  const start = `This demonstration knows ${listed([...few, ...(names.length > 3 ? [`${names.length - 3} other things`] : [])])}.`;
  return `${start} It has never been told what ${/^[aeiou]/.test(missing) ? 'an' : 'a'} ${missing} is: select five pictures that show one, type ${missing}, and watch the others.`;
}

let unread = []; // files of the library that cannot be read, or are no pictures that are read
async function readUnread() {
  try {
    unread = (await get('/v1/library/problems')).problems;
    draw();
  } catch (problem) {
    notice('library', problem.message, {hint: problem.hint});
  }
}

const failedHere = () => pictures.filter(one => one.state === 'failed').map(one => ({path: one.path, error: one.error, hint: one.hint, again: () => store.again(one)}));

function files() {
  if (!hasIndex()) return filter.kind === 'left' ? leftOut : failedHere();
  return filter.kind === 'failed' ? unread.filter(one => one.state === 'failed') : [...unread.filter(one => one.state === 'other'), ...leftOut, ...failedHere()];
}

function sums() {
  const here = tally();
  return hasIndex() ? {...here, left: here.other + leftOut.length + failedHere().length, here: pictures.length} : {...here, left: leftOut.length, here: 0};
}

function draw() {
  const now = sums(), has = pictures.length > 0 || folder !== null || leftOut.length > 0 || hasIndex();
  find('#welcome').hidden = has;
  find('#collection').hidden = !has;
  find('#remove-all').hidden = !has || hasIndex() && !pictures.length;
  if (!has) return;
  find('#search').hidden = !hasIndex();
  drawFilters(filter, now, hasIndex() ? ['next', 'duplicates'] : [], show);
  if (hasIndex()) drawTree(filter.kind === 'folder' ? filter.folder : null, library.state.change, path => show({kind: 'folder', folder: path}));
  if (hasIndex()) showSearch(textOf(filter), list.filter === filter ? list.problem : null);
  list.update();
  drawList(now);
  drawProgress();
}

function drawList(now) {
  const rules = rulesOf(list.filter), isFiles = FILES.includes(filter.kind), isGroups = filter.kind === 'duplicates', none = isFiles ? !files().length : list.length === 0;
  find('#empty').textContent = list.problem ? '' : filter.kind === 'all' && isCounting() ? '' : filter.kind === 'all' && hasIndex() ? 'There are no pictures in the library.' : isFiles || hasIndex() || pictures.length ? rules.empty : 'There are no pictures in this folder itself.';
  find('#empty').hidden = isGroups || !none || list.hidden > 0;
  find('#grid').hidden = isFiles || isGroups || list.length === 0;
  find('#groups').hidden = !isGroups;
  if (isFiles) drawProblems(files());
  const advice = isFiles || isGroups || list.problem ? '' : tip(now);
  find('#tip').textContent = advice;
  find('#tip').hidden = !advice;
  const tag = judgedTag(list.filter), isKnown = known.classes.some(one => one.name === tag), judging = tag !== null && !limits.readonly && (isKnown || isFound(list.filter));
  find('#grid-keys').hidden = !judging || list.length === 0;
  find('#grid-keys-tag').textContent = tag ?? '';
  find('#grid-keys-like').hidden = !isFound(list.filter);
  find('#grid').classList.toggle('unknown', !isKnown);
  grid.set(list, tag, judging);
  drawHeading(now);
}

function drawHeading(now) {
  const {filter: about} = list, rules = rulesOf(about), tag = about.kind === 'tag' && known.classes.find(one => one.name === about.tag), n = now.tags.get(about.tag) ?? {taught: 0, suggested: 0};
  const isFiles = FILES.includes(about.kind), isGroups = about.kind === 'duplicates';
  find('#filter-title').textContent = rules.title;
  find('#filter-count').textContent = isGroups || list.problem ? '' : isFiles ? count(files().length, 'file') : tag ? `${number(n.taught)} taught, ${number(n.suggested)} suggested here` : count(list.length, 'picture');
  find('#rename').hidden = !tag || limits.readonly;
  find('.order').hidden = isFiles || isGroups || isOrdered(about) || list.problem !== null;
  drawReorder();
  find('#show-unsure').hidden = !list.hidden;
  find('#show-unsure').textContent = `Show ${number(list.hidden)} that it is not sure of`;
  const unsure = isFound(about) ? ['all', 'unsure'].includes(about.kind) ? now.unsure : 0 : list.here().filter(picture.isUnsure).length, start = find('#start-review');
  start.hidden = limits.readonly || !known.classes.length || isFiles || isGroups || list.problem !== null;
  start.disabled = isFound(about) ? !list.length : !list.here().some(one => picture.isDone(one) && !picture.isSettled(one));
  start.textContent = unsure ? `Review: ${number(unsure)} unsure` : 'Review';
}

// At the bottom, which lies over the tiles: it comes and goes while they are clicked, and must not move them.
function drawReorder() {
  const {kind} = list.filter;
  find('#reorder').hidden = find('#pictures').hidden || FILES.includes(kind) || kind === 'duplicates' || list.problem !== null || !list.stale;
  drawLine();
}

// What this page sends comes first, then what the server does by itself.
function progress() {
  const here = store.progress(), state = library.state;
  if (here.done < here.total) return {...here, text: `${number(here.done)} of ${number(here.total)} looked at`};
  if (isCounting()) return {total: 1, done: 0, text: 'counting the pictures'};
  if (state?.to_look) {
    const left = state.seconds_left === null ? '' : `, ${time(state.seconds_left)} left`;
    return {total: state.pictures, done: state.pictures - state.to_look, text: `${number(state.pictures - state.to_look)} of ${number(state.pictures)} looked at${left}`};
  }
  if (state && state.scored < state.done) return {total: state.done, done: state.scored, text: `tags of ${number(state.scored)} of ${number(state.done)} are up to date`};
  return {total: 0, done: 0, text: ''};
}

function drawProgress() {
  const {total, done, text} = progress();
  find('#progress').hidden = done === total;
  find('#progress-bar').max = Math.max(1, total);
  find('#progress-bar').value = done;
  find('#progress-text').textContent = connection.gone ? 'waiting for the server' : connection.busy ? 'the server is busy; this continues by itself' : text;
  drawLine();
}

function judge(which, yes) {
  const {tag} = grid;
  if (!yes && !known.classes.some(one => one.name === tag)) return say(`There is no tag ${tag} yet. Accept (✓) a picture that shows it first.`);
  for (const one of which) list.hold(one);
  lessons.judge(which, tag, yes);
}

const grid = new Grid(find('#grid'), {
  open: index => reviewList(list, index),
  like: showLike,
  select: drawSelection,
  judge,
  full: () => say(`No more than ${number(MOST_SELECTED)} pictures can be selected at a time.`),
});
selectionOf(grid, showLike);
store.showFirst(() => grid.visible());
let pool = []; // what is being reviewed
watchPictures(() => [...grid.visible(), ...pool]);
picture.events.addEventListener('change', draw);
find('#order').addEventListener('change', event => {
  if (!isRanked() && !OWN[filter.kind]) preferred[place()] = event.target.value;
  open(event.target.value);
});
find('#reorder').addEventListener('click', () => {
  open(list.order, {unsure: list.unsure});
  find('#grid').focus({preventScroll: true});
});
find('#show-unsure').addEventListener('click', () => {
  open(list.order, {unsure: true, stay: true});
  find('#grid').focus({preventScroll: true});
});
searchBox(async text => {
  await show(filterOf(text));
  if (!list.problem) find('#grid').focus({preventScroll: true});
});

// What is in doubt when the review starts is gone through, also when its filter no longer takes it.
find('#start-review').addEventListener('click', async () => {
  if (isFound(filter)) {
    const doubtful = openList(filter.kind === 'like' ? {kind: 'all'} : filter, filter.kind === 'next' ? 'novel' : 'unsure', true);
    await doubtful.ready;
    pool = await doubtful.load(0, TO_REVIEW);
  } else {
    pool = filter.kind === 'unsure' ? pictures : [...list.here()];
  }
  const from = pool;
  if (!reviewUnsure(() => from, filter.kind === 'next')) say('Nothing is left to review here.');
});
find('#review').addEventListener('close', () => { pool = []; });

// --- adding pictures ------------------------------------------------------------------------------------------------------------------

adding({shown: () => {
  location.hash = '#pictures';
  if (hasIndex()) show({kind: 'here'});
}, showLeft: () => show({kind: 'left'})});
for (const id of ['open-library', 'welcome-library']) find(`#${id}`).addEventListener('click', () => {
  location.hash = '#pictures';
  openLibrary('');
});
find('#remove-all').addEventListener('click', () => {
  localStorage.removeItem(LIBRARY);
  folder = null;
  leftOut.length = 0;
  store.remove([...pictures]);
  drawFolders([]);
  show({kind: 'all'});
  say('All pictures were removed from this page. What was taught stays.');
});

let folder = null; // of the library: {name, deep}; null: not open

async function readFolder(name, still) {
  const below = [];
  for (let from = 0, total = 1; from < total && still();) {
    const part = await get(`/v1/library?folder=${encodeURIComponent(name)}&from=${from}&count=1000`);
    if (from === 0) below.push(...part.folders);
    if (still()) store.addLibrary(part.pictures.map(one => one.path));
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
  store.remove(pictures.filter(one => !one.file));
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
  drawReorder();
  if (name === 'quality') quality(showTag);
  if (name === 'history') history();
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

// A list of the index comes in parts.
async function exported(which, progress) {
  if (!hasIndex()) return which === 'shown' ? list.here() : pictures;
  const wanted = which === 'shown' ? list : openList({kind: which === 'taught' ? 'taught' : 'all'}, 'name'), all = [];
  await wanted.ready;
  for (let part; all.length < wanted.length && (part = await wanted.load(all.length, all.length + 1000)).length;) {
    all.push(...part);
    progress(all.length);
  }
  return all;
}

exportDialog({model: () => status.model, number: () => hasIndex() ? library.state.done : pictures.filter(picture.isDone).length, isPart: () => filter.kind !== 'all' && list.length > 0, load: exported});
renameDialog({tag: () => filter.tag, renamed: tag => show({kind: 'tag', tag})});

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
  const first = status.model === '', before = limits.readonly;
  status = next;
  if (first && next.demo) preferred.found = 'name'; // its pictures were all drawn just now
  limits.readonly = next.readonly || next.role === 'read';
  limits.body = next.max_body;
  find('#model').textContent = next.model.split('/').pop();
  document.title = `${next.model.split('/').pop()} – l3a`;
  setReadonly(limits.readonly);
  find('#export-tagger').hidden = next.role !== 'admin';
  for (const id of ['open-library', 'welcome-library']) find(`#${id}`).hidden = !next.library || hasIndex();
  find('#welcome-demo').hidden = Boolean(next.demo);
  showBarrier(next);
  const trouble = next.savable === false ? 'Your lessons are kept, but the model file cannot be updated.' : 'The server is not ready.';
  if (next.ready === false) notice('ready', trouble, {hint: next.trouble ?? 'See its messages in the terminal.', closes: false});
  else dismiss('ready');
  if (!first && before !== limits.readonly) {
    draw();
    drawSelection();
    if (location.hash === '#history') history();
  }
  return first;
}

async function watch() {
  for (;;) {
    await new Promise(done => setTimeout(done, document.hidden ? 5 * POLL : isCounting() ? COUNTING : isBusy() ? BUSY : POLL));
    try {
      learnStatus(await get('/v1/status'));
      if (status.edition !== known.edition && !lessons.pending()) await refresh();
      else if (hasIndex()) await readState();
    } catch (problem) {
      notice('status', problem.message, {hint: problem.hint});
    }
  }
}

let wasGone = false;
connection.addEventListener('change', () => {
  if (wasGone && !connection.gone) refresh(); // it may have started anew, without what it had in memory
  wasGone = connection.gone;
});

async function start() {
  menu(find('#add'));
  new ResizeObserver(([{target}]) => document.documentElement.style.setProperty('--header', `${target.offsetHeight}px`)).observe(find('header'));
  route();
  try {
    learnStatus(await get('/v1/status'));
    await store.readClasses();
    if (status.library) await readState();
    if (hasIndex()) learnStatus(status);
    if (hasIndex()) await open(ownOrder());
    await store.restore();
    const last = JSON.parse(localStorage.getItem(LIBRARY) ?? 'null') ?? (status.demo && !pictures.length ? {name: '', deep: true} : null);
    if (status.library && !hasIndex() && last) await openLibrary(last.name, last.deep);
  } catch (problem) {
    notice('status', problem.message, {hint: problem.hint});
  }
  draw();
  document.body.dataset.ready = 'true';
  watch();
}

start();
