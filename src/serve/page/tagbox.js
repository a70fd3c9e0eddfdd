// A text field that completes known tags and offers to make a new one.
import {make} from './dom.js';
import {known} from './picture.js';
import {plain, same} from './words.js';

const OFFERED = 8;
let number = 0;

function matches(text, without) {
  const names = known.classes.map(one => one.name).filter(name => !without().includes(name));
  const word = text.toLowerCase();
  const starts = names.filter(name => name.toLowerCase().startsWith(word));
  const inside = names.filter(name => !name.toLowerCase().startsWith(word) && name.toLowerCase().includes(word));
  return [...starts, ...inside].slice(0, OFFERED);
}

// pick(tag): a tag was chosen; done(): Enter in an empty field; without(): tags not to offer.
export function tagbox({label, hint, pick, done, without = () => []}) {
  const id = `tagbox-${++number}`;
  const options = make('ul', {id: `${id}-list`, role: 'listbox', 'aria-label': 'Tags', hidden: true});
  const input = make('input', {id, type: 'text', role: 'combobox', autocomplete: 'off', autocapitalize: 'none', spellcheck: 'false', maxlength: '120', placeholder: hint,
                               enterkeyhint: 'done', 'aria-expanded': 'false', 'aria-autocomplete': 'list', 'aria-controls': `${id}-list`});
  const root = make('div', {class: 'tagbox'}, make('label', {for: id}, label), make('div', {class: 'field'}, input, options));
  let offered = [], at = -1;

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

  function offer() {
    const text = plain(input.value);
    const found = matches(text, without);
    const isNew = text && !known.classes.some(one => same(one.name, text)) && !without().some(tag => same(tag, text));
    offered = [...found.map(tag => ({tag})), ...(isNew ? [{tag: text, isNew}] : [])];
    options.replaceChildren(...offered.map((one, i) => make('li', {id: `${id}-${i}`, role: 'option', 'aria-selected': 'false'},
      one.isNew ? make('span', {class: 'soft'}, 'new tag ') : '', make('b', {}, one.tag))));
    options.hidden = offered.length === 0;
    input.setAttribute('aria-expanded', String(!options.hidden));
    // Enter takes the tag that was typed, or the first that begins like it, or makes the word a tag.
    const exact = offered.findIndex(one => !one.isNew && same(one.tag, text)), begins = offered.findIndex(one => one.tag.toLowerCase().startsWith(text.toLowerCase()));
    mark(text && offered.length ? exact >= 0 ? exact : begins : -1);
  }

  function choose(tag) {
    input.value = '';
    close();
    pick(tag);
  }

  input.addEventListener('input', offer);
  input.addEventListener('focus', offer);
  input.addEventListener('blur', close);
  options.addEventListener('pointerdown', event => event.preventDefault()); // the field keeps the focus
  options.addEventListener('click', event => {
    const index = [...options.children].indexOf(event.target.closest('li'));
    if (index >= 0) choose(offered[index].tag);
  });
  input.addEventListener('keydown', event => {
    if (event.isComposing) return;
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      if (options.hidden) offer();
      if (offered.length) mark((at + (event.key === 'ArrowDown' ? 1 : -1) + offered.length) % offered.length);
    } else if (event.key === 'Enter') {
      if (at >= 0) choose(offered[at].tag);
      else if (!plain(input.value)) done?.();
    } else if (event.key === ',' && plain(input.value)) {
      choose(known.classes.find(one => same(one.name, input.value))?.name ?? plain(input.value));
    } else if (event.key === 'Escape' && !options.hidden) {
      close();
    } else if (event.key === 'Escape' && input.value) {
      input.value = '';
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  });
  // What was typed but not yet chosen: a button beside the field takes it along.
  root.flush = () => {
    const text = plain(input.value);
    if (text) choose(known.classes.find(one => same(one.name, text))?.name ?? text);
  };
  root.input = input;
  root.empty = () => {
    input.value = '';
    close();
  };
  return root;
}
