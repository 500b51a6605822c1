//! Which crate of the workspace may depend on which, and which may link LLVM or Z3.
//!
//! [`LAYERS`] is the order of ARCHITECTURE.md: data flows down the table, and a crate knows only
//! crates above it. Each row lists every edge that is allowed, so that a new edge is a decision that
//! shows in a diff. Development dependencies have a column of their own and obey the same order.
//!
//! `report` lies above `explain` and `campaign`: it holds the types of a finding and the renderers,
//! which both need, and it knows neither of them.

use serde_json::Value;

/// One crate and what it may depend on. Names are those of the folders in `crates/`.
#[derive(Clone, Copy, Debug)]
pub struct Layer {
    pub name: &'static str,
    /// Ordinary and build dependencies.
    pub uses: &'static [&'static str],
    /// Development dependencies, besides `uses`.
    pub tests_use: &'static [&'static str],
}

const fn layer(
    name: &'static str,
    uses: &'static [&'static str],
    tests_use: &'static [&'static str],
) -> Layer {
    Layer {
        name,
        uses,
        tests_use,
    }
}

/// Every crate of the workspace, from the bottom of the house to the top.
pub const LAYERS: &[Layer] = &[
    layer("abi", &[], &[]),
    layer("install", &[], &[]),
    layer("ir", &["abi"], &[]),
    layer("trace", &["abi", "ir"], &[]),
    layer("program", &["abi", "ir", "trace"], &[]),
    layer("cc", &["abi", "install"], &[]),
    layer("rt", &["abi"], &[]),
    layer("instrument", &["abi", "ir", "program"], &["rt"]),
    layer("syscallbuf", &["abi"], &[]),
    layer("watch", &["abi", "program", "trace"], &["syscallbuf"]),
    layer("persist", &["abi", "trace"], &[]),
    layer("flow", &["ir", "program", "trace"], &[]),
    layer("expr", &[], &[]),
    layer("solve", &["expr"], &[]),
    layer("rules", &["abi", "persist", "program", "trace"], &[]),
    layer(
        "infer",
        &["expr", "flow", "ir", "program", "solve", "trace"],
        &[],
    ),
    layer("states", &["infer", "persist", "program", "trace"], &[]),
    layer(
        "check",
        &["abi", "persist", "program", "states", "trace"],
        &[],
    ),
    layer("search", &[], &[]),
    layer("blockdev", &["persist", "trace"], &[]),
    layer("report", &["ir", "program", "rules", "trace"], &["abi"]),
    layer(
        "explain",
        &[
            "abi", "ir", "trace", "program", "watch", "persist", "rules", "infer", "states",
            "check", "report",
        ],
        &[],
    ),
    layer(
        "campaign",
        &[
            "abi", "install", "ir", "trace", "program", "watch", "persist", "flow", "rules",
            "infer", "states", "check", "search", "blockdev", "report", "explain",
        ],
        &["syscallbuf"],
    ),
    layer("harness", &[], &[]),
    layer(
        "cli",
        &[
            "abi", "install", "ir", "trace", "program", "watch", "persist", "flow", "rules",
            "infer", "states", "check", "search", "blockdev", "report", "explain", "campaign",
        ],
        &["harness", "syscallbuf"],
    ),
    layer(
        "bench",
        &[
            "trace", "watch", "persist", "states", "check", "campaign", "harness",
        ],
        &[],
    ),
    layer("tidy", &[], &[]),
];

/// **Temporary**: rows whose crates are designed and not written yet. An entry whose crate exists is
/// reported, and must be removed.
pub const COMING: &[&str] = &["expr", "solve"];

/// Libraries that one crate alone may link, so that everything else builds without them.
pub const LINKED_ONCE: &[(&str, &str)] = &[
    ("inkwell", "instrument"),
    ("llvm-sys", "instrument"),
    ("z3", "solve"),
    ("z3-sys", "solve"),
];

