//! Build facts of this program, which are stored with every result, and the name of the machine.

use regatta_model::HostFacts;
use regatta_transport::compiled;

/// Returns the build facts: commit, `yes` if the sources differ from it, profile, optimisation,
/// debug assertions, lock file, compiler; `unknown` where the build could not find out.
pub fn facts() -> HostFacts {
    let switch = if compiled::DEBUG_ASSERTIONS {
        "on"
    } else {
        "off"
    };
    let facts = [
        ("commit", env!("REGATTA_BUILD_COMMIT")),
        ("dirty", env!("REGATTA_BUILD_DIRTY")),
        ("profile", env!("REGATTA_BUILD_PROFILE")),
        ("opt_level", compiled::OPT_LEVEL),
        ("debug_assertions", switch),
        ("lockfile_sha256", env!("REGATTA_BUILD_LOCKFILE")),
        ("compiler", env!("REGATTA_BUILD_COMPILER")),
    ];
    HostFacts(
        facts
            .into_iter()
            .map(|(name, value)| (format!("build.{name}"), value.to_owned()))
            .collect(),
    )
}

/// Returns the name of this machine; empty if the system does not know it.
pub fn node() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
