//! pickledb with its default of writing the whole store after every change.
//!
//!     PROGRAM init DIR | run DIR | verify DIR PRINTED

use pickledb::{PickleDb, PickleDbDumpPolicy, SerializationMethod};
use std::path::{Path, PathBuf};
use std::process::exit;

/// Three are enough for what is known; `CRASHPOINT_OPERATIONS` asks for more.
fn operations() -> u32 {
    let wanted = std::env::var("CRASHPOINT_OPERATIONS").ok();
    wanted.and_then(|count| count.parse().ok()).unwrap_or(3)
}

fn store(folder: &str) -> PathBuf {
    Path::new(folder).join("store")
}

fn load(folder: &str) -> Result<PickleDb, String> {
    let policy = PickleDbDumpPolicy::AutoDump;
    PickleDb::load(store(folder), policy, SerializationMethod::Json).map_err(|e| e.to_string())
}

fn verify(folder: &str, printed: &str) -> Result<(), String> {
    let printed = std::fs::read_to_string(printed).map_err(|error| error.to_string())?;
    let acknowledged = printed.lines().count() as u32;
    let store = load(folder)?;
    for number in 1..=operations() {
        let value = store.get::<String>(&number.to_string());
        let wanted = format!("value {number}");
        match value {
            None if number <= acknowledged => return Err(format!("key {number} is lost")),
            None => {}
            Some(value) if value == wanted => {}
            Some(value) => return Err(format!("key {number} is {value:?}")),
        }
    }
    Ok(())
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["init", folder] => {
            let policy = PickleDbDumpPolicy::AutoDump;
            let mut store = PickleDb::new(store(folder), policy, SerializationMethod::Json);
            store.set("0", &"from the beginning").expect("set");
        }
        ["run", folder] => {
            let mut store = load(folder).expect("a store");
            for number in 1..=operations() {
                store.set(&number.to_string(), &format!("value {number}")).expect("set");
                println!("set {number}");
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
