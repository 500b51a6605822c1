//! atomic-write-file: a file that is replaced as a whole, by commit.
//!
//!     PROGRAM init DIR | run DIR | verify DIR PRINTED

use atomic_write_file::AtomicWriteFile;
use std::io::Write;
use std::process::exit;

/// Three are enough for what is known; `CRASHPOINT_OPERATIONS` asks for more.
fn operations() -> u32 {
    let wanted = std::env::var("CRASHPOINT_OPERATIONS").ok();
    wanted.and_then(|count| count.parse().ok()).unwrap_or(3)
}

fn text(version: u32) -> String {
    format!("version {version}\n").repeat(20 + version as usize % 8)
}

fn save(folder: &str, version: u32) {
    let mut file = AtomicWriteFile::open(format!("{folder}/document")).expect("open");
    file.write_all(text(version).as_bytes()).expect("write");
    file.commit().expect("commit");
}

fn verify(folder: &str, printed: &str) -> Result<(), String> {
    let printed = std::fs::read_to_string(printed).map_err(|error| error.to_string())?;
    let acknowledged = printed.lines().count() as u32;
    let found = std::fs::read_to_string(format!("{folder}/document"));
    let found = found.map_err(|error| error.to_string())?;
    let version = (0..=operations()).find(|version| text(*version) == found);
    match version {
        None => Err(format!("{} bytes that are no version", found.len())),
        Some(version) if version < acknowledged => {
            Err(format!("version {acknowledged} was acknowledged, {version} is there"))
        }
        Some(_) => Ok(()),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["init", folder] => save(folder, 0),
        ["run", folder] => {
            for version in 1..=operations() {
                save(folder, version);
                println!("saved {version}");
            }
        }
        ["verify", folder, printed] => {
            if let Err(reason) = verify(folder, printed) {
                println!("{reason}");
                exit(1);
            }
        }
        _ => exit(3),
    }
}
