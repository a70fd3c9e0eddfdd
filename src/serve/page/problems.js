// Files that cannot be read, or were left out, by name and with the reason.
import {button, find, make} from './dom.js';
import {count, number, sentence} from './words.js';

const SHOWN = 500;
let seen = '', shown = SHOWN;

// all: [{path, error, hint, again}]; again(): look at the file once more, if it can be.
export function drawProblems(all) {
  const root = find('#problems'), now = JSON.stringify([all.map(one => [one.path, one.error, one.hint]), shown]);
  root.hidden = !all.length;
  if (now === seen) return;
  seen = now;
  const rows = all.slice(0, shown).map(one => make('li', {}, make('span', {class: 'path'}, one.path), make('span', {class: 'soft'}, [sentence(one.error), sentence(one.hint ?? '')].join(' ').trim()),
    one.again ? button('Try again', one.again, {class: 'link', 'aria-label': `Try again: ${one.path}`}) : null));
  const more = button(`Show ${number(Math.min(SHOWN, all.length - shown))} more of ${count(all.length, 'file')}`, () => {
    shown += SHOWN;
    drawProblems(all);
  }, {hidden: all.length <= shown});
  root.replaceChildren(make('ul', {class: 'card files'}, ...rows), more);
}

export function hideProblems() {
  shown = SHOWN;
  find('#problems').hidden = true;
}
