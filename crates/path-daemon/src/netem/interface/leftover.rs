//! Disciplines of Regatta's on interfaces of this network namespace, and whether somebody is there to restore them.

use std::io;

use neli::consts::rtnl::Rtm;
use nix::net::if_::if_indextoname;

use super::{
    super::{
        attributes::u32_at,
        netlink::Netlink,
        qdisc::{ROOT, head},
    },
    record,
    saved_qdisc::Discipline,
};

/// Interface with a discipline of Regatta's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapedInterface {
    /// Name of the interface.
    pub name: String,
    /// Whether a run shapes it now; `None` if that is for root alone to know.
    pub is_in_use: Option<bool>,
    /// Whether there is a record by which the next run restores the interface, as far as this user can see.
    pub has_record: bool,
}

/// Returns the interfaces of this network namespace that have a discipline of Regatta's.
///
/// # Errors
/// If the kernel returns one.
pub fn shaped_interfaces() -> io::Result<Vec<ShapedInterface>> {
    let found = Netlink::open()?.dump(Rtm::Getqdisc, &head(0, 0, 0))?;
    let shaped = found.iter().filter_map(|message| {
        let discipline = Discipline::parse(message)?;
        let index = u32_at(message, 4)?;
        (discipline.is_ours() && discipline.parent == ROOT).then_some(index)
    });
    shaped
        .map(|index| {
            let name = if_indextoname(index)?;
            let is_locked = record::is_locked(index.cast_signed());
            Ok(ShapedInterface {
                name: name.to_string_lossy().into_owned(),
                has_record: !matches!(is_locked, Ok(None)),
                is_in_use: is_locked.ok().map(|locked| locked == Some(true)),
            })
        })
        .collect()
}
