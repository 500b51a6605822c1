//! Which functions belong to transaction libraries, and what they do.

use crate::config::{AllocCall, BeginCall, FreeCall, LogCall, PoolCall, Returns, Transactions};
use rustc_hash::FxHashMap;

/// What a call does to the transaction of its thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Begins a transaction, perhaps within another. The argument with the pool, if any.
    Begin(Option<usize>),
    /// The work of the innermost transaction is over; it also leaves the stack if there is no
    /// function of its own for that.
    Commit {
        leaves: bool,
    },
    /// The work of all transactions of the thread is over.
    Abort {
        leaves: bool,
    },
    /// Leaves the innermost transaction.
    End,
    Log(LogCall),
    Alloc(AllocCall),
    Free(FreeCall),
}

#[derive(Debug, Default)]
pub(crate) struct Library {
    roles: FxHashMap<String, Role>,
    /// Beginnings of names of functions whose stores are the library's own.
    prefixes: Vec<String>,
}

impl Library {
    pub(crate) fn new(settings: &Transactions) -> Library {
        let mut library = Library::default();
        if settings.libpmemobj {
            library.add(&libpmemobj());
        }
        library.add(settings);
        library
    }

    fn add(&mut self, settings: &Transactions) {
        let leaves = settings.end.is_empty();
        let mut add = |name: &String, role| {
            self.roles.insert(name.clone(), role);
        };
        for begin in &settings.begin {
            match begin {
                BeginCall::Name(name) => add(name, Role::Begin(None)),
                BeginCall::WithPool(call) => add(&call.name, Role::Begin(Some(call.pool))),
            }
        }
        settings
            .commit
            .iter()
            .for_each(|name| add(name, Role::Commit { leaves }));
        settings
            .abort
            .iter()
            .for_each(|name| add(name, Role::Abort { leaves }));
        settings.end.iter().for_each(|name| add(name, Role::End));
        settings
            .log
            .iter()
            .for_each(|call| add(&call.name, Role::Log(call.clone())));
        settings
            .alloc
            .iter()
            .for_each(|call| add(&call.name, Role::Alloc(call.clone())));
        settings
            .free
            .iter()
            .for_each(|call| add(&call.name, Role::Free(call.clone())));
        self.prefixes.extend(settings.library.iter().cloned());
    }

    pub(crate) fn role(&self, name: &str) -> Option<&Role> {
        self.roles.get(name)
    }

    /// Whether what this function does is the library's own business.
    pub(crate) fn owns(&self, name: &str) -> bool {
        self.roles.contains_key(name)
            || self
                .prefixes
                .iter()
                .any(|prefix| name.starts_with(prefix.as_str()))
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.roles.keys().cloned().collect();
        names.sort();
        names
    }
}

fn names(of: &[&str]) -> Vec<String> {
    of.iter().map(|name| (*name).to_owned()).collect()
}

/// PMDK's libpmemobj. A `PMEMoid` is passed as two arguments, pool id and offset. Of one that is
/// returned the offset is recorded.
fn libpmemobj() -> Transactions {
    let log = |name: &str, address, plus, length, in_pool| LogCall {
        name: name.to_owned(),
        address,
        length,
        plus,
        in_pool,
    };
    let alloc = |name: &str, length| AllocCall {
        name: name.to_owned(),
        length,
        returns: Returns::Offset,
    };
    // The length of a duplicated string is not among the arguments.
    let duplicate = |name: &str| AllocCall {
        name: name.to_owned(),
        length: 0,
        returns: Returns::Other,
    };
    let free = |name: &str| FreeCall {
        name: name.to_owned(),
        address: 1,
        in_pool: true,
    };
    Transactions {
        libpmemobj: false,
        begin: vec![BeginCall::WithPool(PoolCall {
            name: "pmemobj_tx_begin".to_owned(),
            pool: 0,
        })],
        // `pmemobj_tx_process` commits if the transaction is at work, and is harmless later.
        commit: names(&["pmemobj_tx_commit", "pmemobj_tx_process"]),
        abort: names(&["pmemobj_tx_abort"]),
        end: names(&["pmemobj_tx_end"]),
        log: vec![
            log("pmemobj_tx_add_range", 1, Some(2), 3, true),
            log("pmemobj_tx_xadd_range", 1, Some(2), 3, true),
            log("pmemobj_tx_add_range_direct", 0, None, 1, false),
            log("pmemobj_tx_xadd_range_direct", 0, None, 1, false),
        ],
        alloc: vec![
            alloc("pmemobj_tx_alloc", 0),
            alloc("pmemobj_tx_zalloc", 0),
            alloc("pmemobj_tx_xalloc", 0),
            alloc("pmemobj_tx_realloc", 2),
            alloc("pmemobj_tx_zrealloc", 2),
            duplicate("pmemobj_tx_strdup"),
            duplicate("pmemobj_tx_xstrdup"),
            duplicate("pmemobj_tx_wcsdup"),
            duplicate("pmemobj_tx_xwcsdup"),
        ],
        free: vec![free("pmemobj_tx_free"), free("pmemobj_tx_xfree")],
        library: names(&["pmemobj_", "pmem_", "_pobj_"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libpmemobj_is_known_unless_switched_off() {
        let known = Library::new(&Transactions::default());
        assert_eq!(known.role("pmemobj_tx_begin"), Some(&Role::Begin(Some(0))));
        assert_eq!(
            known.role("pmemobj_tx_commit"),
            Some(&Role::Commit { leaves: false })
        );
        assert!(known.owns("pmemobj_memcpy_persist"));
        let off = Transactions {
            libpmemobj: false,
            ..Transactions::default()
        };
        let off = Library::new(&off);
        assert_eq!(off.role("pmemobj_tx_begin"), None);
        assert!(!off.owns("pmemobj_memcpy_persist"));
    }

    #[test]
    fn a_library_without_an_end_leaves_at_commit() {
        let settings = Transactions {
            begin: vec![BeginCall::Name("tx_begin".to_owned())],
            commit: vec!["tx_commit".to_owned()],
            ..Transactions::default()
        };
        let library = Library::new(&settings);
        assert_eq!(library.role("tx_begin"), Some(&Role::Begin(None)));
        assert_eq!(
            library.role("tx_commit"),
            Some(&Role::Commit { leaves: true })
        );
        assert_eq!(
            library.role("pmemobj_tx_commit"),
            Some(&Role::Commit { leaves: false })
        );
    }
}
