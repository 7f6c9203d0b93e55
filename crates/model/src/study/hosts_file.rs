//! Reader of the hosts file: machines that a study can run on, a table for each.

use std::{collections::BTreeMap, net::Ipv4Addr, path::PathBuf};

use super::{
    error::Result,
    file::is_host_name,
    host_address::HostAddress,
    section::{Section, refuse},
    source::{File, no_files},
};
use crate::{PortRange, units::UnitError};

/// Name of this machine.
pub const LOCAL: &str = "local";

/// Way in which a host is attached to a shaped path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attach {
    /// By a macvlan of its own, on top of the interface of the host.
    Macvlan {
        /// Address of the macvlan, and length of its prefix.
        address: (Ipv4Addr, u8),
    },
    /// By the interface of the host, of which the packets to the other host are shaped.
    Interface,
}

/// Shaping of the path on a host by netem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shaping {
    /// Interface of the host.
    pub parent: String,
    /// Placement of netem.
    pub attach: Attach,
}

/// Host of the hosts file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemoteHost {
    /// Destination, as the user's `ssh` takes it; `None` for this machine.
    pub ssh: Option<String>,
    /// Further options of `ssh`.
    pub ssh_options: Vec<String>,
    /// Address on the path, or the interface that has it.
    pub address: Option<HostAddress>,
    /// Ports on which it may listen; absent, any port.
    pub ports: Option<PortRange>,
    /// Command, in words, that runs Regatta on the host with more rights, such as `sudo -n`.
    pub become_command: Vec<String>,
    /// Regatta there; absent, it is sent.
    pub agent: Option<PathBuf>,
    /// Directory there with the programs of external drivers; absent, they are sent.
    pub programs: Option<PathBuf>,
    /// Private key of Regatta's own.
    pub key: Option<PathBuf>,
    /// Shaping of the path, where it is allowed.
    pub shaping: Option<Shaping>,
}

impl RemoteHost {
    /// Parses the hosts file; `file` is its name for messages.
    ///
    /// # Errors
    /// The first mistake, with file, line, caret and hint.
    pub fn parse_all(text: &str, file: &str) -> Result<BTreeMap<String, Self>> {
        let source = File::new(file, text, &no_files);
        let document = source.parse(
            "the hosts file has a table for each host: `[lab1]` with `ssh = \"user@address\"` below",
        )?;
        let mut hosts = BTreeMap::new();
        for (name, value) in document {
            let (span, name) = (name.span(), name.into_inner().into_owned());
            refuse! { source;
                !is_host_name(&name) => span,
                    "`{name}` cannot be the name of a host",
                    "write letters, digits, `-`, `_` and `.`, 64 at most";
            }
            let toml::de::DeValue::Table(table) = value.into_inner() else {
                return Err(source.error(
                    span,
                    format!("`{name}` is not the table of a host"),
                    "write `[lab1]` with `ssh = \"user@address\"` below",
                ));
            };
            let section = Section::new(source, &format!("[{name}]"), span, table);
            hosts.insert(name.clone(), Self::read(&name, section)?);
        }
        Ok(hosts)
    }

    fn read(name: &str, mut section: Section<'_>) -> Result<Self> {
        let ssh = section.text("ssh")?;
        let ssh = match (name == LOCAL, ssh) {
            (true, None) => None,
            (is_local, ssh) => {
                let (ssh, span) = section.required("ssh", "\"user@address\"", ssh)?;
                refuse! { section;
                    is_local => span,
                        "`local` is this machine, which is not reached by SSH",
                        "leave `ssh` out, or give the host another name";
                    ssh.is_empty() || ssh.starts_with('-') || ssh.contains(char::is_control) => span,
                        "this is no destination of `ssh`",
                        "write it as for `ssh`: `ssh = \"user@address\"`, or an alias of `~/.ssh/config`";
                }
                Some(ssh)
            }
        };
        let address = section.parsed("address", "10.0.0.7")?;
        let ports = section.parsed("ports", "5200-5299")?;
        let (become_command, span) = section.text("become")?.unwrap_or_default();
        let become_command = words_of(&section, &become_command, span)?;
        let agent = section.text("agent")?;
        if let Some((agent, span)) = &agent {
            refuse! { section;
                !agent.starts_with('/') || !is_plain(agent) => span.clone(),
                    "`agent` is the absolute path of Regatta on the host, of ordinary characters",
                    "write `agent = \"/usr/local/bin/regatta\"`";
            }
        }
        let programs = section.text("programs")?;
        if let Some((programs, span)) = &programs {
            refuse! { section;
                !programs.starts_with('/') => span.clone(),
                    "`programs` is the absolute path of a directory on the host",
                    "write `programs = \"/opt/regatta/external\"`";
            }
        }
        let key = section.text("key")?;
        let ssh_options = section.texts("ssh_options")?;
        let shaping = section.section("shaping", &format!("[{name}.shaping]"))?;
        let shaping = shaping.map(read_shaping).transpose()?;
        section.end()?;
        Ok(Self {
            ssh,
            ssh_options,
            address: address.map(|(address, _)| address),
            ports: ports.map(|(ports, _)| ports),
            become_command,
            agent: agent.map(|(agent, _)| agent.into()),
            programs: programs.map(|(programs, _)| programs.into()),
            key: key.map(|(key, _)| key.into()),
            shaping,
        })
    }

