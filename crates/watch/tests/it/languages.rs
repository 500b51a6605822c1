//! Programs of other languages, as they come.

use crate::replay;
use crate::support::{scratch, watch};
use crashpoint_watch::ProgramEnd;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// Whether a tool is here; a language that is not installed cannot be tested.
fn installed(tool: &str) -> bool {
    let there = Command::new(tool).arg("--version").output().is_ok();
    if !there {
        eprintln!("{tool} is not installed: not tested");
    }
    there
}

/// Watches a command and checks that the recording accounts for the folder.
fn check(scratch: &Path, command: &[OsString]) -> Vec<String> {
    let watched = watch(scratch, command);
    let (recorded, recording) = watched.unwrap_or_else(|error| panic!("{error}"));
    let texts: Vec<String> = recording.calls().map(|call| call.text.to_owned()).collect();
    assert_eq!(recorded.ended, ProgramEnd::Exited(0), "{texts:#?}");
    replay::check(&recording, &scratch.join("data"));
    let renamed = recording
        .calls()
        .find(|call| call.text.starts_with("rename"));
    let renamed = renamed.unwrap_or_else(|| panic!("renamed in {texts:#?}"));
    assert!(
        !recording.frames(renamed.stack).is_empty(),
        "there is a stack"
    );
    texts
}

/// The same for an interpreter that is given a script; nothing where it is not installed.
fn check_script(interpreter: [&str; 2], script: &str) -> Option<Vec<String>> {
    let [tool, option] = interpreter;
    installed(tool).then(|| {
        let command = [tool.into(), option.into(), script.into()];
        check(scratch().path(), &command)
    })
}

fn has(texts: &[String], wanted: &str) {
    assert!(
        texts.iter().any(|text| text.starts_with(wanted)),
        "{wanted} in {texts:#?}"
    );
}

#[test]
fn python_as_it_comes() {
    let script = "
import os, sys
os.chdir(sys.argv[1])
with open('note.tmp', 'w') as file:
    file.write('from Python')
    file.flush()
    os.fsync(file.fileno())
os.rename('note.tmp', 'note')
print('saved', flush=True)
";
    let Some(texts) = check_script(["python3", "-c"], script) else {
        return;
    };
    has(&texts, "write(\"note.tmp\", 11 bytes at 0)");
    has(&texts, "fsync(\"note.tmp\")");
    has(&texts, "write(stdout");
}

#[test]
fn node_as_it_comes() {
    let script = "
const fs = require('fs');
process.chdir(process.argv[1]);
fs.writeFileSync('note.tmp', 'from JavaScript');
fs.renameSync('note.tmp', 'note');
fs.promises.appendFile('note', ', and later').then(() => console.log('saved'));
";
    let Some(texts) = check_script(["node", "-e"], script) else {
        return;
    };
    has(&texts, "write(\"note.tmp\", 15 bytes at 0)");
    has(&texts, "write(\"note\", 11 bytes at 15)");
    has(&texts, "write(stdout");
}

#[test]
fn java_as_it_comes() {
    if !installed("java") {
        return;
    }
    let scratch = scratch();
    let source = scratch.path().join("Save.java");
    let program = r#"
import java.nio.channels.FileChannel;
import java.nio.ByteBuffer;
import java.nio.file.*;

public class Save {
    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        Path temporary = folder.resolve("note.tmp");
        try (FileChannel file = FileChannel.open(temporary, StandardOpenOption.CREATE,
                StandardOpenOption.WRITE)) {
            file.write(ByteBuffer.wrap("from Java".getBytes()));
            file.force(true);
        }
        Files.move(temporary, folder.resolve("note"), StandardCopyOption.ATOMIC_MOVE);
        System.out.println("saved");
    }
}
"#;
    std::fs::write(&source, program).unwrap();
    let command = ["java".into(), "-Xshare:auto".into(), source.into()];
    let texts = check(scratch.path(), &command);
    has(&texts, "write(\"note.tmp\", 9 bytes at 0)");
    has(&texts, "fsync(\"note.tmp\")");
}

#[test]
fn go_as_it_comes() {
    // `go version`, without dashes, but that it starts is all that is asked.
    if !installed("go") {
        return;
    }
    let scratch = scratch();
    let source = scratch.path().join("save.go");
    let program = r#"
package main

import (
	"fmt"
	"os"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	must(os.Chdir(os.Args[1]))
	file, err := os.Create("note.tmp")
	must(err)
	_, err = file.WriteString("from Go")
	must(err)
	must(file.Sync())
	must(file.Close())
	must(os.Rename("note.tmp", "note"))
	done := make(chan error)
	go func() { done <- os.WriteFile("by-goroutine", []byte("x"), 0o644) }()
	must(<-done)
	fmt.Println("saved")
}
"#;
    std::fs::write(&source, program).unwrap();
    let binary = scratch.path().join("save");
    let built = Command::new("go")
        .args(["build", "-o"])
        .args([&binary, &source])
        .env("GOCACHE", scratch.path().join("cache"))
        .env("GO111MODULE", "off")
        .status();
    assert!(built.expect("a Go compiler").success());
    let texts = check(scratch.path(), &[binary.into()]);
    has(&texts, "write(\"note.tmp\", 7 bytes at 0)");
    has(&texts, "fsync(\"note.tmp\")");
    has(&texts, "write(\"by-goroutine\", 1 bytes at 0)");
    has(&texts, "write(stdout");
}

#[test]
fn rust_as_it_comes() {
    let scratch = scratch();
    let source = scratch.path().join("save.rs");
    let program = r#"
use std::io::Write;
fn main() -> std::io::Result<()> {
    std::env::set_current_dir(std::env::args().nth(1).unwrap())?;
    let mut file = std::fs::File::create("note.tmp")?;
    file.write_all(b"from Rust")?;
    file.sync_all()?;
    std::fs::rename("note.tmp", "note")?;
    println!("saved");
    std::thread::spawn(|| std::fs::write("by-thread", "x")).join().unwrap()
}
"#;
    std::fs::write(&source, program).unwrap();
    let binary = scratch.path().join("save");
    let built = Command::new("rustc")
        .args(["-g", "-o"])
        .args([&binary, &source])
        .status();
    assert!(built.expect("a Rust compiler").success());
    let texts = check(scratch.path(), &[binary.into()]);
    has(&texts, "write(\"note.tmp\", 9 bytes at 0)");
    has(&texts, "fsync(\"note.tmp\")");
    has(&texts, "write(\"by-thread\", 1 bytes at 0)");
}
