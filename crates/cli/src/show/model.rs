//! `crashpoint show --ir`: the program model in a binary, object or archive.

use std::path::Path;

use crashpoint_campaign::settings::nearest;
use crashpoint_ir::{FunctionId, Module, elf, text};
use crashpoint_trace::program::function_name;

use super::ShowError;
use crate::output::Output;

/// Prints the models in a binary, or of these the functions of one name.
pub fn run(path: &Path, wanted: Option<&str>, output: &mut Output) -> Result<(), ShowError> {
    let mut known: Vec<String> = Vec::new();
    let mut shown = false;
    for embedded in elf::models(path)? {
        let decoded = embedded.decode();
        let (_, module) = decoded.map_err(|cause| ShowError::Model {
            path: path.to_owned(),
            cause,
        })?;
        let Some(wanted) = wanted else {
            output.print(&text::module(&module).to_string())?;
            shown = true;
            continue;
        };
        for (id, names) in defined(&module) {
            if names.iter().any(|name| name == wanted) {
                output.print(&format!("{}\n", text::function(&module, id)))?;
                shown = true;
            }
            known.extend(names);
        }
    }
    match wanted {
        Some(name) if !shown => Err(ShowError::NoFunction {
            name: name.to_owned(),
            path: path.to_owned(),
            hint: nearest(name, known.iter().map(String::as_str))
                .map_or(String::new(), |near| format!("; did you mean `{near}`?")),
        }),
        _ => Ok(()),
    }
}

/// Functions with a body, under all names that people may call them by.
fn defined(module: &Module) -> impl Iterator<Item = (FunctionId, [String; 3])> {
    let numbered = (0..).map(FunctionId).zip(&module.functions);
    numbered
        .filter(|(_, function)| !function.is_declaration())
        .map(|(id, function)| {
            let source = function.source_name.clone().unwrap_or_default();
            (id, [function.name.clone(), source, function_name(function)])
        })
}
