//! What the driver needs beside clang, by what the command line links.

use std::path::PathBuf;

use crashpoint_install::{
    LocateError, PLUGIN, RUNTIME_SHARED, RUNTIME_STATIC, headers_in, library_in, own_folders,
};

use crate::analysis::Runtime;

/// What the driver needs beside clang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Libraries {
    pub plugin: PathBuf,
    /// As the command line wants it; none where nothing is linked to it.
    pub runtime: Option<PathBuf>,
    /// The folder of `crashpoint.h`. A program that does not include it needs none.
    pub headers: Option<PathBuf>,
}

impl Libraries {
    /// Finds the plugin, and the runtime where it is wanted.
    pub fn find(runtime: Runtime) -> Result<Libraries, LocateError> {
        Libraries::find_in(&own_folders(), runtime)
    }

    fn find_in(folders: &[PathBuf], runtime: Runtime) -> Result<Libraries, LocateError> {
        Ok(Libraries {
            plugin: library_in(folders, PLUGIN)?,
            runtime: match runtime {
                Runtime::None => None,
                Runtime::Shared => Some(library_in(folders, RUNTIME_SHARED)?),
                Runtime::Static => Some(library_in(folders, RUNTIME_STATIC)?),
            },
            headers: headers_in(folders),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_is_needed_only_where_it_is_linked() {
        let folder = tempfile::tempdir().unwrap();
        let folders = vec![folder.path().to_owned()];
        let error = Libraries::find_in(&folders, Runtime::None).unwrap_err();
        assert!(error.to_string().starts_with(PLUGIN), "{error}");

        std::fs::write(folder.path().join(PLUGIN), "").unwrap();
        assert!(Libraries::find_in(&folders, Runtime::None).is_ok());
        let error = Libraries::find_in(&folders, Runtime::Static).unwrap_err();
        assert!(error.to_string().starts_with(RUNTIME_STATIC), "{error}");
    }
}
