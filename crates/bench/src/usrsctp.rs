//! Comparison with usrsctp, the library that users of SCTP in user space know, on plain loopback: a
//! least program on it.

use std::{
    net::{Ipv4Addr, UdpSocket},
    path::Path,
};

use crate::{
    c_program::{self, Source},
    error::BenchError,
    rounds::Figures,
};

const SOURCE: Source = Source {
    name: "regatta-bench-usrsctp",
    text: include_str!("../c/usrsctp.c"),
    libraries: &["-lusrsctp", "-lpthread"],
    missing: [
        "libusrsctp",
        "run `apt-get install build-essential libusrsctp-dev`",
    ],
};

/// The compiled program.
#[derive(Debug)]
pub struct Program(c_program::Program);

impl Program {
    /// Compiles the program beside this executable.
    ///
    /// # Errors
    /// [`BenchError::Missing`] without a compiler or the library.
    pub fn compile(executable: &Path) -> Result<Self, BenchError> {
        c_program::Program::compile(&SOURCE, executable).map(Self)
    }

    /// Moves `bytes` in messages of one size over one stream of one association, in IP packets of
    /// at most `mtu` bytes. Returns the receiver's bytes and time.
    ///
    /// # Errors
    /// [`BenchError::Process`] if it fails.
    pub fn race(&self, bytes: u64, message: u64, mtu: u32) -> Result<Figures, BenchError> {
        let [local, remote] = free_ports()?.map(|port| port.to_string());
        let mtu = mtu.to_string();
        let send = [&remote, &local, &mtu].map(String::clone);
        let amounts = [message.to_string(), bytes.to_string()];
        self.0
            .race(&[local, remote, mtu], |_| [&send[..], &amounts].concat())
    }
}

/// Returns two UDP ports that are free now.
fn free_ports() -> Result<[u16; 2], BenchError> {
    let free = || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
    let (one, other) = (free()?, free()?);
    Ok([one.local_addr()?.port(), other.local_addr()?.port()])
}
