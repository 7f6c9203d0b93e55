//! Facts of stacks, read back while they ran, and of hosts.

use std::{
    collections::{BTreeMap, btree_map},
    ops::{Deref, DerefMut},
};

use serde::{Deserialize, Serialize};

use crate::warning::Text;

/// Values of facts by name: `congestion_control.sender`, `tls.cipher_suite`, `probe.placement`, ….
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Facts(BTreeMap<String, Text>);

impl Facts {
    /// Adds a fact; returns its earlier value.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<Text>) -> Option<Text> {
        self.0.insert(name.into(), value.into())
    }
}

impl Deref for Facts {
    type Target = BTreeMap<String, Text>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Facts {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<N: Into<String>, V: Into<Text>> Extend<(N, V)> for Facts {
    fn extend<I: IntoIterator<Item = (N, V)>>(&mut self, facts: I) {
        let facts = facts.into_iter();
        self.0
            .extend(facts.map(|(name, value)| (name.into(), value.into())));
    }
}

impl<N: Into<String>, V: Into<Text>> FromIterator<(N, V)> for Facts {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(facts: I) -> Self {
        let mut all = Self::default();
        all.extend(facts);
        all
    }
}

impl<N: Into<String>, V: Into<Text>, const COUNT: usize> From<[(N, V); COUNT]> for Facts {
    fn from(facts: [(N, V); COUNT]) -> Self {
        facts.into_iter().collect()
    }
}

impl IntoIterator for Facts {
    type Item = (String, Text);
    type IntoIter = btree_map::IntoIter<String, Text>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Facts {
    type Item = (&'a String, &'a Text);
    type IntoIter = btree_map::Iter<'a, String, Text>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// Facts about a host by name: kernel, CPU, governor, sysctls, offloads, versions of every stack.
///
/// Names are dotted (`kernel.release`, `cpu.model`, `sysctl.net.core.rmem_max`, `offload.tun0.gso`,
/// `version.quinn`), values are as the host reports them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostFacts(pub BTreeMap<String, String>);

impl HostFacts {
    /// Whether a fact changes with each start of the host or of its guest and is no setting, such as the memory that the
    /// kernel of a guest leaves to programs.
    #[must_use]
    pub fn is_volatile(&self, name: &str) -> bool {
        match name {
            "cpu.mhz" | "guest.start_ms" => true,
            "memory.bytes" => self.0.contains_key("guest.kernel"),
            _ => false,
        }
    }
}