    /// Returns the table of this host as it is written to the hosts file.
    #[must_use]
    pub fn table(&self, name: &str) -> String {
        let quoted = |text: &str| toml::Value::from(text).to_string();
        let path = |path: &PathBuf| quoted(&path.to_string_lossy());
        let mut table = format!("[{name}]\n");
        let options = toml::Value::from(self.ssh_options.clone()).to_string();
        let options = (!self.ssh_options.is_empty()).then_some(options);
        let become_command = self.become_command.join(" ");
        for (key, value) in [
            ("ssh", self.ssh.as_deref().map(quoted)),
            ("ssh_options", options),
            (
                "address",
                self.address.as_ref().map(|it| quoted(&it.to_string())),
            ),
            ("ports", self.ports.map(|it| quoted(&it.to_string()))),
            (
                "become",
                (!become_command.is_empty()).then(|| quoted(&become_command)),
            ),
            ("agent", self.agent.as_ref().map(path)),
            ("programs", self.programs.as_ref().map(path)),
            ("key", self.key.as_ref().map(path)),
        ] {
            table.extend(value.map(|value| format!("{key} = {value}\n")));
        }
        if let Some(Shaping { parent, attach }) = &self.shaping {
            let parent = quoted(parent);
            let rest = match attach {
                Attach::Macvlan {
                    address: (address, bits),
                } => format!("address = \"{address}/{bits}\""),
                Attach::Interface => "attach = \"interface\"".to_owned(),
            };
            table.push_str(&format!("\n[{name}.shaping]\nparent = {parent}\n{rest}\n"));
        }
        table
    }

    /// Returns the text of a hosts file without the tables of one host.
    #[must_use]
    pub fn without(text: &str, name: &str) -> String {
        let mut is_kept = true;
        let mut rest = String::new();
        for line in text.split_inclusive('\n') {
            let trimmed = line.trim();
            if let Some(header) = trimmed.strip_prefix('[') {
                let table = header.split([']', '.']).next().unwrap_or_default();
                is_kept = table.trim().trim_matches(['"', '\'']) != name;
            }
            if is_kept {
                rest.push_str(line);
            }
        }
        rest
    }
}

fn network(text: &str) -> Result<(Ipv4Addr, u8), UnitError> {
    let parts = text.split_once('/');
    let parts = parts.and_then(|(address, bits)| {
        let bits = bits.parse().ok().filter(|bits| (1..=31).contains(bits))?;
        Some((address.parse().ok()?, bits))
    });
    parts.ok_or_else(|| {
        UnitError::new(
            "this is no IPv4 address with the length of its prefix",
            "write a spare address of that network, or one of 198.18.0.0/15: `198.18.0.1/24`",
        )
    })
}

/// Whether a word can stand in a command of the remote shell as it is.
fn is_plain(word: &str) -> bool {
    word.chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_./=:@%+,".contains(c))
}

fn words_of(
    section: &Section<'_>,
    text: &str,
    span: std::ops::Range<usize>,
) -> Result<Vec<String>> {
    let words: Vec<String> = text.split_ascii_whitespace().map(str::to_owned).collect();
    refuse! { section;
        !words.iter().all(|word| is_plain(word)) => span,
            "`become` is a command of plain words",
            "write `become = \"sudo -n\"`; what needs more goes into a script on the host";
    }
    Ok(words)
}

