// A grid of any number of pictures. Only the rows near the screen exist; a row that leaves gives its cells to one that comes. To
// keyboards and screen readers it is a list of options, of which several can be selected: the focus stays on the list itself, and
// aria-activedescendant names the picture that the arrow keys have reached.
import {find, icon, make} from './dom.js';
import {confirmed, isSettled, isTaught, isUnsure, known, shown, suggested} from './pictures.js';
import {isCached, showBlob, thumbnail} from './thumbnails.js';

const GAP = 14, BEYOND = 2; // rows kept above and below the screen

export function confidence({score, threshold}) {
  const ratio = threshold > 0 ? score / threshold : 2;
  return ratio >= 1.25 ? 'sure' : ratio >= 1 ? 'fairly sure' : ratio >= 0.8 ? 'not sure' : 'unlikely';
}

function describe(picture) {
  if (picture.state === 'failed') return `${picture.name}: cannot be read`;
  if (picture.state !== 'done') return `${picture.name}: not looked at yet`;
  const tags = shown(picture).join(', ') || 'none of your tags';
  return `${picture.name}: ${tags}${isTaught(picture) ? ', taught by you' : ''}${isUnsure(picture) ? ', not sure' : ''}`;
}

// Confirmed tags have a tick; suggested ones are as full as the tagger is sure of them.
function chips(picture, first) {
  if (picture.state === 'failed') return [make('span', {class: 'chip wrong'}, 'cannot be read')];
  if (picture.state !== 'done' && !isTaught(picture)) return [make('span', {class: 'chip quiet'}, '…')];
  const fresh = picture.news && picture.news.edition === known.edition ? picture.news.tags : null;
  const ticked = confirmed(picture).map(tag => make('span', {class: 'chip taught', 'data-tag': tag}, icon('tick'), tag));
  const guessed = suggested(picture).map(tag => make('span', {class: `chip ${confidence(tag) === 'sure' ? 'sure' : 'maybe'}${fresh?.has(tag.tag) ? ' fresh' : ''}`, 'data-tag': tag.tag}, tag.tag, confidence(tag) === 'sure' ? '' : '?'));
  const rank = chip => (chip.dataset.tag === first ? 0 : 4) + (chip.matches('.taught') ? 0 : chip.matches('.fresh') ? 1 : 2);
  const all = [...ticked, ...guessed].sort((a, b) => rank(a) - rank(b));
  if (!all.length) return [isSettled(picture) ? make('span', {class: 'chip taught'}, icon('tick'), 'none') : make('span', {class: 'chip quiet'}, '–')];
  return all;
}

// As many chips as fit on one line, and the number of the others.
const ruler = new OffscreenCanvas(1, 1).getContext('2d');
function pack(all, width, em) {
  ruler.font = `${0.8125 * em}px ${getComputedStyle(document.body).fontFamily}`;
  const wide = chip => ruler.measureText(chip.textContent).width + (chip.querySelector('svg') ? 2 : 1.25) * em;
  let used = 0, n = 0;
  for (const rest = 2.2 * em; n < all.length; n++) {
    used += wide(all[n]);
    if (n > 0 && used + (n < all.length - 1 ? rest : 0) > width) break;
  }
  return n < all.length ? [...all.slice(0, n), make('span', {class: 'chip quiet'}, `+${all.length - n}`)] : all;
}

export class Grid {
  // open(picture): the person wants to see it; select(): the selection changed.
  constructor(root, {open, select}) {
    Object.assign(this, {root, onOpen: open, onSelect: select, items: [], cells: new Map(), spare: [], active: 0, first: null, selected: new Set(), anchor: 0, columns: 1});
    this.body = make('div', {class: 'rows', role: 'presentation'});
    root.append(this.body);
    addEventListener('scroll', () => this.plan(), {passive: true});
    new ResizeObserver(() => this.measure()).observe(root);
    root.addEventListener('keydown', event => this.key(event));
    root.addEventListener('focus', () => this.draw());
    root.addEventListener('blur', () => this.draw());
    this.body.addEventListener('click', event => this.click(event));
    this.touch();
  }

  plan() {
    this.planned ??= requestAnimationFrame(() => {
      this.planned = null;
      this.draw();
    });
  }

