//! The main of the Rust programs here; see `driver.h`, which is the same for C.

use std::path::Path;
use std::process::exit;

/// What a program consists of; it finds itself inside the folder.
pub struct Program {
    pub operations: u32,
    pub init: fn() -> std::io::Result<()>,
    /// Operations count from 1.
    pub apply: fn(u32) -> std::io::Result<()>,
    /// How many operations there are after a crash, or why that is no state between two of them.
    pub recover: fn() -> Result<u32, String>,
}

impl Program {
    pub fn main(&self) {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match words[..] {
            ["init", folder] => {
                enter(folder);
                (self.init)().expect("init");
            }
            ["run", folder] => {
                enter(folder);
                for number in 1..=self.operations {
                    (self.apply)(number).expect("an operation");
                    println!("done {number}");
                }
            }
            ["verify", folder, printed] => self.verify(folder, printed),
            _ => {
                eprintln!("usage: PROGRAM init DIR | run DIR | verify DIR PRINTED");
                exit(3);
            }
        }
    }

    fn verify(&self, folder: &str, printed: &str) {
        let printed = std::fs::read_to_string(printed).expect("what was printed");
        let acknowledged = printed.matches('\n').count() as u32;
        enter(folder);
        let complaint = match (self.recover)() {
            Err(reason) => reason,
            Ok(found) if found < acknowledged => {
                format!("{acknowledged} operations were acknowledged, {found} are left")
            }
            Ok(found) if found > acknowledged + 1 => {
                format!(
                    "{found} operations, of which {} had begun",
                    acknowledged + 1
                )
            }
            Ok(_) => return,
        };
        println!("{complaint}");
        exit(1);
    }
}

fn enter(folder: &str) {
    std::env::set_current_dir(Path::new(folder)).expect("the folder");
}