/// A crate of the workspace as `cargo metadata` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    pub dependencies: Vec<Dependency>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    pub name: String,
    /// A crate of the workspace; the registry has a `cc`, too.
    pub is_ours: bool,
    /// Of tests, examples and benchmarks only.
    pub is_development: bool,
}

const PREFIX: &str = "crashpoint-";

/// The workspace's own packages, without the prefix of their names, out of what
/// `cargo metadata --format-version 1` prints.
pub fn workspace_packages(metadata: &Value) -> Vec<Package> {
    let all = metadata["packages"].as_array().expect("packages");
    let ours = all.iter().filter(|package| package["source"].is_null());
    let short = |value: &Value| {
        let name = value.as_str().expect("a name");
        name.strip_prefix(PREFIX).unwrap_or(name).to_owned()
    };
    ours.map(|package| {
        let dependencies = package["dependencies"].as_array().expect("dependencies");
        let dependencies = dependencies.iter().map(|dependency| Dependency {
            name: short(&dependency["name"]),
            is_ours: dependency["name"]
                .as_str()
                .is_some_and(|name| name.starts_with(PREFIX)),
            is_development: dependency["kind"] == "dev",
        });
        Package {
            name: short(&package["name"]),
            dependencies: dependencies.collect(),
        }
    })
    .collect()
}

/// Edges between our crates that the table does not allow, and crates that it does not know.
pub fn forbidden_edges(packages: &[Package], layers: &[Layer]) -> Vec<String> {
    let mut problems = Vec::new();
    for package in packages {
        let name = &package.name;
        let Some(layer) = layers.iter().find(|layer| layer.name == name) else {
            problems.push(format!("{name}: not in the table of layers"));
            continue;
        };
        for dependency in package.dependencies.iter().filter(|other| other.is_ours) {
            let other = &dependency.name;
            let allowed = layer.uses.contains(&other.as_str())
                || dependency.is_development && layer.tests_use.contains(&other.as_str());
            if !allowed {
                let kind = if dependency.is_development {
                    "development dependency"
                } else {
                    "dependency"
                };
                problems.push(format!(
                    "{name} -> {other}: this {kind} is not in the table"
                ));
            }
        }
    }
    problems
}

/// Faults of the table itself: an edge that does not point upwards, a row without a crate, and
/// temporary entries that are no longer needed.
pub fn faults_of_the_table(packages: &[Package], layers: &[Layer], coming: &[&str]) -> Vec<String> {
    let mut problems = Vec::new();
    let exists = |name: &str| packages.iter().any(|package| package.name == name);
    for (index, layer) in layers.iter().enumerate() {
        for other in layer.uses.iter().chain(layer.tests_use) {
            if !layers[..index].iter().any(|above| above.name == *other) {
                problems.push(format!(
                    "{} -> {other}: {other} is not above it",
                    layer.name
                ));
            }
        }
        if !exists(layer.name) && !coming.contains(&layer.name) {
            problems.push(format!("{}: a row without a crate", layer.name));
        }
    }
    for name in coming.iter().filter(|name| exists(name)) {
        problems.push(format!("{name}: it exists; remove it from what is coming"));
    }
    problems
}

