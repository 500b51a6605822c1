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
    /// All models, by the names that settings and reports have for them.
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
        let mut names = Model::NAMES.iter();
        let own = names.find(|(_, model)| *model == self);
        own.map(|(name, _)| *name).expect("every model has a name")
    }
}
