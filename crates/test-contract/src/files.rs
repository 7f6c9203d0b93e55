//! Clauses of the contract for drivers of transfers.

use std::time::Duration;

use regatta_control::{Role, TrialOrder};
use regatta_model::{Pattern, Verify, WorkloadKind};
use regatta_transport::{
    Driver, TransportError,
    testing::{order_for, run_pair, trial_context},
};

use crate::contract::{check_digests, metric, name, pair};

/// Bytes that arrive during the warm-up of a transfer that its deadline ends are counted apart.
pub fn the_warm_up_of_a_file_transfer_is_excluded(driver: &dyn Driver) {
    let change = |order: &mut TrialOrder| {
        order.deadline = Duration::from_millis(1000);
        if let WorkloadKind::Bulk { options, .. } = &mut order.workload.kind {
            options.warm_up = Duration::from_millis(500);
        }
    };
    let what = format!("{} with a warm-up", name(driver));
    let (sender, receiver, _) = pair(driver, 1 << 40, 100_000, change);
    assert_eq!(metric(&sender, "warm_up_ns"), 5e8, "{what}");
    let (warm, all) = (
        metric(&receiver, "warm_up_bytes"),
        metric(&receiver, "bytes_delivered"),
    );
    assert!(warm > 0.0 && warm < all, "{what}: {warm} of {all}");
}

/// Every byte is compared, whatever it was read from.
pub fn digests_agree_from_memory_and_from_a_file(
    driver: &dyn Driver,
    pattern: Pattern,
    size: u64,
    message: u64,
) {
    let change = |order: &mut TrialOrder| {
        if let WorkloadKind::Bulk {
            pattern: there,
            options,
            ..
        } = &mut order.workload.kind
        {
            *there = pattern;
            options.verify = Verify::Digest;
        }
    };
    let what = format!("{}, {size} bytes of {pattern:?}", name(driver));
    let (sender, receiver, _) = pair(driver, size, message, change);
    assert_eq!(metric(&receiver, "bytes_delivered"), size as f64, "{what}");
    assert_eq!(metric(&receiver, "messages_corrupted"), 0.0, "{what}");
    check_digests(&sender, &receiver, &what);
    let has_file = sender.measurements.facts.contains_key("file");
    assert_eq!(has_file, pattern == Pattern::File, "{what}");
}

/// A workload that files cannot carry is refused before anything is tried, with what to do instead.
pub fn workloads_without_files_are_unsupported(driver: &dyn Driver, kind: WorkloadKind) {
    let what = format!("{} with {}", name(driver), kind.description());
    let refused = driver
        .applicable(&Default::default(), &kind)
        .expect_err(&what);
    assert!(!refused.hint.is_empty(), "{what}");
    // An agent that gets the order all the same refuses it too.
    let (context, _) = trial_context();
    let mut order = order_for(Role::Receiver, name(driver), 1, 1);
    order.workload.kind = kind.clone();
    let prepared = driver.session(&order, context);
    let pair = run_pair(driver, 1, 1, |order| order.workload.kind = kind.clone());
    for refused in [prepared.err(), pair.err()] {
        let refused = matches!(refused, Some(TransportError::Unsupported(_)));
        assert!(refused, "{what}");
    }
}
