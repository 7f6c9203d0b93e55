//! Checks that the crates use one another in one direction only, as ARCHITECTURE.md says.

use std::{collections::BTreeMap, process::Command};

/// The drivers of QUIC stacks, which are all crates with this beginning that have no row of their own.
const QUIC_STACKS: &str = "transport-quic-*";

/// Crates that the driver of a QUIC stack may use.
const OF_A_QUIC_STACK: &[&str] = &[
    "transport",
    "transport-quic-common",
    "transport-sockets",
    "transport-tls",
    "model",
    "control",
];

/// Crates of this workspace that each crate may use. A new crate, or a new arrow, is added here and
/// in ARCHITECTURE.md, or this test fails.
const ARROWS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("stats", &[]),
    ("process", &["model"]),
    ("control", &["model"]),
    ("emulation", &["model"]),
    ("forwarder", &["emulation", "model"]),
    ("transport", &["process", "model", "control"]),
    ("transport-tls", &["transport", "model", "control"]),
    ("transport-sockets", &["transport", "model", "control"]),
    (
        "transport-tcp",
        &["transport", "transport-tls", "model", "control"],
    ),
    (
        "transport-udp",
        &["transport", "transport-sockets", "model", "control"],
    ),
    (
        "transport-quic-common",
        &[
            "transport",
            "transport-sockets",
            "transport-tls",
            "model",
            "control",
        ],
    ),
    (QUIC_STACKS, OF_A_QUIC_STACK),
    ("transport-quic", &["transport", QUIC_STACKS]),
    ("wdt-protocol", &[]),
    (
        "transport-wdt-driver",
        &[
            "transport",
            "transport-tcp",
            "wdt-protocol",
            "model",
            "control",
        ],
    ),
    (
        "transport-external",
        &["transport", "process", "model", "control"],
    ),
    (
        "transport-sctp",
        &["transport", "transport-sockets", "model", "control"],
    ),
    ("ssh", &["process", "model"]),
    ("telemetry", &["process", "model"]),
    (
        "agent",
        &[
            "control",
            "model",
            "transport",
            "transport-tcp",
            "transport-udp",
            "transport-quic",
            "transport-external",
            "transport-sctp",
            "transport-wdt-driver",
            "telemetry",
            "process",
        ],
    ),
    (
        "path-daemon",
        &[
            "model",
            "stats",
            "control",
            "emulation",
            "forwarder",
            "process",
        ],
    ),
    (
        "bed",
        &[
            "path-daemon",
            "model",
            "stats",
            "control",
            "forwarder",
            "process",
        ],
    ),
    ("test-contract", &["transport", "model", "control"]),
    ("test-support", &["bed", "telemetry"]),
    ("test-times", &["process"]),
    (
        "bed-host",
        &["bed", "path-daemon", "emulation", "model", "stats"],
    ),
    ("engine", &["bed", "control", "model", "stats"]),
    ("results", &["process", "model"]),
    ("report", &["results", "stats", "model"]),
    ("live", &["control", "engine", "model", "report", "results"]),
    (
        "cli",
        &[
            "agent",
            "bed",
            "control",
            "engine",
            "live",
            "model",
            "path-daemon",
            "process",
            "report",
            "results",
            "ssh",
            "telemetry",
            "transport",
            // For its features, which say which stacks there are.
            "transport-quic",
            "wdt-protocol",
        ],
    ),
    (
        "bench",
        &[
            "agent",
            "bed",
            "control",
            "emulation",
            "engine",
            "model",
            "path-daemon",
            "stats",
        ],
    ),
];

#[test]
fn crate_dependencies_point_one_way() {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{output:?}");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = short(package["name"].as_str().expect("a name"));
        // Features of other people's crates, and no code.
        if name == "workspace-hack" {
            continue;
        }
        let Some(may) = allowed.get(row_of(name)) else {
            wrong.push(format!("`{name}` is not in the list of crates"));
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let used = dependency["name"].as_str().expect("a name");
            // Tests may look up as far as they like; what is built may not.
            let built = dependency["kind"].is_null();
            let ours = allowed.contains_key(row_of(short(used)));
            if built && ours && !may.contains(&row_of(short(used))) {
                wrong.push(format!("`{name}` uses `{}`", short(used)));
            }
            if built && used == "anyhow" && !matches!(name, "cli" | "bench") {
                wrong.push(format!(
                    "`{name}` uses `anyhow`: its errors must have types"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the name of a crate in [`ARROWS`].
fn row_of(name: &str) -> &str {
    let beginning = QUIC_STACKS.trim_end_matches('*');
    let has_row = ARROWS.iter().any(|(known, _)| *known == name);
    match name.starts_with(beginning) && !has_row {
        true => QUIC_STACKS,
        false => name,
    }
}

fn short(name: &str) -> &str {
    name.strip_prefix("regatta-").unwrap_or(name)
}
