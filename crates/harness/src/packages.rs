//! Real packages, `corpus/packages`: one TOML file each says how it is run, what is documented to be
//! wrong with it, and under which models that shows.
//!
//! A documented bug is found if, under each model that is tried and that it names, a finding names
//! its calls. A package without one is a control, of which nothing may be said. What is neither
//! documented nor known is a false alarm, or a discovery; someone has to look.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::crash::{CrashFinding, CrashOutcome, CrashPlace};
use crate::files::{Spot, Target, models_of, spot_of};
use crate::step::run_step;
use crate::tools::Interpreters;
use crate::{Error, io_error};

/// One package with its workload.
#[derive(Clone, Debug)]
pub struct Package {
    /// Of the file that describes it.
    pub name: String,
    /// Name and version, and where it comes from.
    pub title: String,
    pub target: Target,
    /// Under which it is tried.
    pub models: Vec<&'static str>,
    pub documented: Vec<Bug>,
    /// Put in by us, in a program of ours that shows another language.
    pub seeded: Vec<Bug>,
    /// Real too, and not what is looked for.
    pub known: Vec<Bug>,
}

/// What is wrong with a package.
#[derive(Clone, Debug)]
pub struct Bug {
    pub text: String,
    rule: String,
    needed: Vec<Spot>,
    ahead: Vec<Spot>,
    models: Vec<&'static str>,
}

impl Bug {
    fn is_shown_by(&self, finding: &CrashFinding, model: &str) -> bool {
        let among = |spots: &[Spot], place: &CrashPlace| spots.iter().any(|spot| spot.is_at(place));
        let mut needed = finding.needed.iter();
        let mut ahead = finding.ahead.iter();
        self.models.contains(&model)
            && self.rule == finding.rule
            && !finding.needed.is_empty()
            && needed.all(|place| among(&self.needed, place))
            && ahead.all(|place| among(&self.ahead, place))
    }
}

/// Where the packages are, and what runs them.
#[derive(Clone, Debug)]
pub struct PackageSet<'a> {
    /// `corpus/packages`.
    pub here: PathBuf,
    /// What `install` made.
    pub installed: PathBuf,
    /// How many operations each is told to do.
    pub operations: Option<u64>,
    pub interpreters: &'a Interpreters,
}

impl PackageSet<'_> {
    /// Gets everything from the registries that is not there yet.
    pub fn install(&self) -> Result<(), Error> {
        let mut command = Command::new(self.here.join("install"));
        command.arg(&self.installed);
        run_step("packages", "installing", command, &[0]).map(|_| ())
    }

    /// All packages, by name.
    pub fn packages(&self) -> Result<Vec<Package>, Error> {
        let mut packages = Vec::new();
        for entry in std::fs::read_dir(&self.here).map_err(io_error(&self.here))? {
            let path = entry.map_err(io_error(&self.here))?.path();
            if path.extension().is_some_and(|end| end == "toml") {
                packages.push(self.package(&path)?);
            }
        }
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(packages)
    }

    fn package(&self, path: &Path) -> Result<Package, Error> {
        let bad = |reason: String| Error::Expectation {
            path: path.to_owned(),
            line: 1,
            reason,
        };
        let text = std::fs::read_to_string(path).map_err(io_error(path))?;
        let wire: Wire = toml::from_str(&text).map_err(|error| bad(error.to_string()))?;
        let bugs = |bugs: Vec<WireBug>| {
            let bug = |bug: WireBug| bug.read().map_err(bad);
            bugs.into_iter()
                .map(bug)
                .collect::<Result<Vec<Bug>, Error>>()
        };
        let models = || bad(format!("`{}` are no models", wire.models));
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Ok(Package {
            target: Target {
                name: format!("packages/{name}"),
                init: Some(self.command(&wire.init)),
                run: self.command(&wire.run),
                verify: self.command(&wire.verify),
                operations: self.operations,
            },
            name: name.into_owned(),
            title: wire.package,
            models: models_of(&wire.models).ok_or_else(models)?,
            documented: bugs(wire.documented)?,
            seeded: bugs(wire.seeded)?,
            known: bugs(wire.known)?,
        })
    }

    fn command(&self, text: &str) -> Vec<String> {
        let places = [
            ("{here}", self.here.as_path()),
            ("{packages}", self.installed.as_path()),
            ("{python}", self.interpreters.python()),
            ("{node}", self.interpreters.node()),
        ];
        let fill = |word: &str| {
            let begin = word.to_owned();
            places.iter().fold(begin, |word, (name, path)| {
                word.replace(name, &path.display().to_string())
            })
        };
        text.split_whitespace().map(fill).collect()
    }
}

