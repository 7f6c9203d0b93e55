//! Configuration of the kernel's path manager: the addresses from which to open further subflows.

use std::{error::Error, net::Ipv4Addr, sync::Arc, thread, time::Duration};

use neli::{
    consts::{nl::NlmF, socket::NlFamily},
    genl::{AttrTypeBuilder, Genlmsghdr, GenlmsghdrBuilder, Nlattr, NlattrBuilder},
    neli_enum,
    nl::NlPayload,
    router::synchronous::NlRouter,
    types::{Buffer, GenlBuffer},
    utils::Groups,
};
use regatta_transport::{MonotonicTime, Stop, TransportError};

/// Name of the family (`linux/mptcp_pm.h`).
const FAMILY: &str = "mptcp_pm";
const VERSION: u8 = 1;

/// Flag of an address from which subflows are opened.
const SUBFLOW: u32 = 2;

/// Identifier of the first address that is added; the first subflow has zero.
const FIRST_IDENTIFIER: u8 = 1;

/// Commands of the family.
#[neli_enum(serialized_type = "u8")]
pub(crate) enum Command {
    AddAddress = 1,
    DeleteAddress = 2,
}

impl neli::consts::genl::Cmd for Command {}

/// Attributes of the family: an address, with nested attributes.
#[neli_enum(serialized_type = "u16")]
pub(crate) enum Attribute {
    Address = 1,
}

impl neli::consts::genl::NlAttrType for Attribute {}

/// Attributes of an address.
#[neli_enum(serialized_type = "u16")]
pub(crate) enum AddressAttribute {
    Family = 1,
    Identifier = 2,
    Ipv4 = 3,
    Flags = 6,
}

impl neli::consts::genl::NlAttrType for AddressAttribute {}

/// Addresses from which the kernel opens subflows, until this is dropped.
pub(crate) struct Paths {
    manager: Arc<Manager>,
}

struct Manager {
    router: NlRouter,
    family: u16,
    added: Vec<(u8, Ipv4Addr)>,
}

fn stack(error: impl std::fmt::Display) -> TransportError {
    TransportError::stack("cannot tell the kernel from which addresses to open MPTCP's subflows")(
        error.to_string(),
    )
}

impl Paths {
    /// Has subflows opened from these addresses in every MPTCP connection of this namespace.
    ///
    /// # Errors
    /// [`TransportError::Stack`] without the permission.
    pub(crate) fn add(addresses: &[Ipv4Addr]) -> Result<Self, TransportError> {
        let (router, _) =
            NlRouter::connect(NlFamily::Generic, None, Groups::empty()).map_err(stack)?;
        let family = router.resolve_genl_family(FAMILY).map_err(stack)?;
        let mut manager = Manager {
            router,
            family,
            added: Vec::new(),
        };
        for (identifier, address) in (FIRST_IDENTIFIER..).zip(addresses) {
            // One that a killed agent left behind.
            let _ = manager.tell(Command::DeleteAddress, identifier, *address);
            manager
                .tell(Command::AddAddress, identifier, *address)
                .map_err(stack)?;
            manager.added.push((identifier, *address));
        }
        Ok(Self {
            manager: Arc::new(manager),
        })
    }

    /// Removes the addresses, with their subflows, after `time`, unless the trial is stopped
    /// before.
    pub(crate) fn take_down_after(&self, time: Duration, stop: &Stop) {
        let until = MonotonicTime::now() + time;
        let stop = stop.clone();
        let manager = Arc::downgrade(&self.manager);
        // Without a thread nothing is taken down, and the fact about subflows says so.
        let _ = thread::Builder::new()
            .name("subflow".to_owned())
            .spawn(move || {
                if !stop.wait_until(until)
                    && let Some(manager) = manager.upgrade()
                {
                    manager.remove();
                }
            });
    }
}

impl Manager {
    fn tell(
        &self,
        command: Command,
        identifier: u8,
        address: Ipv4Addr,
    ) -> Result<(), Box<dyn Error>> {
        let message = GenlmsghdrBuilder::default()
            .cmd(command)
            .version(VERSION)
            .attrs(
                std::iter::once(described(identifier, address)?)
                    .collect::<GenlBuffer<Attribute, Buffer>>(),
            )
            .build()?;
        let answers = self
            .router
            .send::<_, _, u16, Genlmsghdr<Command, Attribute>>(
                self.family,
                NlmF::REQUEST | NlmF::ACK,
                NlPayload::Payload(message),
            )
            .map_err(|error| error.to_string())?;
        for answer in answers {
            answer.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Removes every address, with its subflows; ignores addresses that are gone already.
    fn remove(&self) {
        for (identifier, address) in &self.added {
            let _ = self.tell(Command::DeleteAddress, *identifier, *address);
        }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Returns one attribute of an address.
fn attribute<T: neli::Size + neli::ToBytes>(
    kind: AddressAttribute,
    value: T,
) -> Result<Nlattr<AddressAttribute, Buffer>, Box<dyn Error>> {
    Ok(NlattrBuilder::default()
        .nla_type(AttrTypeBuilder::default().nla_type(kind).build()?)
        .nla_payload(value)
        .build()?)
}

/// Returns an address with its identifier, as an attribute of the family.
fn described(
    identifier: u8,
    address: Ipv4Addr,
) -> Result<Nlattr<Attribute, Buffer>, Box<dyn Error>> {
    let family = u16::try_from(libc::AF_INET)?;
    Ok(NlattrBuilder::default()
        .nla_type(
            AttrTypeBuilder::default()
                .nla_nested(true)
                .nla_type(Attribute::Address)
                .build()?,
        )
        .nla_payload(Vec::<u8>::new())
        .build()?
        .nest(&attribute(AddressAttribute::Family, family)?)?
        .nest(&attribute(AddressAttribute::Identifier, identifier)?)?
        .nest(&attribute(
            AddressAttribute::Ipv4,
            address.octets().to_vec(),
        )?)?
        .nest(&attribute(AddressAttribute::Flags, SUBFLOW)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_described_as_the_kernel_reads_it() {
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