/// Crates that link what another one alone may link.
pub fn forbidden_links(packages: &[Package], linked_once: &[(&str, &str)]) -> Vec<String> {
    let mut problems = Vec::new();
    for package in packages {
        for dependency in &package.dependencies {
            let owner = linked_once
                .iter()
                .find(|(library, _)| *library == dependency.name);
            if let Some((library, owner)) = owner
                && *owner != package.name
            {
                problems.push(format!("{}: only {owner} links {library}", package.name));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SMALL: &[Layer] = &[
        layer("low", &[], &[]),
        layer("rig", &[], &[]),
        layer("high", &["low"], &["rig"]),
    ];

    fn package(name: &str, uses: &[&str], tests_use: &[&str]) -> Package {
        let dependency = |is_development| {
            move |name: &&str| Dependency {
                name: (*name).to_owned(),
                is_ours: ["low", "rig", "high"].contains(name),
                is_development,
            }
        };
        let ordinary = uses.iter().map(dependency(false));
        Package {
            name: name.to_owned(),
            dependencies: ordinary
                .chain(tests_use.iter().map(dependency(true)))
                .collect(),
        }
    }

    fn house(high: Package) -> Vec<Package> {
        vec![
            package("low", &["serde"], &[]),
            package("rig", &[], &[]),
            high,
        ]
    }

    #[test]
    fn edges_of_the_table_are_allowed() {
        let packages = house(package("high", &["low", "serde"], &["rig", "low"]));
        assert_eq!(forbidden_edges(&packages, SMALL), [""; 0]);
        assert_eq!(faults_of_the_table(&packages, SMALL, &[]), [""; 0]);
    }

    #[test]
    fn an_edge_upwards_is_found() {
        let mut packages = house(package("high", &["low"], &[]));
        packages[0] = package("low", &["high"], &[]);
        let problems = forbidden_edges(&packages, SMALL);
        assert_eq!(
            problems,
            ["low -> high: this dependency is not in the table"]
        );
    }

    #[test]
    fn a_development_dependency_counts_and_does_not_open_the_way_for_others() {
        let mut packages = house(package("high", &["rig"], &[]));
        let problems = forbidden_edges(&packages, SMALL);
        assert_eq!(
            problems,
            ["high -> rig: this dependency is not in the table"]
        );
        packages[0] = package("low", &[], &["high"]);
        packages[2] = package("high", &[], &["rig"]);
        let problems = forbidden_edges(&packages, SMALL);
        assert_eq!(
            problems,
            ["low -> high: this development dependency is not in the table"]
        );
    }

    #[test]
    fn a_crate_without_a_row_is_found() {
        let packages = [package("new", &[], &[])];
        let problems = forbidden_edges(&packages, SMALL);
        assert_eq!(problems, ["new: not in the table of layers"]);
    }

    #[test]
    fn a_table_that_points_downwards_is_found() {
        let packages = house(package("high", &[], &[]));
        let mut layers = SMALL.to_vec();
        layers[0] = layer("low", &["high"], &[]);
        let problems = faults_of_the_table(&packages, &layers, &[]);
        assert_eq!(problems, ["low -> high: high is not above it"]);
    }

    #[test]
    fn what_is_temporary_must_be_needed() {
        let packages = house(package("high", &[], &[]));
        let problems = faults_of_the_table(&packages, SMALL, &["high"]);
        assert_eq!(problems, ["high: it exists; remove it from what is coming"]);
        let problems = faults_of_the_table(&packages[..2], SMALL, &[]);
        assert_eq!(problems, ["high: a row without a crate"]);
    }

    #[test]
    fn a_second_crate_that_links_llvm_or_z3_is_found() {
        let packages = [
            package("instrument", &["llvm-sys"], &[]),
            package("solve", &["z3"], &[]),
            package("infer", &[], &["z3"]),
            package("cc", &["inkwell"], &[]),
        ];
        assert_eq!(
            forbidden_links(&packages, LINKED_ONCE),
            [
                "infer: only solve links z3",
                "cc: only instrument links inkwell"
            ]
        );
    }

    #[test]
    fn metadata_names_our_packages_without_their_prefix() {
        let metadata = json!({"packages": [
            {"name": "serde", "source": "registry+x", "dependencies": []},
            {"name": "crashpoint-low", "source": null, "dependencies": [
                {"name": "serde", "kind": null},
                {"name": "low", "kind": "build"},
                {"name": "crashpoint-rig", "kind": "dev"},
            ]},
        ]});
        let mut low = package("low", &["serde", "low"], &["rig"]);
        // Another package of that name, from the registry.
        low.dependencies[1].is_ours = false;
        assert_eq!(workspace_packages(&metadata), [low]);
    }
}
