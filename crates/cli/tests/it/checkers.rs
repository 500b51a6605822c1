//! Checkers as people write them: scripts that start programs, in pipes and in the background.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::files::{compile, log_program, staged};

/// Each asks whether every line that was printed (`$2`) is in the log below the folder (`$1`), and
/// starts other programs to find out.
const CHECKERS: [(&str, &str); 7] = [
    (
        "bash",
        "#!/bin/bash\nwhile read -r line; do grep -q -a -x \"$line\" \"$1/log\" || exit 1\ndone < \"$2\"\n",
    ),
    (
        "sh",
        "#!/bin/sh\nwhile read -r line; do grep -q -a -x \"$line\" \"$1/log\" || exit 1\ndone < \"$2\"\n",
    ),
    (
        "bash with pipes",
        "#!/bin/bash\nset -o pipefail\nlost=$(sort -u \"$2\" | comm -23 - <(sort -u \"$1/log\") | wc -l)\n\
         test \"$lost\" = 0\n",
    ),
    (
        "bash with a job in the background",
        "#!/bin/bash\n(cat \"$1/log\" > /dev/null; grep -q -v -a -x -F -f \"$1/log\" \"$2\") &\n\
         wait $! && exit 1\nexit 0\n",
    ),
    (
        "an empty environment",
        "#!/bin/bash\nexec env -i /bin/bash -c \
         '! /usr/bin/env grep -v -a -x -F -f \"$0/log\" \"$1\"' \"$1\" \"$2\"\n",
    ),
    (
        "python",
        "#!/usr/bin/env python3\nimport subprocess, sys\nfor line in open(sys.argv[2]):\n    \
         found = subprocess.run(['grep', '-q', '-a', '-x', line.strip(), sys.argv[1] + '/log'])\n    \
         if found.returncode: sys.exit(1)\n",
    ),
    (
        "perl",
        "#!/usr/bin/perl\nopen(my $printed, '<', $ARGV[1]) or die;\nwhile (<$printed>) { chomp; \
         system('grep', '-q', '-a', '-x', $_, \"$ARGV[0]/log\") == 0 or exit 1 }\n",
    ),
];

#[test]
fn a_checker_may_be_a_script_that_starts_programs() {
    for (name, script) in CHECKERS {
        for wrapped in [false, true] {
            for (syncs, code) in [("fsync(file);", 0), ("", 2)] {
                let stage = staged();
                fs::write(stage.path("data/log"), "line 0\n").expect("a file");
                compile(&stage, &log_program(syncs), "log");
                for (file, text) in [
                    ("check", script),
                    ("wrapper", "#!/bin/bash\n./check \"$@\"\n"),
                ] {
                    let path = stage.write(file, text);
                    let mode = fs::Permissions::from_mode(0o755);
                    fs::set_permissions(path, mode).expect("a mode");
                }
                let check = match wrapped {
                    true => "./wrapper {dir} {printed}",
                    false => "./check {dir} {printed}",
                };
                let words = [
                    "test",
                    "--no-config",
                    "--dir",
                    "data",
                    "--check",
                    check,
                    "--",
                    "./log",
                    "data/log",
                ];
                println!("{name}, wrapped: {wrapped}, syncs: {syncs}");
                stage.run(&words).ended(code);
            }
        }
    }
}