fn read_shaping(mut section: Section<'_>) -> Result<Shaping> {
    let attach = section.choice_of("attach", &[("macvlan", false), ("interface", true)])?;
    let is_interface = attach.is_some_and(|(is_interface, _)| is_interface);
    let parent = section.text("parent")?;
    let (parent, span) = section.required("parent", "\"eth0\"", parent)?;
    // As the kernel has it.
    refuse! { section;
        parent.is_empty() || parent.len() > 15 || parent.contains(['/', ' ']) => span,
            "this is no name of an interface", "write one that `ip link` shows, such as `eth0`";
    }
    let address = section.quantity("address", "198.18.0.1/24", network)?;
    let attach = match (is_interface, address) {
        (true, None) => Attach::Interface,
        (true, Some((_, span))) => {
            return Err(section.error(
                span,
                "`attach = \"interface\"` uses the address that the host has",
                "leave `address` out here; `address` of the host itself names one of several",
            ));
        }
        (false, address) => {
            let (address, _) = section.required("address", "\"198.18.0.1/24\"", address)?;
            Attach::Macvlan { address }
        }
    };
    section.end()?;
    Ok(Shaping { parent, attach })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"# Machines of the lab.
[lab1]
ssh = "alice@10.0.0.7" # the old one
address = "10.0.1.7"
ports = "5200-5299"
become = "sudo -n"

[lab1.shaping]
parent = "eth1"
address = "198.18.0.1/24"

[lab2]
ssh = "lab2"

[lab2.shaping]
attach = "interface"
parent = "eth2"

[local]
address = "10.0.1.1"
"#;

    #[test]
    fn hosts_are_read_with_their_defaults() {
        let hosts = RemoteHost::parse_all(FILE, "hosts.toml").unwrap();
        let lab1 = &hosts["lab1"];
        assert_eq!(lab1.ssh.as_deref(), Some("alice@10.0.0.7"));
        assert_eq!(lab1.become_command, ["sudo", "-n"]);
        assert_eq!(lab1.ports, "5200-5299".parse().ok());
        let shaping = lab1.shaping.as_ref().unwrap();
        let address = (Ipv4Addr::new(198, 18, 0, 1), 24);
        assert_eq!(shaping.attach, Attach::Macvlan { address });
        let shaping = hosts["lab2"].shaping.as_ref().unwrap();
        assert_eq!(
            (&*shaping.parent, shaping.attach),
            ("eth2", Attach::Interface)
        );
        assert_eq!(hosts["lab2"].address, None);
        assert_eq!(hosts["local"].ssh, None);
    }

    #[test]
    fn a_host_is_written_and_removed_and_the_rest_stays() {
        let host = RemoteHost {
            ssh: Some("bob@\"x\"".into()),
            key: Some("/home/bob/key".into()),
            ssh_options: vec!["-oPort=2222".into()],
            programs: Some("/opt/programs".into()),
            ..RemoteHost::parse_all(FILE, "hosts.toml").unwrap()["lab1"].clone()
        };
        let other = RemoteHost::parse_all(FILE, "hosts.toml").unwrap()["lab2"].clone();
        let text = format!("{FILE}\n{}{}", host.table("new"), other.table("newer"));
        let hosts = RemoteHost::parse_all(&text, "hosts.toml").unwrap();
        assert_eq!(hosts["new"], host);
        assert_eq!(hosts["newer"], other);
        let without = RemoteHost::without(FILE, "lab1");
        assert!(
            without.starts_with("# Machines of the lab.\n[lab2]"),
            "{without}"
        );
        assert_eq!(RemoteHost::without(FILE, "lab"), FILE);
    }

    fn mistake(text: &str) -> String {
        let error = RemoteHost::parse_all(text, "hosts.toml").unwrap_err();
        format!("{}: {}: {}", error.line(), error.message, error.hint)
    }

    #[test]
    fn errors_have_a_line_and_a_hint() {
        for (text, line, expected) in [
            ("[lab1]\nadress = 1", 1, "has no `ssh`"),
            ("[lab1]\nssh = \"x\"\nadress = \"y\"", 3, "adress"),
            ("[lab1]\nssh = 7", 2, "is a text"),
            ("[lab1]\nssh = \"-oProxyCommand=x\"", 2, "no destination"),
            ("[local]\nssh = \"x\"", 2, "this machine"),
            ("[a]\nssh = \"x\"\naddress = \"10.0.0\"", 3, "no IP address"),
            (
                "[a]\nssh = \"x\"\naddress = 5",
                3,
                "`address = \"10.0.0.7\"`",
            ),
            (
                "[a]\nssh = \"x\"\nports = \"5299-5200\"",
                3,
                "no range of ports",
            ),
            ("[a]\nssh = \"x\"\nports = 5200", 3, "5200-5299"),
            ("[a]\nssh = \"x\"\nbecome = \"sudo 'x'\"", 3, "plain words"),
            ("[a]\nssh = \"x\"\nagent = \"regatta\"", 3, "absolute path"),
            ("[a]\nssh = \"x\"\nprograms = \"x\"", 3, "absolute path"),
            ("a = 1", 1, "not the table of a host"),
            ("[\"a b\"]\nssh = \"x\"", 1, "cannot be the name"),
            (
                "[a]\nssh = \"x\"\n[a.shaping]\nattach = \"macvlan\"",
                3,
                "has no `parent`",
            ),
            (
                "[a]\nssh = \"x\"\n[a.shaping]\nparent = \"eth1\"",
                3,
                "has no `address`",
            ),
            (
                "[a]\nssh = \"x\"\n[a.shaping]\nattach = \"interface\"\nparent = \"eth1\"\naddress = \"10.0.0.1/8\"",
                6,
                "the address that the host has",
            ),
            ("[a", 1, "not TOML"),
        ] {
            let found = mistake(text);
            assert!(
                found.starts_with(&format!("{line}: ")) && found.contains(expected),
                "{text}: {found}"
            );
        }
    }
}
