//! Source locations, interned with the calls they were inlined into.

use crate::llvm::Meta;
use crashpoint_ir::{FileId, Location, LocationId};
use rustc_hash::FxHashMap;

#[derive(Default)]
pub struct Locations {
    pub files: Vec<String>,
    pub list: Vec<Location>,
    file_ids: FxHashMap<String, FileId>,
    files_of: FxHashMap<Meta, FileId>,
    known: FxHashMap<Location, LocationId>,
    /// Nodes that were looked up before. A location with its scope determines the function, so
    /// that it does not depend on who asks.
    nodes: FxHashMap<Meta, LocationId>,
}

impl Locations {
    /// The location of an instruction.
    pub fn of_instruction(&mut self, node: Meta) -> Option<LocationId> {
        if let Some(&id) = self.nodes.get(&node) {
            return Some(id);
        }
        let scope = node.location_scope()?;
        let file = scope.file()?;
        let inlined_at = node
            .inlined_at()
            .and_then(|outer| self.of_instruction(outer));
        let function = node
            .inlined_at()
            .and_then(|_| scope.scope_subprogram())
            .map(Meta::name);
        let location = Location {
            file: self.file(file),
            line: node.location_line(),
            column: node.location_column(),
            function,
            inlined_at,
        };
        let id = self.intern(location);
        self.nodes.insert(node, id);
        Some(id)
    }

    /// Where a type, function or variable is declared.
    pub fn of_declaration(&mut self, node: Meta) -> Option<LocationId> {
        let file = node.file()?;
        let location = Location {
            file: self.file(file),
            line: node.line(),
            column: 0,
            function: None,
            inlined_at: None,
        };
        Some(self.intern(location))
    }

    fn intern(&mut self, location: Location) -> LocationId {
        if let Some(&id) = self.known.get(&location) {
            return id;
        }
        let id = LocationId(self.list.len() as u32);
        self.list.push(location.clone());
        self.known.insert(location, id);
        id
    }

    fn file(&mut self, node: Meta) -> FileId {
        if let Some(&id) = self.files_of.get(&node) {
            return id;
        }
        let path = absolute(&node.directory(), &node.file_name());
        let next = FileId(self.files.len() as u32);
        let id = *self.file_ids.entry(path).or_insert_with_key(|path| {
            self.files.push(path.clone());
            next
        });
        self.files_of.insert(node, id);
        id
    }
}

/// Joins folder and name without asking the file system: `.` goes, `..` stays.
fn absolute(directory: &str, name: &str) -> String {
    if name.starts_with('/') || directory.is_empty() {
        return name.to_owned();
    }
    let name = name.trim_start_matches("./");
    format!("{}/{name}", directory.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::absolute;

    #[test]
    fn paths_become_absolute() {
        assert_eq!(absolute("/src", "./a.c"), "/src/a.c");
        assert_eq!(absolute("/src/", "x/../a.c"), "/src/x/../a.c");
        assert_eq!(absolute("/src", "/usr/include/a.h"), "/usr/include/a.h");
        assert_eq!(absolute("", "a.c"), "a.c");
    }
}
