// The main of the JavaScript programs here; see driver.h, which is the same for C.
//
//     node PROGRAM init DIR [BUG_NAME] | run DIR [BUG_NAME] | verify DIR PRINTED [BUG_NAME]
'use strict';
const fs = require('node:fs');

exports.BUG = process.argv.find((word) => word.startsWith('BUG_'));

exports.syncFolder = () => {
  const folder = fs.openSync('.', 'r');
  fs.fsyncSync(folder);
  fs.closeSync(folder);
};

// A crash left what is no state between two operations.
class Wrong extends Error {}
exports.Wrong = Wrong;

function verify(folder, printed, recover) {
  const acknowledged = fs.readFileSync(printed, 'utf8').split('\n').length - 1;
  process.chdir(folder);
  const found = recover();
  if (found < acknowledged) {
    throw new Wrong(`${acknowledged} operations were acknowledged, ${found} are left`);
  }
  if (found > acknowledged + 1) {
    throw new Wrong(`${found} operations, of which ${acknowledged + 1} had begun`);
  }
}

// `apply` gets numbers from 1; `recover` says how many operations there are after a crash.
exports.main = ({ operations, init, apply, recover }) => {
  const [what, folder, printed] = process.argv.slice(2);
  if (what === 'init') {
    process.chdir(folder);
    init();
  } else if (what === 'run') {
    process.chdir(folder);
    for (let number = 1; number <= operations; number++) {
      apply(number);
      fs.writeSync(1, `done ${number}\n`);
    }
  } else if (what === 'verify') {
    try {
      verify(folder, printed, recover);
    } catch (reason) {
      if (!(reason instanceof Wrong)) throw reason;
      fs.writeSync(1, `${reason.message}\n`);
      process.exit(1);
    }
  } else {
    fs.writeSync(2, 'usage: node PROGRAM init DIR | run DIR | verify DIR PRINTED\n');
    process.exit(3);
  }
};
