//! Why a real file system could not be set up or used.

use std::io;

use crate::file_system::FileSystem;

#[derive(Debug, thiserror::Error)]
pub enum LabError {
    #[error("{}", needs(.0))]
    Needs(Vec<Need>),
    #[error("cannot {what}: {source}")]
    System { what: String, source: io::Error },
    #[error("`{command}` failed: {output}")]
    Tool { command: String, output: String },
    #[error("{what} is still in use: a program that was started there has not ended")]
    Busy { what: String },
    #[error("the kernel puts a cache between the loop device and its file")]
    Cached,
}

/// What this machine lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    Root,
    /// FUSE or loop devices: a file of the kernel that is not there.
    Device(&'static str),
    Maker(FileSystem),
}

fn needs(needs: &[Need]) -> String {
    let one = |need: &Need| match need {
        Need::Root => "to be run by root".to_owned(),
        Need::Device(path) => format!("`{path}`"),
        Need::Maker(file_system) => format!(
            "`{}` (`apt-get install {}`)",
            file_system.maker(),
            file_system.package()
        ),
    };
    let list: Vec<String> = needs.iter().map(one).collect();
    format!("real file systems need {}", list.join(", "))
}

/// Says what could not be done.
pub(crate) trait Says<T> {
    fn or_says(self, what: impl FnOnce() -> String) -> Result<T, LabError>;
}

impl<T, E: Into<io::Error>> Says<T> for Result<T, E> {
    fn or_says(self, what: impl FnOnce() -> String) -> Result<T, LabError> {
        self.map_err(|source| LabError::System {
            what: what(),
            source: source.into(),
        })
    }
}
