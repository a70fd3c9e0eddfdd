// The bar of selected pictures: what they show, or that they show none of the tags.
import {button, find} from './dom.js';
import * as lessons from './lessons.js';
import {known} from './picture.js';
import {limits} from './server.js';
import {say} from './messages.js';
import {remove} from './pictures.js';
import {tagbox} from './tagbox.js';
import {count, list, same} from './words.js';

const chosen = [];
const box = tagbox({label: 'They show', hint: 'type a tag', pick: tag => { choose(tag); box.input.focus({preventScroll: true}); }, done: teach, without: () => chosen});
find('#selection-add').append(box);
let grid = null, like = () => {};

// like_(pictures): more like these.
export function selectionOf(grid_, like_) {
  grid = grid_;
  like = like_;
}

function choose(tag) {
  if (!chosen.some(one => same(one, tag))) chosen.push(tag);
  drawSelection();
}

export function drawSelection() {
  const selected = grid.selected.size;
  find('#selection').hidden = !selected || limits.readonly;
  find('#selection-count').textContent = `${count(selected, 'picture')} selected`;
  find('#selection-remove').hidden = [...grid.selected].some(picture => picture.id !== null);
  find('#selection-like').hidden = !selected || [...grid.selected].some(picture => picture.id === null);
  find('#selection-tags').replaceChildren(...chosen.map(tag => button(tag, () => {
    chosen.splice(chosen.indexOf(tag), 1);
    drawSelection();
    box.input.focus({preventScroll: true});
  }, {icon: 'close', 'aria-label': `Leave out ${tag}`})));
  find('#selection-none').hidden = !known.classes.length || chosen.length > 0;
  const {tag} = grid, judging = grid.judging && chosen.length === 0;
  find('#selection-verdicts').hidden = !judging;
  if (judging) {
    find('#selection-yes').textContent = `✓ ${tag}`;
    find('#selection-no').textContent = `✗ not ${tag}`;
    find('#selection-no').hidden = !known.classes.some(one => one.name === tag);
  }
  if (!selected && chosen.length) chosen.length = 0;
}

function end() {
  chosen.length = 0;
  find('#selection-complete').checked = false;
  box.empty();
  grid.selectNone();
  find('#grid').focus({preventScroll: true});
}

const readable = () => [...grid.selected].filter(picture => picture.state !== 'failed');

function teach() {
  box.flush();
  const selected = readable(), tags = [...chosen];
  if (!tags.length) {
    box.input.focus({preventScroll: true});
    return;
  }
  if (!selected.length) return;
  lessons.teachAlso(selected, tags, find('#selection-complete').checked);
  say(`Teaching ${list(tags)} from ${count(selected.length, 'picture')}…`);
  end();
}

function judge(yes) {
  grid.say(yes);
  end();
}

find('#selection-teach').addEventListener('click', teach);
find('#selection-yes').addEventListener('click', () => judge(true));
find('#selection-no').addEventListener('click', () => judge(false));
find('#selection-like').addEventListener('click', () => {
  const selected = [...grid.selected];
  end();
  like(selected);
});
find('#selection-clear').addEventListener('click', end);
find('#selection-remove').addEventListener('click', () => {
  const gone = [...grid.selected];
  end();
  remove(gone);
  say(`${count(gone.length, 'picture')} removed from this page. What was taught stays.`);
});
find('#selection-none').addEventListener('click', () => {
  lessons.teach(readable(), {tags: []});
  end();
});
