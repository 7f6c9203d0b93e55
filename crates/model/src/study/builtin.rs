//! The studies that come with Regatta: one TOML file each, in `studies/`.

/// Study that comes with Regatta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    /// Name for `regatta run NAME`.
    pub name: &'static str,
    /// Text of the study file.
    pub text: &'static str,
}

/// Name of the study that runs when none is named.
pub const DEFAULT: &str = "gadasin-2026-short";

macro_rules! builtins {
    ($($name:literal),*) => {
        /// All studies that come with Regatta.
        pub const BUILTIN: &[Builtin] = &[$(Builtin {
            name: $name,
            text: include_str!(concat!("../../../../studies/", $name, ".toml")),
        }),*];
    };
}

builtins!(
    "gadasin-2026-short",
    "gadasin-2026",
    "gadasin-2026-handshakes",
    "gadasin-2026-streams",
    "gadasin-2026-multihoming",
    "gadasin-2026-migration",
    "gadasin-2026-loss",
    "gadasin-2026-loss-offloads",
    "gadasin-2026-queue",
    "gadasin-2026-programs",
    "message-size-short",
    "message-size",
    "buffer-size-short",
    "buffer-size",
    "olkhovik-2025-short",
    "olkhovik-2025",
    "olkhovik-2025-hosts",
    "olkhovik-2025-core",
    "udpr",
    "udpr-short",
    "udpr-messages",
    "udpr-whole",
    "page-load",
    "video-segments",
    "rpc-mix",
    "queue-disciplines",
    "competition-bbr",
    "rfc9743"
);

/// Looks a built-in study up by its name.
#[must_use]
pub fn builtin(name: &str) -> Option<&'static Builtin> {
    BUILTIN.iter().find(|study| study.name == name)
}
