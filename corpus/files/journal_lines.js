// A journal of events, a line of JSON each.
//
// Correct: each line is durable before its acknowledgement, and says how to tell that it is whole.
'use strict';
const fs = require('node:fs');
const { BUG, Wrong, main, syncFolder } = require('./driver.js');

const OPERATIONS = 2;

function checksum(text) {
  let sum = 2166136261;
  for (const c of text) sum = Math.imul(sum ^ c.charCodeAt(0), 16777619) >>> 0;
  return sum;
}

function line(number) {
  const event = JSON.stringify({ number, text: `this is what happened as number ${number}` });
  return `${checksum(event)} ${event}\n`;
}

function init() {
  fs.writeFileSync('journal', '', { flush: true });
  syncFolder();
}

function apply(number) {
  fs.appendFileSync('journal', line(number), { flush: BUG !== 'BUG_NO_SYNC' });
  //~ BUG_NO_SYNC durability needed write(journal) on all
  //~ BUG_NO_CHECKSUM ordering needed write(journal) on posix ext4-ordered ext4-writeback
  //~ BUG_NO_CHECKSUM ordering ahead write(journal) on posix ext4-ordered ext4-writeback
  //~ BUG_NO_CHECKSUM atomicity needed write(journal) on posix ext4-ordered ext4-writeback
  //~ BUG_NO_CHECKSUM atomicity ahead write(journal) on posix ext4-ordered ext4-writeback
}

function recover() {
  const text = fs.readFileSync('journal', 'latin1');
  // Without a checksum, what has begun counts as a line.
  const lines = BUG === 'BUG_NO_CHECKSUM' ? text.match(/[^\n]+/g) ?? [] : text.split('\n').slice(0, -1);
  let found = 0;
  for (const one of lines) {
    const event = one.slice(one.indexOf(' ') + 1);
    if (BUG !== 'BUG_NO_CHECKSUM' && one.split(' ')[0] !== String(checksum(event))) break;
    found++;
    if (`${one}\n` !== line(found)) throw new Wrong(`line ${found} reads ${JSON.stringify(one)}`);
  }
  return found;
}

main({ operations: OPERATIONS, init, apply, recover });
