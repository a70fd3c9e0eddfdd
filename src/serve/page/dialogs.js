// Small windows: exporting, the token, renaming a tag.
import {find} from './dom.js';
import * as exporting from './export.js';
import * as lessons from './lessons.js';
import {isDone, isTaught, known} from './picture.js';
import {asking} from './server.js';
import {count, number as written, plain} from './words.js';

// --- export -------------------------------------------------------------------------------------------------------------------------

async function attempt(work) {
  const state = find('#export-state');
  try {
    state.textContent = 'One moment…';
    await work(n => { state.textContent = `${written(n)} pictures…`; });
    state.textContent = 'Saved to your downloads.';
  } catch (problem) {
    state.textContent = `${problem.message} ${problem.hint ?? ''}`;
  }
}

// model(): the name of the model's file; number(): of pictures that can be exported; isPart(): whether less than all are listed;
// load(which, progress): 'all', 'taught' or 'shown' pictures.
export function exportDialog({model, number, isPart, load}) {
  find('#export-open').addEventListener('click', () => {
    find('#export-what').textContent = count(number(), 'picture');
    find('#export-shown').hidden = !isPart();
    find('#export-state').textContent = '';
    find('#export').showModal();
  });
  find('#export').addEventListener('click', event => {
    const {export: kind, download} = event.target.closest('button')?.dataset ?? {};
    const which = new FormData(find('#export form')).get('which'), file = model().split('/').pop();
    const save = async progress => exporting.save(kind, (await load(which, progress)).filter(picture => isDone(picture) && (which !== 'taught' || isTaught(picture))), which === 'taught', progress);
    if (kind) attempt(save);
    if (download === 'model') attempt(() => exporting.saveFrom('/v1/model', file || 'model.l3a'));
    if (download === 'backup') attempt(() => exporting.saveFrom('/v1/backup', `${file.replace(/\.(l3a|safetensors)$/, '') || 'model'}-backup.tar`));
  });
}

// --- token --------------------------------------------------------------------------------------------------------------------------

asking.token = (wrong, optional) => new Promise(done => {
  const dialog = find('#token'), text = find('#token-text');
  find('#token-wrong').textContent = wrong ? 'That was not the right token.' : '';
  text.value = '';
  const closed = () => {
    const token = text.value.trim();
    if (!token && !optional) {
      dialog.showModal();
      return;
    }
    dialog.removeEventListener('close', closed);
    done(token);
  };
  dialog.addEventListener('close', closed);
  dialog.showModal();
});

// --- renaming -----------------------------------------------------------------------------------------------------------------------

// tag(): what is to be renamed; renamed(tag).
export function renameDialog({tag, renamed}) {
  find('#rename').addEventListener('click', () => {
    find('#renaming-title').textContent = `Rename ${tag()}`;
    find('#renaming-text').value = tag();
    find('#renaming-note').textContent = '';
    find('#renaming').returnValue = '';
    find('#renaming').showModal();
    find('#renaming-text').select();
  });
  find('#renaming-text').addEventListener('input', event => {
    const other = known.classes.some(one => one.name === plain(event.target.value) && one.name !== tag());
    find('#renaming-note').textContent = other ? 'There is such a tag already. The two become one.' : '';
  });
  find('#renaming-cancel').addEventListener('click', () => find('#renaming').close());
  find('#renaming form').addEventListener('submit', async () => {
    const from = tag(), to = plain(find('#renaming-text').value);
    if (!to || to === from) return;
    if (await lessons.rename(from, to)) renamed(to);
  });
}