  // Row height follows the width and the size of text.
  measure() {
    const width = this.root.clientWidth, em = parseFloat(getComputedStyle(this.root).fontSize);
    if (!width) return;
    this.columns = Math.max(1, Math.floor((width + GAP) / (Math.min(10 * em, (width - GAP) / 2) + GAP)));
    this.width = (width - GAP * (this.columns - 1)) / this.columns;
    this.em = parseFloat(getComputedStyle(document.documentElement).fontSize);
    this.height = this.width + 2.35 * em + GAP;
    this.body.style.setProperty('--cell', `${this.width}px`);
    this.clear();
    this.draw();
  }

  // first: the tag to name first, if any.
  set(items, first = null) {
    this.first = first;
    const at = this.items[this.active];
    this.items = items;
    const moved = at ? items.indexOf(at) : -1;
    this.active = moved >= 0 ? moved : Math.min(this.active, Math.max(0, items.length - 1));
    const here = new Set(items);
    const before = this.selected.size;
    for (const picture of this.selected) if (!here.has(picture)) this.selected.delete(picture);
    if (this.selected.size !== before) this.onSelect();
    this.draw();
  }

  visible() {
    const {first, last} = this.range(0);
    return this.items.slice(first, last);
  }

  range(beyond) {
    if (!this.height || this.root.offsetParent === null) return {first: 0, last: 0};
    const top = this.body.getBoundingClientRect().top;
    const from = Math.floor(-top / this.height) - beyond, to = Math.ceil((innerHeight - top) / this.height) + beyond;
    return {first: Math.max(0, from * this.columns), last: Math.min(this.items.length, Math.max(0, to) * this.columns)};
  }

  clear() {
    for (const cell of this.cells.values()) this.release(cell);
    this.cells.clear();
  }

  release(cell) {
    showBlob(cell.image, null);
    cell.picture = null;
    cell.element.remove();
    this.spare.push(cell);
  }

  draw() {
    if (!this.height) return;
    this.body.style.height = `${Math.max(0, Math.ceil(this.items.length / this.columns) * this.height - GAP)}px`;
    const {first, last} = this.range(BEYOND);
    const wanted = new Set(this.items.slice(first, last));
    for (const [picture, cell] of this.cells) {
      if (!wanted.has(picture)) {
        this.cells.delete(picture);
        this.release(cell);
      }
    }
    for (let i = first; i < last; i++) this.place(i);
    this.order(first, last);
    const cell = this.cells.get(this.items[this.active]);
    if (cell) this.root.setAttribute('aria-activedescendant', cell.element.id);
    else this.root.removeAttribute('aria-activedescendant');
  }

  // Screen readers read the cells in the order of the document.
  order(first, last) {
    let at = this.body.firstChild;
    for (let i = first; i < last; i++) {
      const {element} = this.cells.get(this.items[i]);
      if (element === at) at = at.nextSibling;
      else this.body.insertBefore(element, at);
    }
  }

  place(index) {
    const picture = this.items[index];
    let cell = this.cells.get(picture);
    if (!cell) {
      cell = this.spare.pop() ?? this.cell();
      this.cells.set(picture, cell);
      cell.picture = picture;
      cell.seen = '';
      this.load(cell, picture);
    }
    const {element} = cell, x = (index % this.columns) * (this.width + GAP), y = Math.floor(index / this.columns) * this.height;
    element.style.transform = `translate(${x}px, ${y}px)`;
    element.id = `picture-${picture.order}`;
    element.setAttribute('aria-posinset', index + 1);
    element.setAttribute('aria-setsize', this.items.length);
    element.setAttribute('aria-selected', this.selected.has(picture));
    element.classList.toggle('active', index === this.active && document.activeElement === this.root);
    const words = describe(picture);
    const look = words + JSON.stringify(picture.tags.map(tag => [tag.tag, tag.predicted && confidence(tag)])) + picture.state + cell.blank + (picture.news?.edition ?? '') + known.edition + this.first;
    if (cell.seen !== look) {
      cell.seen = look;
      element.setAttribute('aria-label', words);
      element.title = picture.path;
      cell.chips.replaceChildren(...pack(chips(picture, this.first), this.width, this.em));
      cell.note.textContent = !cell.blank ? '' : picture.state === 'failed' ? 'This file cannot be read as a picture.' : 'This browser cannot show the picture.';
    }
  }

