//! Configuration of the kernel's path manager: the addresses from which to open further subflows.

use std::{error::Error, net::Ipv4Addr, sync::Arc, thread, time::Duration};

use neli::{
    Size, ToBytes,
    consts::{nl::NlmF, socket::NlFamily},
    genl::{AttrType, AttrTypeBuilder, Genlmsghdr, GenlmsghdrBuilder, Nlattr, NlattrBuilder},
    nl::NlPayload,
    router::synchronous::NlRouter,
    types::{Buffer, GenlBuffer},
    utils::Groups,
};
use regatta_model::reason;
use regatta_transport::{MonotonicTime, Result, Stop, TransportError};

/// Name of the generic netlink family (`linux/mptcp_pm.h`).
const FAMILY: &str = "mptcp_pm";

/// Version of the family.
const VERSION: u8 = 1;

/// Flag of an address from which subflows are opened.
const SUBFLOW: u32 = 2;

/// Identifier of the first address that is added; the first subflow has zero.
const FIRST_IDENTIFIER: u8 = 1;

/// Commands of the family.
const ADD_ADDRESS: u8 = 1;
const DELETE_ADDRESS: u8 = 2;

/// Attribute of the family: an address, with these nested attributes.
const ADDRESS: u16 = 1;
const ADDRESS_FAMILY: u16 = 1;
const ADDRESS_IDENTIFIER: u16 = 2;
const ADDRESS_IPV4: u16 = 3;
const ADDRESS_FLAGS: u16 = 6;

/// Addresses from which the kernel opens subflows, until this is dropped.
pub(crate) struct Paths {
    router: NlRouter,
    family: u16,
    added: Vec<(u8, Ipv4Addr)>,
}

fn stack(error: impl std::fmt::Display) -> TransportError {
    TransportError::stack(reason::cannot_set_subflow_addresses())(error.to_string())
}

impl Paths {
    /// Has subflows opened from these addresses in every MPTCP connection of this namespace.
    ///
    /// # Errors
    /// [`TransportError::Stack`] without the permission.
    pub(crate) fn add(addresses: &[Ipv4Addr]) -> Result<Arc<Self>> {
        let (router, _) =
            NlRouter::connect(NlFamily::Generic, None, Groups::empty()).map_err(stack)?;
        let family = router.resolve_genl_family(FAMILY).map_err(stack)?;
        let mut paths = Self {
            router,
            family,
            added: Vec::new(),
        };
        for (identifier, address) in (FIRST_IDENTIFIER..).zip(addresses) {
            // One that a killed agent did not remove.
            let _ = paths.request(DELETE_ADDRESS, identifier, *address);
            paths
                .request(ADD_ADDRESS, identifier, *address)
                .map_err(stack)?;
            paths.added.push((identifier, *address));
        }
        Ok(Arc::new(paths))
    }

    /// Removes the addresses, with their subflows, after `time`, unless the trial is stopped
    /// before.
    pub(crate) fn take_down_after(self: &Arc<Self>, time: Duration, stop: &Stop) {
        let until = MonotonicTime::now() + time;
        let stop = stop.clone();
        let paths = Arc::downgrade(self);
        // Without a thread nothing is taken down, which the fact about subflows shows.
        let _ = thread::Builder::new()
            .name("subflow".to_owned())
            .spawn(move || {
                if !stop.wait_until(until)
                    && let Some(paths) = paths.upgrade()
                {
                    paths.remove();
                }
            });
    }

    fn request(
        &self,
        command: u8,
        identifier: u8,
        address: Ipv4Addr,
    ) -> Result<(), Box<dyn Error>> {
        let message = GenlmsghdrBuilder::default()
            .cmd(command)
            .version(VERSION)
            .attrs(GenlBuffer::from_iter([described(identifier, address)?]))
            .build()?;
        let flags = NlmF::REQUEST | NlmF::ACK;
        let answers = self
            .router
            .send::<_, _, u16, Genlmsghdr<u8, u16>>(self.family, flags, NlPayload::Payload(message))
            .map_err(|error| error.to_string())?;
        for answer in answers {
            answer.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Removes every address, with its subflows; ignores addresses that were removed already.
    fn remove(&self) {
        for (identifier, address) in &self.added {
            let _ = self.request(DELETE_ADDRESS, *identifier, *address);
        }
    }
}

impl Drop for Paths {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Returns an attribute.
fn attribute(
    kind: AttrType<u16>,
    value: impl Size + ToBytes,
) -> Result<Nlattr<u16, Buffer>, Box<dyn Error>> {
    let attribute = NlattrBuilder::default().nla_type(kind).nla_payload(value);
    Ok(attribute.build()?)
}

/// Returns an address with its identifier, as an attribute of the family.
fn described(identifier: u8, address: Ipv4Addr) -> Result<Nlattr<u16, Buffer>, Box<dyn Error>> {
    let of = |kind| AttrTypeBuilder::default().nla_type(kind).build();
    let nested = AttrTypeBuilder::default().nla_nested(true);
    let family = u16::try_from(libc::AF_INET)?;
    Ok(
        attribute(nested.nla_type(ADDRESS).build()?, Vec::<u8>::new())?
            .nest(&attribute(of(ADDRESS_FAMILY)?, family)?)?
            .nest(&attribute(of(ADDRESS_IDENTIFIER)?, identifier)?)?
            .nest(&attribute(of(ADDRESS_IPV4)?, address.octets().to_vec())?)?
            .nest(&attribute(of(ADDRESS_FLAGS)?, SUBFLOW)?)?,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_encoded_as_netlink_attributes() {
        use neli::ToBytes;
        let mut bytes = std::io::Cursor::new(Vec::new());
        described(3, Ipv4Addr::new(10, 60, 1, 2))
            .expect("it fits")
            .to_bytes(&mut bytes)
            .expect("it fits");
        let number = |value: u16| value.to_ne_bytes();
        let mut expected = Vec::new();
        // Length and type (nested) of the whole, then each part with its length and type, padded.
        expected.extend([number(36), number(0x8001)].concat());
        expected.extend([number(6), number(1), number(2), number(0)].concat());
        expected.extend([number(5), number(2)].concat());
        expected.extend([3, 0, 0, 0]);
        expected.extend([number(8), number(3)].concat());
        expected.extend([10, 60, 1, 2]);
        expected.extend([number(8), number(6)].concat());
        expected.extend(2_u32.to_ne_bytes());
        assert_eq!(bytes.into_inner(), expected);
    }
}
