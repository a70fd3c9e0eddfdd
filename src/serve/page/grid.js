// A grid of any number of pictures. Only the rows near the screen exist; a row that leaves gives its tiles to one that comes. To
// keyboards and screen readers it is a list of options, of which several can be selected: the focus stays on the list itself, and
// aria-activedescendant names the picture that the arrow keys have reached.
//
// Browsers limit the height of an element. A list that would be taller stands in an element of height TALLEST, and the part of it that
// is drawn is moved: 'shift' is how far the place in the list is ahead of the place in the element. Short ways scroll as they always
// do; long ones, with the scroll bar, lead to the same share of the list. When scrolling has ended, both are brought together again.
import {find, make} from './dom.js';
import {band} from './band.js';
import {Tile} from './tile.js';

const GAP = 14, BEYOND = 2; // rows kept above and below the screen
const TALLEST = 4e6;        // pixels; Firefox allows 17 million, and fractions must not get lost
const SETTLED = 150;        // milliseconds without scrolling
const CLOSE = 300;          // pixels from an end of the element
export const MOST_SELECTED = 5000;

const EMPTY = {length: 0, at: () => undefined, indexOf: () => -1, has: () => false, need() {}, load: async () => []};

export class Grid {
  // open(index): the person wants to see the picture; like(pictures): more like these; select(): the selection changed; judge(pictures, yes, picked): the tag that is listed
  // was accepted or rejected; full(): more was selected than can be.
  constructor(root, {open, like, select, judge, full}) {
    Object.assign(this, {root, onOpen: open, onLike: like, onSelect: select, onJudge: judge, onFull: full, list: EMPTY, tiles: new Map(), spare: [], active: 0, tag: null, judging: false,
                         selected: new Set(), anchor: null, base: null, columns: 1, shift: 0, place: 0});
    this.body = make('div', {class: 'rows', role: 'presentation'});
    root.append(this.body);
    addEventListener('scroll', () => this.scrolled(), {passive: true});
    new ResizeObserver(() => this.measure()).observe(root);
    root.addEventListener('keydown', event => this.key(event));
    root.addEventListener('focus', () => this.draw());
    root.addEventListener('blur', () => this.draw());
    this.body.addEventListener('click', event => this.click(event));
    this.touch();
    band(root.parentElement, {within: root, place: () => this.scrolledBy() + this.shift, start: adding => this.bandStart(adding), move: box => this.bandMove(box), end: cancelled => this.bandEnd(cancelled)});
  }

  plan() {
    this.planned ??= requestAnimationFrame(() => {
      this.planned = null;
      this.draw();
    });
  }