/// How a package came out.
#[derive(Clone, Debug, Default)]
pub struct PackageVerdict {
    /// Documented bugs, and whether each was found.
    pub documented: Vec<(String, bool)>,
    pub seeded: Vec<(String, bool)>,
    /// With the model under which they were made.
    pub false_alarms: Vec<(&'static str, CrashFinding)>,
}

pub fn judge_package(
    package: &Package,
    outcomes: &BTreeMap<&'static str, CrashOutcome>,
) -> PackageVerdict {
    let is_found = |bug: &Bug| {
        let mut tried = outcomes
            .iter()
            .filter(|(model, _)| bug.models.contains(model))
            .peekable();
        tried.peek().is_some()
            && tried.all(|(model, outcome)| {
                let mut findings = outcome.findings.iter();
                findings.any(|finding| bug.is_shown_by(finding, model))
            })
    };
    let told = |bugs: &[Bug]| {
        let bug = |bug: &Bug| (bug.text.clone(), is_found(bug));
        bugs.iter().map(bug).collect()
    };
    let mut verdict = PackageVerdict {
        documented: told(&package.documented),
        seeded: told(&package.seeded),
        false_alarms: Vec::new(),
    };
    for (model, outcome) in outcomes {
        for finding in &outcome.findings {
            let bugs = package.documented.iter().chain(&package.seeded);
            let mut bugs = bugs.chain(&package.known);
            if !bugs.any(|bug| bug.is_shown_by(finding, model)) {
                verdict.false_alarms.push((model, finding.clone()));
            }
        }
    }
    verdict
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    package: String,
    init: String,
    run: String,
    verify: String,
    models: String,
    #[serde(default)]
    documented: Vec<WireBug>,
    #[serde(default)]
    seeded: Vec<WireBug>,
    #[serde(default)]
    known: Vec<WireBug>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireBug {
    bug: String,
    rule: String,
    needed: Vec<String>,
    #[serde(default)]
    ahead: Vec<String>,
    models: String,
}

impl WireBug {
    fn read(self) -> Result<Bug, String> {
        let spots = |texts: &[String]| -> Result<Vec<Spot>, String> {
            let spot = |text: &String| spot_of(text).ok_or(format!("`{text}` is not `call(file)`"));
            texts.iter().map(spot).collect()
        };
        Ok(Bug {
            needed: spots(&self.needed)?,
            ahead: spots(&self.ahead)?,
            models: models_of(&self.models).ok_or(format!("`{}` are no models", self.models))?,
            text: self.bug,
            rule: self.rule,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package() -> Package {
        let bug = |rule: &str, models: &str| WireBug {
            bug: "it is wrong".into(),
            rule: rule.into(),
            needed: vec!["write(a.*)".into()],
            ahead: vec!["rename(a)".into()],
            models: models.into(),
        };
        Package {
            name: "a".into(),
            title: "a 1.0".into(),
            target: Target {
                name: "a".into(),
                init: None,
                run: Vec::new(),
                verify: Vec::new(),
                operations: None,
            },
            models: vec!["posix", "xfs"],
            documented: vec![bug("ordering", "posix xfs").read().unwrap()],
            seeded: Vec::new(),
            known: vec![bug("durability", "posix").read().unwrap()],
        }
    }

    fn outcome(rules: &[&str]) -> CrashOutcome {
        let place = |call: &str| CrashPlace {
            call: call.into(),
            ..CrashPlace::default()
        };
        let finding = |rule: &&str| CrashFinding {
            rule: (*rule).to_owned(),
            category: "lost".into(),
            needed: vec![place("write(\"a.tmp\", 9 bytes)")],
            ahead: Some(place("rename(\"a.tmp\", \"a\")")),
        };
        CrashOutcome {
            findings: rules.iter().map(finding).collect(),
            ..CrashOutcome::default()
        }
    }

    fn verdict(posix: &[&str], xfs: &[&str]) -> (bool, usize) {
        let outcomes = BTreeMap::from([("posix", outcome(posix)), ("xfs", outcome(xfs))]);
        let verdict = judge_package(&package(), &outcomes);
        (verdict.documented[0].1, verdict.false_alarms.len())
    }

    #[test]
    fn a_documented_bug_must_show_under_each_model_that_it_names() {
        assert_eq!(verdict(&["ordering"], &["ordering"]), (true, 0));
        assert_eq!(verdict(&["ordering"], &[]), (false, 0));
        assert_eq!(verdict(&[], &[]), (false, 0));
    }

    #[test]
    fn what_is_neither_documented_nor_known_is_an_alarm() {
        assert_eq!(
            verdict(&["ordering", "durability"], &["ordering"]),
            (true, 0)
        );
        assert_eq!(
            verdict(&["ordering"], &["ordering", "durability"]),
            (true, 1)
        );
        assert_eq!(
            verdict(&["ordering", "atomicity"], &["ordering"]),
            (true, 1)
        );
    }
}
