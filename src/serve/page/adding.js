// Adding pictures: by a button, or by dropping them anywhere on the page.
import {button, find} from './dom.js';
import * as intake from './intake.js';
import {dismiss, notice, say} from './messages.js';
import {changed} from './picture.js';
import {addFiles} from './pictures.js';
import {count, number} from './words.js';

export const leftOut = []; // {path, error, hint}: files that were not added, and why; each once
const LISTED = 10000;

function leave(left) {
  const here = new Set(leftOut.map(one => one.path));
  leftOut.push(...left.filter(one => !here.has(one.path)).slice(0, LISTED - leftOut.length));
  if (left.length) changed();
}

// shown(): brings the pictures of the page into view; showLeft(): lists what was left out.
export function adding({shown, showLeft}) {
  async function take({files, left}) {
    shown();
    leave(left);
    const which = left.length ? [button('Which ones?', () => { dismiss('taken'); showLeft(); }, {class: 'link'})] : [];
    if (!files.length) {
      notice('taken', left.length ? `No pictures were found among ${count(left.length, 'file')}.` : 'No pictures were found.', {hint: 'JPEG, PNG, WebP, HEIC and AVIF files can be added.', actions: which});
      return;
    }
    dismiss('taken');
    const {added, kept} = await addFiles(files);
    const twice = files.length - added;
    say([`${count(added, 'picture')} added.`, twice ? `${number(twice)} were here already.` : '', left.length ? `${count(left.length, 'other file')} left out: “Left out” lists ${left.length === 1 ? 'it' : 'them'}.` : '',
      added > kept ? `This browser cannot remember ${number(added - kept)} of them: drop them again after a reload.` : ''].filter(Boolean).join(' '));
  }

  const clicks = {'choose-files': 'files', 'choose-folder': 'folder', 'welcome-files': 'files', 'welcome-folder': 'folder'};
  for (const [from, to] of Object.entries(clicks)) find(`#${from}`).addEventListener('click', () => find(`#${to}`).click());
  for (const id of ['files', 'folder']) find(`#${id}`).addEventListener('change', event => take(intake.fromInput(event.target)));

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
}
