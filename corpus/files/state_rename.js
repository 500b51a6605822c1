// The state of an application, as JSON, saved by writing a new file and renaming it.
//
// Correct: the data is durable before the rename, and the rename before the acknowledgement.
'use strict';
const fs = require('node:fs');
const { BUG, Wrong, main, syncFolder } = require('./driver.js');

const OPERATIONS = 2;

function state(version) {
  const items = Array.from({ length: 10 + 3 * version }, (_, i) => `item ${i} of ${version}`);
  return JSON.stringify({ version, items });
}

function save(version) {
  const syncs = BUG !== 'BUG_NO_SYNC' && BUG !== 'BUG_NO_FILE_SYNC';
  fs.writeFileSync('state.json.new', state(version), { flush: syncs });
  //~ BUG_NO_SYNC ordering needed write(state.json.new) on all but ext4-journal
  //~ BUG_NO_FILE_SYNC ordering needed write(state.json.new) on all but ext4-journal
  //~ BUG_NO_SYNC durability needed write(state.json.new) on all but ext4-journal
  //~ BUG_NO_FILE_SYNC durability needed write(state.json.new) on all but ext4-journal
  fs.renameSync('state.json.new', 'state.json');
  //~ BUG_NO_SYNC ordering ahead rename(state.json) on all but ext4-journal
  //~ BUG_NO_SYNC durability needed rename(state.json) on all
  //~ BUG_NO_FILE_SYNC ordering ahead rename(state.json) on all but ext4-journal
  if (BUG !== 'BUG_NO_SYNC') syncFolder();
}

function recover() {
  const found = fs.readFileSync('state.json', 'utf8');
  for (let version = 0; version <= OPERATIONS; version++) {
    if (found === state(version)) return version;
  }
  throw new Wrong(`${found.length} bytes that begin with ${JSON.stringify(found.slice(0, 20))}`);
}

main({ operations: OPERATIONS, init: () => save(0), apply: save, recover });
