//! Facts about segmentation offload that the kernel refuses.

use std::collections::BTreeMap;

use regatta_control::Role;

/// States in the facts of an end that the kernel refused segmentation offload (`UDP_SEGMENT`) for the path: only the
/// first packets show whether a device takes them.
pub fn state_refused(facts: &mut BTreeMap<String, String>, role: Role) {
    let side = role.name();
    let refused = "off: the kernel refused it for this path";
    facts.insert(format!("gso.{side}"), refused.to_owned());
    // The offloads of the direction in which an end moves the data.
    if role == Role::Sender {
        facts.insert(format!("offloads.{side}"), refused.to_owned());
    }
}
