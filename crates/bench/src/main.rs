//! The benchmarks behind `bench/run`. Each prints what it measures as it goes, on standard error,
//! and one JSON object as the last line of standard output.
//!
//! A figure is a ratio of two things measured in the same run, alternating, so that a busy or a
//! slow machine shifts both; the fastest of the repetitions counts, since noise only adds.

mod build;
mod check;
mod compare;
mod corpus;
mod dirstates;
mod files;
mod infer;
mod lint;
mod packages;
mod programs;
mod record;
mod representative;
mod timing;
mod watch;

use serde_json::Value;
use std::process::ExitCode;

type Error = Box<dyn std::error::Error>;

const HELP: &str = "\
usage: bench/run record [--operations N] [--repeat N] [--only NAME]
       bench/run build  [--repeat N]
       bench/run lint   [--operations N] [--repeat N]
       bench/run corpus [--strategy lint|exhaustive|bounded|random|conditions|representative|files]
                        [--only NAME] [--versus random]
       bench/run packages [--operations N] [--only NAME]
       bench/run check  [--repeat N]
       bench/run infer  [--repeat N]
       bench/run watch  [--operations N] [--repeat N]
       bench/run dirstates [--repeat N]
       bench/run representative [--operations N] [--repeat N]
       bench/run all

The last line of the output is one JSON object. See bench/README.md.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(result) => {
            println!("{result}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<Value, Error> {
    let (name, rest) = arguments.split_first().ok_or(HELP)?;
    let options = Options::parse(rest)?;
    match name.as_str() {
        "record" => record::run(&options),
        "build" => build::run(&options),
        "lint" => lint::run(&options),
        "corpus" => corpus::run(&options),
        "check" => check::run(&options),
        "infer" => infer::run(&options),
        "watch" => watch::run(&options),
        "packages" => packages::run(&options),
        "dirstates" => dirstates::run(&options),
        "representative" => representative::run(&options),
        "all" => Ok(serde_json::json!({
            "record": record::run(&options)?,
            "build": build::run(&options)?,
            "lint": lint::run(&options)?,
            "corpus": corpus::run(&options)?,
            "check": check::run(&options)?,
            "infer": infer::run(&options)?,
            "watch": watch::run(&options)?,
            "packages": packages::run(&options)?,
            "dirstates": dirstates::run(&options)?,
        })),
        _ => Err(HELP.into()),
    }
}

/// What the command line may tune; the defaults are what the bars are stated for.
pub struct Options {
    /// None: as many as the bar is stated for.
    pub operations: Option<u64>,
    pub repeat: u32,
    pub only: Option<String>,
    pub strategy: Option<String>,
    /// Also what random states find, with many times as many.
    pub versus_random: bool,
}

impl Options {
    /// Of a store, where a benchmark runs one.
    pub fn store_operations(&self) -> u64 {
        self.operations.unwrap_or(1_000_000)
    }

    fn parse(arguments: &[String]) -> Result<Options, Error> {
        let mut options = Options {
            operations: None,
            repeat: 3,
            only: None,
            strategy: None,
            versus_random: false,
        };
        let mut rest = arguments.iter();
        while let Some(name) = rest.next() {
            let value = rest
                .next()
                .ok_or_else(|| format!("{name} needs a value\n{HELP}"))?;
            match name.as_str() {
                "--operations" => options.operations = Some(value.parse()?),
                "--repeat" => options.repeat = value.parse::<u32>()?.max(1),
                "--only" => options.only = Some(value.clone()),
                "--strategy" => options.strategy = Some(value.clone()),
                "--versus" if value == "random" => options.versus_random = true,
                _ => return Err(format!("unknown option {name}\n{HELP}").into()),
            }
        }
        Ok(options)
    }
}
