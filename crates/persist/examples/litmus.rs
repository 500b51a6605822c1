//! Prints what each model allows of litmus tests, in their own format: candidates for expectations,
//! to be looked at one by one. Arguments: a file, and which models (all by default).

use crashpoint_persist::files::Model;
use crashpoint_persist::files::litmus::{Litmus, states};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which file?")?;
    let mut models: Vec<String> = arguments.collect();
    if models.is_empty() {
        models = Model::NAMES[..6]
            .iter()
            .map(|name| name.to_string())
            .collect();
    }
    for litmus in Litmus::parse(&std::fs::read_to_string(path)?)? {
        println!("litmus {}", litmus.name);
        let (before, calls) = litmus.calls();
        for name in &models {
            let model = Model::builtin(name).ok_or("no such model")?;
            let states = states(&model, &before, &calls);
            println!("allow {name}");
            states
                .any_time
                .iter()
                .for_each(|state| println!("  {state}"));
            println!("end {name}");
            states.at_end.iter().for_each(|state| println!("  {state}"));
        }
    }
    Ok(())
}
