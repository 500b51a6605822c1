//! `crashpoint show --graph`: the picture of a finding or of a behaviour, as SVG.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use crashpoint_report::graph::{Graph, VERSION};

use crate::output::Output;
use crashpoint_explain::picture::{BEHAVIOURS, FILE};

#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    #[error(
        "{}: there is no graph in it. Name the folder of a finding, such as \
         crashpoint.out/findings/1, or of a behaviour, such as crashpoint.out/behaviours/1; \
         crashpoint.out alone lists the behaviours",
        path.display()
    )]
    NoGraph { path: PathBuf },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: {source}; test again", path.display())]
    Bad {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("{}: version {found} of graphs, not {VERSION}; test again", path.display())]
    Version { path: PathBuf, found: u32 },
}

/// Prints a picture; of a whole recording, what there are pictures of.
pub fn run(path: &Path, output: &mut Output) -> Result<(), GraphError> {
    let print = |text: &str, output: &mut Output| {
        output
            .print_document(text)
            .map_err(|source| GraphError::Io {
                path: "standard output".into(),
                source,
            })
    };
    if path.join(FILE).exists() {
        return print(&read(path)?.svg(), output);
    }
    let behaviours = path.join(BEHAVIOURS);
    let mut list = String::new();
    for number in 1.. {
        let folder = behaviours.join(number.to_string());
        if !folder.join(FILE).exists() {
            break;
        }
        let graph = read(&folder)?;
        let _ = writeln!(
            list,
            "{}  {} operations, {}",
            folder.display(),
            graph.operations.len(),
            graph.title
        );
    }
    if list.is_empty() {
        let path = path.to_owned();
        return Err(GraphError::NoGraph { path });
    }
    print(&list, output)
}

fn read(folder: &Path) -> Result<Graph, GraphError> {
    let path = folder.join(FILE);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(source) => return Err(GraphError::Io { path, source }),
    };
    match serde_json::from_slice::<Graph>(&text) {
        Ok(graph) if graph.crashpoint_graph != VERSION => Err(GraphError::Version {
            found: graph.crashpoint_graph,
            path,
        }),
        Ok(graph) => Ok(graph),
        Err(source) => Err(GraphError::Bad { path, source }),
    }
}
