// Pictures that are nearly the same, in groups.
import {button, find, make} from './dom.js';
import {pictureOf} from './library.js';
import {get} from './server.js';
import {showWhenSeen} from './thumbnails.js';
import {count, number} from './words.js';

const SHOWN = 40;

// A small picture with its name, to be opened.
function figure(picture, open) {
  const image = make('img', {alt: '', decoding: 'async'}), parts = picture.path.split('/');
  const element = make('li', {title: picture.path}, make('button', {type: 'button', 'aria-label': `Open ${picture.path}`, onclick: open}, image), make('span', {class: 'name'}, parts.pop()), make('span', {class: 'soft'}, parts.join('/')));
  showWhenSeen(element, image, picture);
  return element;
}

// open(pictures, index).
export async function duplicates(open) {
  const root = find('#groups');
  root.replaceChildren(make('p', {class: 'soft', role: 'status'}, 'Comparing pictures…'));
  try {
    const groups = (await get('/v1/duplicates')).groups.map(group => group.map(pictureOf));
    const rows = make('ol', {class: 'groups'}), more = button('', () => add(), {class: 'link'});
    let drawn = 0;
    const add = () => {
      rows.append(...groups.slice(drawn, drawn + SHOWN).map((group, i) => make('li', {class: 'card', 'aria-label': `Group ${number(drawn + i + 1)}: ${count(group.length, 'picture')}`},
        make('ul', {class: 'gallery'}, ...group.map((picture, k) => figure(picture, () => open(group, k)))))));
      drawn = Math.min(groups.length, drawn + SHOWN);
      more.hidden = drawn === groups.length;
      more.textContent = `Show more of ${count(groups.length, 'group')}`;
    };
    add();
    root.replaceChildren(groups.length ? rows : make('p', {class: 'soft centre'}, 'No two pictures are nearly the same.'), more);
    return groups.length;
  } catch (problem) {
    root.replaceChildren(make('p', {}, problem.message), make('p', {class: 'soft'}, problem.hint));
    return 0;
  }
}
