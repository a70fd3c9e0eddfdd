// The search box: an expression in one line, with the tags that could be meant by what is being typed, and words that the network knows.
import {find, make} from './dom.js';
import {known} from './picture.js';
import {library} from './library.js';
import {quote, tokens} from './query.js';
import {get} from './server.js';
import {list, same, sentence} from './words.js';

const OFFERED = 9, TYPING = 150, LEAST = 3;
const KEYS = [['is:untagged', 'pictures without a tag'], ['is:unsure', 'what it is not sure of'], ['is:said', 'taught by you'], ['folder:', 'pictures in a folder'],
              ['since:', 'taken since, as since:2024-06'], ['until:', 'taken until'], ['name:', 'a part of the name of the file']];
const JOIN = [['and', 'both'], ['or', 'one of the two'], ['not', 'without']];

const input = find('#search-text'), options = find('#search-list'), note = find('#search-note');
let offered = [], at = -1, asked = 0, run = () => {};

// The token that is being typed.
function current() {
  const place = input.selectionStart, all = tokens(input.value), index = all.findIndex(one => one.at < place && one.end >= place), token = all[index];
  return {token: token ?? {text: '', at: place, end: place}, before: (index < 0 ? all.filter(one => one.end <= place) : all.slice(0, index)).at(-1)};
}

const isOpen = before => !before || /^(and|or|not|\()$/i.test(before.text); // a tag has to come

function offers() {
  const {token, before} = current(), text = token.text.replace(/^"|"$/g, '').toLowerCase();
  const names = known.classes.map(one => one.name), starts = names.filter(name => name.toLowerCase().startsWith(text)), inside = names.filter(name => !starts.includes(name) && name.toLowerCase().includes(text));
  const tags = [...starts, ...(text ? inside : [])].map(name => ({text: quote(name), label: name, what: 'tag'}));
  const keys = KEYS.filter(([key]) => key.startsWith(text)).map(([key, what]) => ({text: key, label: key, what, open: key.endsWith(':')}));
  const joins = isOpen(before) ? JOIN.slice(2) : JOIN;
  const words = joins.filter(([word]) => word.startsWith(text)).map(([word, what]) => ({text: word, label: word, what, open: true}));
  return (text || isOpen(before) ? [...tags, ...keys, ...words] : [...words, ...tags]).slice(0, OFFERED);
}

function close() {
  options.hidden = true;
  input.setAttribute('aria-expanded', 'false');
  input.removeAttribute('aria-activedescendant');
  at = -1;
}

function mark(index) {
  at = index;
  [...options.children].forEach((option, i) => option.setAttribute('aria-selected', i === at));
  if (at >= 0) {
    input.setAttribute('aria-activedescendant', options.children[at].id);
    options.children[at].scrollIntoView({block: 'nearest'});
  } else {
    input.removeAttribute('aria-activedescendant');
  }
}

function draw(found) {
  offered = found;
  options.replaceChildren(...offered.map((one, i) => make('li', {id: `search-${i}`, role: 'option', 'aria-selected': 'false'}, make('b', {}, one.label), make('span', {class: 'soft'}, one.what))));
  options.hidden = !offered.length || document.activeElement !== input;
  input.setAttribute('aria-expanded', String(!options.hidden));
  mark(-1);
}

// A word that is no tag may still be one that the network learned before.
async function offer() {
  const found = offers(), {token} = current(), text = token.text.replace(/^word:/i, '').replace(/^"|"$/g, ''), mine = ++asked;
  draw(found);
  if (!library.state?.words || text.length < LEAST || known.classes.some(one => same(one.name, text)) || /^(and|or|not|[a-z]+:.*)$/i.test(text)) return;
  await new Promise(done => setTimeout(done, TYPING));
  if (mine !== asked) return;
  try {
    const {words} = await get(`/v1/words?text=${encodeURIComponent(text)}`);
    if (mine !== asked || !words.length) return;
    draw([...found, {text: `word:${quote(text)}`, label: `word:${text}`, what: `a word that the network knows: ${list(words.slice(0, 3))}${words.length > 3 ? ', …' : ''}`}]);
  } catch { /* then there are none */ }
}

function choose(one) {
  const {token} = current(), after = input.value.slice(token.end), text = one.text + (one.text.endsWith(':') ? '' : ' ');
  input.value = input.value.slice(0, token.at) + text + after.trimStart();
  const place = token.at + text.length;
  input.setSelectionRange(place, place);
  if (one.open || after.trim()) return offer();
  close();
  submit();
}

function submit() {
  close();
  asked++;
  run(input.value.trim());
}

// search(text): the person wants to see what the text says.
export function searchBox(search) {
  run = search;
  input.addEventListener('input', offer);
  input.addEventListener('focus', offer);
  input.addEventListener('blur', close);
  options.addEventListener('pointerdown', event => event.preventDefault()); // the field keeps the focus
  options.addEventListener('click', event => {
    const index = [...options.children].indexOf(event.target.closest('li'));
    if (index >= 0) choose(offered[index]);
  });
  input.addEventListener('keydown', event => {
    if (event.isComposing) return;
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      if (options.hidden) offer();
      if (offered.length) mark((at + (event.key === 'ArrowDown' ? 1 : -1) + offered.length) % offered.length);
    } else if (event.key === 'Tab' && at >= 0 && !event.shiftKey) choose(offered[at]);
    else if (event.key === 'Enter' && at >= 0) choose(offered[at]);
    else if (event.key === 'Enter') submit();
    else if (event.key === 'Escape' && !options.hidden) close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  find('#search').addEventListener('submit', event => {
    event.preventDefault();
    submit();
  });
  addEventListener('keydown', event => {
    if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || event.target.matches('input, select, textarea') || document.querySelector('dialog[open]') || find('#search').offsetParent === null) return;
    event.preventDefault();
    input.focus();
    input.select();
  });
}

// A single word that is no tag: perhaps the network knows it.
async function offerWord(text, problem) {
  const other = find('button', note), all = tokens(text), word = all.length === 1 && !/^[a-z]+:/i.test(text) ? text.replace(/^"|"$/g, '') : '';
  other.hidden = true;
  if (!word || !library.state?.words) return;
  try {
    const {words} = await get(`/v1/words?text=${encodeURIComponent(word)}`);
    if (problem !== told || !words.length) return;
    other.textContent = `Look for pictures of ${list(words.slice(0, 3))}, which the network knows`;
    other.onclick = () => run(`word:${quote(word)}`);
    other.hidden = false;
  } catch { /* then it does not */ }
}

// What is listed now; problem: why nothing is.
let told = null;
export function showSearch(text, problem) {
  if (document.activeElement !== input) input.value = text;
  note.hidden = !problem;
  input.setAttribute('aria-invalid', String(Boolean(problem)));
  if (told === problem) return;
  told = problem;
  find('.problem', note).textContent = problem ? [problem.message, problem.hint].map(one => sentence(one ?? '')).join(' ').trim() : '';
  if (problem) offerWord(text, problem);
}
