//! sled with a flush after each insert.
//!
//!     PROGRAM init DIR | run DIR | verify DIR PRINTED

use std::process::exit;

/// Three are enough for what is known; `CRASHPOINT_OPERATIONS` asks for more.
fn operations() -> u32 {
    let wanted = std::env::var("CRASHPOINT_OPERATIONS").ok();
    wanted.and_then(|count| count.parse().ok()).unwrap_or(3)
}

fn open(folder: &str) -> sled::Result<sled::Db> {
    let config = sled::Config::new().path(format!("{folder}/db"));
    // Flushes happen where the program asks for them, so that every run is the same.
    config.flush_every_ms(None).segment_size(4096).open()
}

fn verify(folder: &str, printed: &str) -> Result<(), String> {
    let printed = std::fs::read_to_string(printed).map_err(|error| error.to_string())?;
    let acknowledged = printed.lines().count() as u32;
    let db = open(folder).map_err(|error| error.to_string())?;
    for number in 0..=operations() {
        let value = db.get(number.to_be_bytes()).map_err(|error| error.to_string())?;
        match value {
            None if number <= acknowledged => return Err(format!("key {number} is lost")),
            None => {}
            Some(value) if value == format!("value {number}").as_bytes() => {}
            Some(value) => return Err(format!("key {number} is {value:?}")),
        }
    }
    Ok(())
}

fn insert(db: &sled::Db, number: u32) {
    db.insert(number.to_be_bytes(), format!("value {number}").as_bytes()).expect("insert");
    db.flush().expect("flush");
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["init", folder] => insert(&open(folder).expect("a store"), 0),
        ["run", folder] => {
            let db = open(folder).expect("a store");
            for number in 1..=operations() {
                insert(&db, number);
                println!("inserted {number}");
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
