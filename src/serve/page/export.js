// Tags as files: a list for spreadsheets (which 'l3a teach --list' reads), JSON for programs, XMP for photo programs.
import {download} from './dom.js';
import {confirmed, known, shown} from './picture.js';
import {send} from './server.js';
import {zip} from './zip.js';

const field = text => /[",;\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;

// A spreadsheet would take such a text for a formula; what is put before it does not matter to 'l3a teach --list'.
const plain = (before, text) => /^ *[=+\-@\t\r\n]/.test(text) ? before + text : text;
const cell = tags => tags.map(tag => plain(' ', tag)).join(';');

// tags: a function that gives the tags of a picture; confirmed are those that a person gave.
export function csv(pictures, tags) {
  const rows = pictures.map(picture => [plain('./', picture.path), cell(tags(picture)), cell(confirmed(picture))]);
  return [['path', 'tags', 'confirmed'], ...rows].map(row => row.map(field).join(',') + '\r\n').join('');
}

export function json(pictures, tags) {
  return JSON.stringify({edition: known.edition, pictures: pictures.map(picture => ({
    path: picture.path, key: picture.key, tags: tags(picture), confirmed: confirmed(picture),
    scores: Object.fromEntries(picture.tags.map(({tag, score}) => [tag, score])),
  }))}, null, 1) + '\n';
}

// Beside each picture, as 'l3a tag --xmp' names them. The server writes a sidecar once for each set of tags.
async function xmp(pictures, tags, progress) {
  const texts = new Map(), names = new Set(), entries = [];
  for (const picture of pictures) {
    const words = tags(picture), set = JSON.stringify(words);
    if (!words.length) continue;
    if (!texts.has(set)) {
      const answer = await send('POST', '/v1/xmp', {body: JSON.stringify({tags: words}), type: 'application/json'});
      texts.set(set, await answer.text());
    }
    let name = `${picture.path}.xmp`;
    for (let n = 2; names.has(name); n++) name = `${picture.path} (${n}).xmp`;
    names.add(name);
    entries.push({name, text: texts.get(set)});
    progress(entries.length);
  }
  return zip(entries);
}

export async function save(kind, pictures, onlyConfirmed, progress) {
  const tags = onlyConfirmed ? confirmed : shown;
  if (kind === 'csv') download('tags.csv', new Blob([csv(pictures, tags)], {type: 'text/csv'}));
  else if (kind === 'json') download('tags.json', new Blob([json(pictures, tags)], {type: 'application/json'}));
  else download('tags-xmp.zip', await xmp(pictures, tags, progress));
}

// With a token a plain link would be refused, so the bytes go through the page.
export async function saveFrom(path, name) {
  const answer = await send('GET', path);
  download(name, await answer.blob());
}
