//! What goes wrong after a crash, as a word: a closed list, which `docs/findings-schema.md` repeats.

/// What a program does wrong after a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Category {
    Lost,
    Resurrected,
    WrongValue,
    CrashInRecovery,
    RecoveryRefuses,
    FailureOfAnOperation,
    Hang,
    EndlessOutput,
    /// A checker said so.
    #[default]
    Inconsistent,
    /// A saved file has neither its old nor its new content.
    DamagedFile,
    /// Recovery forgets something although nothing was lost.
    WrongAfterARestart,
}

impl Category {
    pub const ALL: [Category; 11] = [
        Category::Lost,
        Category::Resurrected,
        Category::WrongValue,
        Category::CrashInRecovery,
        Category::RecoveryRefuses,
        Category::FailureOfAnOperation,
        Category::Hang,
        Category::EndlessOutput,
        Category::Inconsistent,
        Category::DamagedFile,
        Category::WrongAfterARestart,
    ];

    /// The name in reports and in `findings.json`.
    pub fn name(self) -> &'static str {
        match self {
            Category::Lost => "lost",
            Category::Resurrected => "resurrected",
            Category::WrongValue => "wrong value",
            Category::CrashInRecovery => "crash in recovery",
            Category::RecoveryRefuses => "recovery refuses",
            Category::FailureOfAnOperation => "unexpected failure of an operation",
            Category::Hang => "hang",
            Category::EndlessOutput => "endless output",
            Category::Inconsistent => "inconsistent",
            Category::DamagedFile => "damaged file",
            Category::WrongAfterARestart => "wrong after a restart",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_category_is_documented() {
        let page = include_str!("../../../docs/findings-schema.md");
        for category in Category::ALL {
            assert!(page.contains(&format!("`{}`", category.name())));
        }
    }
}
