// Pictures that a person drops or chooses, also whole folders. What is not a picture by its name or type is left out and counted.

const PICTURE = /\.(jpe?g|png|webp|heic|heif|avif)$/i;
const isPicture = file => file.type.startsWith('image/') && file.type !== 'image/svg+xml' && file.type !== 'image/gif' || PICTURE.test(file.name);
const isHidden = name => name.startsWith('.') || name === '@eaDir';

function sortFiles(found) {
  const taken = found.filter(({file}) => isPicture(file) && !isHidden(file.name));
  taken.sort((a, b) => a.path < b.path ? -1 : a.path > b.path ? 1 : 0);
  return {files: taken, left: found.length - taken.length};
}

export function fromInput(input) {
  const found = [...input.files].map(file => ({path: file.webkitRelativePath || file.name, file}));
  input.value = '';
  return sortFiles(found.filter(({path}) => !path.split('/').some(isHidden)));
}

const fileOf = entry => new Promise((done, fail) => entry.file(done, fail));
const readSome = reader => new Promise((done, fail) => reader.readEntries(done, fail));

async function walk(entry, found) {
  if (isHidden(entry.name)) return;
  if (entry.isFile) {
    found.push({path: entry.fullPath.replace(/^\//, ''), file: await fileOf(entry)});
    return;
  }
  const reader = entry.createReader();
  for (let some = await readSome(reader); some.length; some = await readSome(reader)) { // browsers give about a hundred at a time
    for (const one of some) await walk(one, found);
  }
}

// The list of a drop event is emptied when its handler returns, so it is read first.
export async function fromDrop(transfer) {
  const items = [...transfer.items].filter(item => item.kind === 'file');
  const entries = items.map(item => item.webkitGetAsEntry?.() ?? null), plainFiles = [...transfer.files];
  const found = [];
  if (entries.length && entries.every(Boolean)) {
    for (const entry of entries) await walk(entry, found);
  } else {
    found.push(...plainFiles.map(file => ({path: file.name, file})));
  }
  return sortFiles(found);
}
