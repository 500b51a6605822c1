// nedb: loading a store compacts it, which writes the file anew. That must keep what was there.
//
//     node PROGRAM MODULE init DIR | run DIR | verify DIR PRINTED
//
// Inserts are not synced, and nothing says that they are: what is printed is how many rows a
// compaction has kept. It follows each insert, or where there are many, every so many: programs have
// it done now and then.
'use strict';
const fs = require('node:fs');
const util = require('node:util');

// Names that both versions use and that node has dropped since.
for (const name of ['isDate', 'isRegExp', 'isArray']) {
  const type = util.types[name] ?? Array.isArray;
  util[name] ??= (value) => type(value);
}

const [module_, what, folder, printed] = process.argv.slice(2);
const Datastore = require(module_);
// Two are enough for what is known; CRASHPOINT_OPERATIONS asks for more.
const OPERATIONS = Number(process.env.CRASHPOINT_OPERATIONS ?? 2);
const INSERTS_PER_COMPACTION = Math.ceil(OPERATIONS / 100);

const open = (then) => {
  // A torn line at the end, from an insert that was never acknowledged, is no reason to refuse.
  const store = new Datastore({ filename: `${folder}/store.db`, corruptAlertThreshold: 1 });
  store.loadDatabase((error) => {
    if (error) {
      console.log(`the store does not load: ${error.message}`);
      process.exit(1);
    }
    then(store);
  });
};

const row = (number) => ({ _id: `id${number}`, value: `value ${number}` });

function run(number) {
  open((store) => {
    fs.writeSync(1, `kept ${store.getAllData().length}\n`);
    insert(store, number, INSERTS_PER_COMPACTION);
  });
}

function insert(store, number, left) {
  if (number > OPERATIONS) return;
  if (left === 0) return run(number);
  store.insert(row(number), (error) => {
    if (error) throw error;
    insert(store, number + 1, left - 1);
  });
}

// Rows have the numbers from 0.
function wrong() {
  const lines = fs.readFileSync(printed, 'utf8').trim().split('\n');
  const kept = Number(lines.at(-1).split(' ')[1] ?? 1);
  return (rows) => {
    for (const one of rows) {
      const number = Number(one._id.slice(2));
      if (one.value !== row(number).value) return `${one._id} is ${one.value}`;
    }
    const there = new Set(rows.map((one) => one._id));
    for (let number = 0; number < kept; number++) {
      if (!there.has(`id${number}`)) return `id${number} is lost`;
    }
    return null;
  };
}

if (what === 'init') {
  open((store) => store.insert(row(0), () => {}));
} else if (what === 'run') {
  run(1);
} else {
  const judge = wrong();
  open((store) => {
    const reason = judge(store.getAllData());
    if (reason) {
      console.log(reason);
      process.exit(1);
    }
  });
}
