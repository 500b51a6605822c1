// A queue in segments. Puts are buffered; every second one syncs, and only then are both
// acknowledged. Each put begins a segment of its own, as a log does that was full.
//
// Correct: a sync covers every segment since the last one, oldest first, and their names.
'use strict';
const fs = require('node:fs');
const { BUG, Wrong, main, syncFolder } = require('./driver.js');

const message = (number) => `message ${number}: ${'x'.repeat(number)}\n`;

function put(number, sync) {
  const segment = fs.openSync(`segment.${number}`, 'w');
  //~ BUG_LAST_SEGMENT_ONLY ordering needed open(segment.*) on posix btrfs
  //~ BUG_LAST_SEGMENT_ONLY ordering ahead open(segment.*) on posix btrfs
  fs.writeSync(segment, message(number));
  //~ BUG_LAST_SEGMENT_ONLY ordering needed write(segment.*) on all but ext4-journal
  //~ BUG_LAST_SEGMENT_ONLY ordering ahead write(segment.*) on all but ext4-journal
  //~ BUG_LAST_SEGMENT_ONLY durability needed write(segment.*) on all but ext4-journal
  const syncs = sync || BUG !== 'BUG_LAST_SEGMENT_ONLY';
  if (syncs) fs.fsyncSync(segment);
  fs.closeSync(segment);
  if (syncs) syncFolder();
}

function apply(number) {
  put(2 * number - 1, false);
  put(2 * number, true);
}

// Messages are counted in pairs: one alone was never acknowledged, one without the one before it
// is a hole.
function recover() {
  const whole = (number) => {
    const name = `segment.${number}`;
    return fs.existsSync(name) && fs.readFileSync(name, 'latin1') === message(number);
  };
  let found = 0;
  while (whole(found + 1)) found++;
  for (let later = found + 2; later <= found + 4; later++) {
    if (whole(later)) throw new Wrong(`message ${later} is there and ${found + 1} is not`);
  }
  return Math.floor(found / 2);
}

main({ operations: 2, init: () => {}, apply, recover });
