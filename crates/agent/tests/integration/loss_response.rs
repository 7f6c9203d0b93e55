//! The table of responses to losses beside the drivers of the registry.

use regatta_model::loss_response;
use regatta_transport::{Driver, OptionKind};

/// Returns the congestion controls of a driver whose function is published.
fn controls(driver: &dyn Driver) -> Vec<&'static str> {
    let options = driver.descriptor().options.iter();
    let kinds = options.filter(|it| it.name == "cc").map(|it| it.kind);
    let names = kinds.flat_map(|kind| match kind {
        OptionKind::OneOf(names) => names.to_vec(),
        // The kernel's.
        _ => vec!["cubic", "reno"],
    });
    names
        .filter(|name| loss_response::source(name).is_some())
        .collect()
}

#[test]
fn every_congestion_control_with_a_published_function_is_measured() {
    for driver in regatta_agent::registry() {
        let name = driver.descriptor().name;
        // Any program.
        if name == "external" {
            continue;
        }
        for control in controls(driver) {
            let fact = loss_response::fact(name, &control.into(), None);
            assert!(!fact.starts_with("not"), "{name} with {control}: {fact}");
        }
    }
    for name in ["sctp", "sctp-userspace", "sctp-pysctp"] {
        let fact = loss_response::fact(name, &"rfc9260".into(), None);
        assert!(!fact.starts_with("not"), "{name}: {fact}");
    }
}

#[test]
fn measured_versions_are_those_of_this_build() {
    let drivers = regatta_agent::registry();
    for row in loss_response::measured() {
        let driver = (drivers.iter()).find(|it| it.descriptor().name == row.driver);
        let descriptor = driver.expect("a driver").descriptor();
        let built = format!("{} {}", descriptor.stack, descriptor.stack_version);
        // The running kernel is compared with the table's when a trial runs.
        let measured = row.stack.split(", Linux").next().unwrap_or_default();
        let is_kernel = measured.starts_with("Linux ");
        assert!(
            is_kernel || measured == built,
            "run `make conformance`: {row:?}, {built}"
        );
    }
}
