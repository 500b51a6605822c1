//! The models by name.

/// What makes memory durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Model {
    /// x86 with ADR: what has left the caches is safe.
    X86,
    /// x86 with eADR: what is in the caches is safe, too.
    Eadr,
    /// A mapped file on ordinary storage.
    Msync,
}

impl Model {
    pub const NAMES: [(&str, Model); 3] = [
        ("x86", Model::X86),
        ("eadr", Model::Eadr),
        ("msync", Model::Msync),
    ];

    pub fn from_name(name: &str) -> Option<Model> {
        let mut names = Model::NAMES.iter();
        names.find(|(own, _)| *own == name).map(|(_, model)| *model)
    }

    pub fn name(self) -> &'static str {
        match self {
            Model::X86 => "x86",
            Model::Eadr => "eadr",
            Model::Msync => "msync",
        }
    }

    /// What in the model allows a loss, in one sentence for reports.
    pub fn assumption(self) -> &'static str {
        match self {
            Model::X86 => {
                "Under x86 with ADR, a store is lost in a crash unless its cache line was written \
                 back, which is certain only after a flush and a fence of the flushing thread."
            }
            Model::Eadr => {
                "Under eADR, stores are durable in the order in which they are executed, and a \
                 crash may come between any two of them."
            }
            Model::Msync => {
                "A page of a mapped file may be written back at any time or never; only msync of \
                 the page makes its stores certain."
            }
        }
    }
}
