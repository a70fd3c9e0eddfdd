// A tile of the grid: a picture, its tags, whether it is selected, and two marks to accept or reject the tag that is listed.
import {icon, make} from './dom.js';
import {confidence, confirmed, isDenied, isNear, isSettled, isTaught, isUnsure, known, shown, suggested} from './picture.js';
import {isCached, showBlob, thumbnail} from './thumbnails.js';

const UNREADABLE = 'This file cannot be read as a picture.', UNSHOWABLE = 'This browser cannot show the picture.';

function describe(picture, judging) {
  if (picture.state === 'failed') return `${picture.name}: cannot be read`;
  if (picture.state !== 'done' && !isTaught(picture)) return `${picture.name}: not looked at yet`;
  const tags = shown(picture).join(', ') || (isTaught(picture) && !judging ? 'none of your tags' : 'untagged');
  const verdict = judging && isDenied(picture, judging) ? `, not ${judging}` : '';
  return `${picture.name}: ${tags}${verdict}${isTaught(picture) ? ', taught by you' : ''}${isUnsure(picture) ? ', not sure' : ''}`;
}

// Confirmed tags have a tick, and those that the tagger is not sure of a question mark.
function chips(picture, first) {
  if (picture.state === 'failed') return [make('span', {class: 'chip wrong'}, 'cannot be read')];
  if (picture.state !== 'done' && !isTaught(picture)) return [make('span', {class: 'chip quiet'}, '…')];
  const fresh = picture.news && picture.news.edition === known.edition ? picture.news.tags : null;
  const ticked = confirmed(picture).map(tag => make('span', {class: 'chip taught', 'data-tag': tag}, icon('tick'), tag));
  const guessed = suggested(picture).map(about => make('span', {class: `chip ${isNear(about) ? 'maybe' : 'sure'}${fresh?.has(about.tag) ? ' fresh' : ''}`, 'data-tag': about.tag}, about.tag, isNear(about) ? '?' : ''));
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

export class Tile {
  constructor() {
    this.image = make('img', {alt: '', draggable: 'false', decoding: 'async'});
    this.chips = make('div', {class: 'chips', 'aria-hidden': 'true'});
    this.note = make('div', {class: 'note'});
    const verdicts = make('span', {class: 'verdicts', 'aria-hidden': 'true'}, make('span', {class: 'verdict no', 'data-say': 'no'}, icon('close')), make('span', {class: 'verdict yes', 'data-say': 'yes'}, icon('tick')));
    this.element = make('div', {class: 'cell', role: 'option'}, make('div', {class: 'frame'}, this.image, this.note), make('span', {class: 'check'}, icon('tick')), verdicts, this.chips);
    this.picture = null;
    this.blank = false;
  }

  // picture: undefined while it is still on its way.
  fill(picture, index) {
    this.picture = picture;
    this.seen = '';
    this.blank = false;
    this.index = index;
    this.element.classList.remove('accepted', 'rejected');
    this.element.classList.toggle('absent', !picture);
    if (picture) this.load();
  }

  async load() {
    const {picture} = this, wanted = () => this.picture === picture;
    if (!isCached(picture)) await new Promise(done => setTimeout(done, 60)); // not while scrolling past
    if (!wanted()) return;
    const blob = await thumbnail(picture, wanted);
    if (!wanted()) return;
    if (blob) showBlob(this.image, blob);
    this.blank = !blob;
    this.label(this.look);
  }

  empty() {
    showBlob(this.image, null);
    this.picture = null;
    this.element.remove();
  }

  // look: {tag: to name first, or null; judging: it can be accepted and rejected; width, em: room for the tags}
  label(look) {
    this.look = look;
    const {picture, element} = this;
    if (!picture) {
      element.setAttribute('aria-label', 'on its way');
      element.title = '';
      this.chips.replaceChildren();
      this.note.textContent = '';
      return;
    }
    const words = describe(picture, look.judging ? look.tag : null);
    const now = words + JSON.stringify([picture.tags.map(tag => [tag.tag, tag.predicted && confidence(tag)]), picture.taught, picture.state, this.blank, picture.news?.edition, known.edition, look]);
    if (this.seen === now) return;
    this.seen = now;
    element.setAttribute('aria-label', words);
    element.title = picture.path;
    element.classList.toggle('accepted', look.judging && confirmed(picture).includes(look.tag));
    element.classList.toggle('rejected', look.judging && isDenied(picture, look.tag));
    this.chips.replaceChildren(...pack(chips(picture, look.tag), look.width, look.em));
    this.note.textContent = !this.blank ? '' : picture.state === 'failed' ? UNREADABLE : UNSHOWABLE;
  }
}