  cell() {
    const image = make('img', {alt: '', draggable: 'false', decoding: 'async'});
    const chipLine = make('div', {class: 'chips', 'aria-hidden': 'true'});
    const note = make('div', {class: 'note'});
    const element = make('div', {class: 'cell', role: 'option'}, make('div', {class: 'frame'}, image, note), make('span', {class: 'check'}, icon('tick')), chipLine);
    return {element, image, chips: chipLine, note, picture: null, blank: false};
  }

  async load(cell, picture) {
    cell.blank = false;
    if (!isCached(picture)) await new Promise(done => setTimeout(done, 60)); // not while scrolling past
    const wanted = () => cell.picture === picture;
    if (!wanted()) return;
    const blob = await thumbnail(picture, wanted);
    if (!wanted()) return;
    if (blob) showBlob(cell.image, blob);
    cell.blank = !blob;
    this.place(this.items.indexOf(picture));
  }

  toggle(index, on = !this.selected.has(this.items[index])) {
    const picture = this.items[index];
    if (picture) this.selected[on ? 'add' : 'delete'](picture);
    this.anchor = index;
  }

  extend(index) {
    const [from, to] = [Math.min(this.anchor, index), Math.max(this.anchor, index)];
    for (let i = from; i <= to; i++) this.selected.add(this.items[i]);
  }

  selectionChanged() {
    this.root.classList.toggle('selecting', this.selected.size > 0);
    this.draw();
    this.onSelect();
  }

  selectNone() {
    this.selected.clear();
    this.selectionChanged();
  }

  click(event) {
    const element = event.target.closest('.cell');
    if (!element || this.held) {
      this.held = false;
      return;
    }
    const index = Number(element.getAttribute('aria-posinset')) - 1;
    this.active = index;
    if (event.shiftKey) this.extend(index);
    else if (event.target.closest('.check') || event.ctrlKey || event.metaKey || this.selected.size) this.toggle(index);
    else return this.onOpen(this.items[index]);
    this.selectionChanged();
  }

  // A long press selects, as in galleries on phones.
  touch() {
    let timer = null, at = null;
    const stop = () => clearTimeout(timer);
    this.body.addEventListener('pointerdown', event => {
      const element = event.pointerType === 'touch' && event.target.closest('.cell');
      if (!element) return;
      at = [event.clientX, event.clientY];
      this.held = false;
      timer = setTimeout(() => {
        this.held = true;
        this.toggle(Number(element.getAttribute('aria-posinset')) - 1);
        this.selectionChanged();
      }, 500);
    });
    this.body.addEventListener('pointermove', event => at && Math.hypot(event.clientX - at[0], event.clientY - at[1]) > 10 && stop());
    for (const name of ['pointerup', 'pointercancel']) this.body.addEventListener(name, stop);
    this.body.addEventListener('contextmenu', event => this.held && event.preventDefault());
  }

  key(event) {
    if (event.altKey || event.target !== this.root) return;
    const page = this.columns * Math.max(1, Math.floor(innerHeight / this.height) - 1), last = this.items.length - 1;
    const moves = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns, PageDown: page, PageUp: -page, Home: -last, End: last};
    if (event.key in moves && last >= 0) this.move(Math.max(0, Math.min(last, this.active + moves[event.key])), event.shiftKey);
    else if (event.key === ' ') this.toggle(this.active), this.selectionChanged();
    else if (event.key === 'Enter' && this.items[this.active]) this.onOpen(this.items[this.active]);
    else if (event.key === 'a' && (event.ctrlKey || event.metaKey)) this.selected = new Set(this.items), this.selectionChanged();
    else if (event.key === 'Escape' && this.selected.size) this.selectNone();
    else return;
    event.preventDefault();
  }

  move(index, extending) {
    if (extending && !this.selected.size) this.anchor = this.active;
    this.active = index;
    if (extending) this.extend(index), this.selectionChanged();
    this.reveal(index);
    this.draw();
  }

  // Scrolls no further than needed; the bars at the top and at the bottom cover a part of the window.
  reveal(index) {
    const top = this.body.getBoundingClientRect().top + Math.floor(index / this.columns) * this.height;
    const above = find('header').getBoundingClientRect().bottom + 12, below = innerHeight - (find('#selection').offsetHeight + find('#line').offsetHeight) - 12;
    if (top < above) scrollBy(0, top - above);
    else if (top + this.height > below) scrollBy(0, Math.min(top + this.height - below, top - above));
  }
}