  // --- where things are --------------------------------------------------------------------------------------------------------------

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
    this.shift = this.shiftAt(this.scrolledBy());
    this.draw();
  }

  rows() {
    return Math.ceil(this.list.length / this.columns);
  }

  whole() {
    return Math.max(0, this.rows() * this.height - GAP);
  }

  tall() {
    return Math.min(this.whole(), TALLEST);
  }

  // How far the element is scrolled above the window's upper edge.
  scrolledBy() {
    return -this.body.getBoundingClientRect().top;
  }

  shiftAt(place) {
    const room = this.tall() - innerHeight;
    return this.whole() > TALLEST ? Math.max(0, Math.min(1, place / room)) * (this.whole() - this.tall()) : 0;
  }

  scrolled() {
    if (this.whole() > TALLEST && this.root.offsetParent !== null) {
      const place = this.scrolledBy();
      if (Math.abs(place - this.place) > 2 * innerHeight) this.shift = this.shiftAt(place);
      this.place = place;
      const end = this.tall() - innerHeight;
      if (this.shift > 0 && place < CLOSE || this.shift < this.whole() - this.tall() && place > end - CLOSE) this.settle();
      clearTimeout(this.settling);
      this.settling = setTimeout(() => this.settle(), SETTLED);
    }
    this.plan();
  }

  // The same part of the list, where it belongs in the element.
  settle() {
    if (this.whole() > TALLEST && this.root.offsetParent) this.jump(this.scrolledBy() + this.shift);
  }

  // To a place in the list.
  jump(inList) {
    const whole = this.whole(), tall = this.tall(), end = whole - innerHeight;
    const wanted = inList <= 0 ? inList : inList >= end ? inList - (whole - tall) : inList / end * (tall - innerHeight);
    const by = Math.round(wanted - this.scrolledBy());
    if (by) scrollBy(0, by);
    this.place = this.scrolledBy();
    this.shift = inList - this.place;
    this.draw();
  }

  // The upper edge of a row in the element.
  top(row) {
    return row * this.height - this.shift;
  }

  range(beyond) {
    if (!this.height || this.root.offsetParent === null) return {first: 0, last: 0};
    const top = -this.scrolledBy() - this.shift;
    const from = Math.floor(-top / this.height) - beyond, to = Math.ceil((innerHeight - top) / this.height) + beyond;
    return {first: Math.max(0, Math.min(this.list.length, from * this.columns)), last: Math.min(this.list.length, Math.max(0, to) * this.columns)};
  }

  visible() {
    const {first, last} = this.range(0), found = [];
    for (let i = first; i < last; i++) if (this.list.at(i)) found.push(this.list.at(i));
    return found;
  }

  // --- drawing -----------------------------------------------------------------------------------------------------------------------

  // tag: to be named first, or null; judging: it can be accepted and rejected. The same list again: it has changed.
  set(list, tag = null, judging = false) {
    const same = list === this.list, at = same ? this.activePicture : null;
    Object.assign(this, {list, tag, judging});
    this.root.classList.toggle('judging', judging);
    if (!same) {
      this.shift = this.place = this.active = 0;
      this.anchor = this.base = null;
    }
    const moved = at ? list.indexOf(at) : -1;
    this.active = moved >= 0 ? moved : Math.max(0, Math.min(this.active, list.length - 1));
    const before = this.selected.size;
    for (const picture of this.selected) if (!list.has(picture)) this.selected.delete(picture);
    if (this.selected.size !== before) this.selectionChanged();
    this.draw();
  }

  clear() {
    for (const tile of this.tiles.values()) this.release(tile);
    this.tiles.clear();
  }

  release(tile) {
    tile.empty();
    this.spare.push(tile);
  }

  // A picture keeps its tile wherever it goes.
  draw() {
    if (!this.height) return;
    this.shift = Math.max(0, Math.min(this.shift, this.whole() - this.tall()));
    this.body.style.height = `${this.tall()}px`;
    const {first, last} = this.range(BEYOND);
    this.list.need(first, last);
    const kept = new Map();
    for (const tile of this.tiles.values()) {
      if (tile.picture && !kept.has(tile.picture)) kept.set(tile.picture, tile);
      else this.release(tile);
    }
    this.tiles = new Map();
    for (let i = first; i < last; i++) {
      const picture = this.list.at(i), tile = picture && kept.get(picture);
      if (tile) kept.delete(picture);
      this.tiles.set(i, tile);
    }
    for (const tile of kept.values()) this.release(tile);
    for (let i = last - 1; i >= first; i--) this.put(i); // the thumbnails that are asked for last come first
    this.order(first, last);
    const tile = this.tiles.get(this.active);
    this.activePicture = this.list.at(this.active);
    if (tile) this.root.setAttribute('aria-activedescendant', tile.element.id);
    else this.root.removeAttribute('aria-activedescendant');
  }

  // Screen readers read the tiles in the order of the document.
  order(first, last) {
    let at = this.body.firstChild;
    for (let i = first; i < last; i++) {
      const {element} = this.tiles.get(i);
      if (element === at) at = at.nextSibling;
      else this.body.insertBefore(element, at);
    }
  }

  put(index) {
    const picture = this.list.at(index);
    let tile = this.tiles.get(index);
    if (!tile) {
      tile = this.spare.pop() ?? new Tile();
      this.tiles.set(index, tile);
      tile.fill(picture, index);
    }
    tile.index = index;
    const {element} = tile;
    element.style.transform = `translate(${(index % this.columns) * (this.width + GAP)}px, ${this.top(Math.floor(index / this.columns))}px)`;
    element.id = picture ? `picture-${picture.order}` : `place-${index}`;
    element.setAttribute('aria-posinset', index + 1);
    element.setAttribute('aria-setsize', this.list.length);
    element.setAttribute('aria-selected', this.selected.has(picture));
    element.classList.toggle('active', index === this.active && document.activeElement === this.root);
    tile.label({tag: this.tag, judging: this.judging, width: this.width, em: this.em});
  }

  // --- selecting ---------------------------------------------------------------------------------------------------------------------

  toggle(index, on = !this.selected.has(this.list.at(index))) {
    const picture = this.list.at(index);
    if (picture) this.selected[on ? 'add' : 'delete'](picture);
    this.anchor = index;
    this.base = null;
  }

  // From the anchor to here, instead of the last such range.
  async extend(index) {
    this.anchor ??= this.active;
    this.base ??= new Set(this.selected);
    const from = Math.min(this.anchor, index), to = Math.max(this.anchor, index) + 1;
    await this.select(from, to, this.base);
  }

  // These and those; what is not here yet is fetched.
  async select(from, to, others = new Set()) {
    const {list} = this, last = Math.min(to, from + MOST_SELECTED), asked = this.asked = {};
    if (to > last) this.onFull();
    const here = [];
    for (let i = from; i < last; i++) here.push(list.at(i));
    const found = here.every(Boolean) ? here : await list.load(from, last);
    if (asked !== this.asked || list !== this.list) return;
    this.selected = new Set([...others, ...found]);
    this.selectionChanged();
  }

  selectionChanged() {
    this.root.classList.toggle('selecting', this.selected.size > 0);
    this.draw();
    this.onSelect();
  }

  selectNone() {
    this.asked = null;
    this.selected.clear();
    this.anchor = this.base = null;
    this.selectionChanged();
  }

  bandStart(adding) {
    this.banded = {others: adding ? new Set(this.selected) : new Set(), before: new Set(this.selected), ranges: []};
    this.root.focus({preventScroll: true});
  }

  // Whole rows are one range, parts of rows one each.
  bandMove({left, top, right, bottom}) {
    const body = this.body.getBoundingClientRect(), pitch = this.width + GAP;
    const column = x => (x - body.left) / pitch, row = y => (y - body.top + this.shift) / this.height;
    const past = (at, share) => Math.floor(at) + (at % 1 > share ? 1 : 0); // the gap belongs to no tile
    const firstColumn = Math.max(0, past(column(left), this.width / pitch)), lastColumn = Math.min(this.columns - 1, Math.floor(column(right)));
    const firstRow = Math.max(0, past(row(top), 1 - GAP / this.height)), lastRow = Math.min(this.rows() - 1, Math.floor(row(bottom)));
    this.banded.ranges = [];
    const taken = new Set(this.banded.others);
    for (let y = firstRow; y <= lastRow && firstColumn <= lastColumn && taken.size < MOST_SELECTED; y++) {
      const from = y * this.columns + firstColumn, to = Math.min(this.list.length, y * this.columns + lastColumn + 1);
      this.banded.ranges.push([from, to]);
      for (let i = from; i < to; i++) if (this.list.at(i)) taken.add(this.list.at(i));
    }
    this.selected = taken;
    this.selectionChanged();
  }

  async bandEnd(cancelled) {
    const {others, before, ranges} = this.banded, {list} = this;
    if (cancelled) {
      this.selected = before;
    } else if (ranges.some(([from, to]) => { for (let i = from; i < to; i++) if (!list.at(i)) return true; return false; })) {
      const found = await Promise.all(ranges.map(([from, to]) => list.load(from, to)));
      if (list === this.list) this.selected = new Set([...others, ...found.flat()]);
    }
    if (ranges.length) this.anchor = ranges[0][0];
    this.base = null;
    this.selectionChanged();
  }

  click(event) {
    const element = event.target.closest('.cell');
    if (!element || this.held) {
      this.held = false;
      return;
    }
    const index = Number(element.getAttribute('aria-posinset')) - 1, picture = this.list.at(index);
    const said = this.judging && event.target.closest('[data-say]')?.dataset.say;
    if (!picture) return;
    if (said) return this.judge(index, said === 'yes');
    if (event.shiftKey) this.extend(index);
    this.active = index;
    if (event.shiftKey) return;
    if (event.target.closest('.check') || event.ctrlKey || event.metaKey || this.selected.size) this.toggle(index);
    else return this.onOpen(index);
    this.selectionChanged();
  }

  // One picture, or all that are selected if it is one of them.
  judge(index, yes) {
    const picture = this.list.at(index), many = this.selected.has(picture);
    this.active = index;
    if (picture) this.onJudge(many ? [...this.selected] : [picture], yes);
    if (many) this.selectNone();
  }

  // A long press selects, as in galleries on phones.
  touch() {
    let timer = null, at = null;
    const stop = () => clearTimeout(timer);
    this.body.addEventListener('pointerdown', event => {
      const element = event.pointerType === 'touch' && !event.target.closest('[data-say]') && event.target.closest('.cell');
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

  // --- keys --------------------------------------------------------------------------------------------------------------------------

  key(event) {
    if (event.altKey || event.target !== this.root) return;
    const page = this.columns * Math.max(1, Math.floor(innerHeight / this.height) - 1), last = this.list.length - 1, control = event.ctrlKey || event.metaKey;
    const moves = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns, PageDown: page, PageUp: -page, Home: -last, End: last};
    const says = {y: true, Y: true, x: false, X: false};
    if (event.key in moves && last >= 0) this.move(Math.max(0, Math.min(last, this.active + moves[event.key])), event.shiftKey);
    else if (event.key === ' ') this.toggle(this.active), this.selectionChanged();
    else if (event.key === 'Enter' && this.list.at(this.active)) this.onOpen(this.active);
    else if (event.key === 'a' && control) this.select(0, this.list.length);
    else if (event.key === 'Escape' && this.selected.size) this.selectNone();
    else if (event.key.toLowerCase() === 'l' && !control && this.list.at(this.active)) this.onLike(this.selected.size ? [...this.selected] : [this.list.at(this.active)]);
    else if (this.judging && !control && event.key in says) this.say(says[event.key]);
    else return;
    event.preventDefault();
  }

  // What is selected, or the active picture; then on to the next one.
  say(yes) {
    if (this.selected.size) {
      this.onJudge([...this.selected], yes);
      this.selectNone();
    } else {
      this.judge(this.active, yes);
      this.move(Math.min(this.list.length - 1, this.active + 1), false);
    }
  }

  move(index, extending) {
    if (extending) this.extend(index);
    this.active = index;
    this.reveal(index);
    this.draw();
  }

  // Scrolls no further than needed; the bars at the top and at the bottom cover a part of the window.
  reveal(index) {
    const row = Math.floor(index / this.columns), top = this.body.getBoundingClientRect().top + this.top(row);
    const above = find('header').getBoundingClientRect().bottom + 12, below = innerHeight - (find('#selection').offsetHeight + find('#line').offsetHeight) - 12;
    const by = top < above ? top - above : top + this.height > below ? Math.min(top + this.height - below, top - above) : 0;
    if (Math.abs(by) > innerHeight && this.whole() > TALLEST) this.jump(this.scrolledBy() + this.shift + by);
    else if (by) scrollBy(0, by);
  }
}
