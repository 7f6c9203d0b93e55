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

/// All studies that come with Regatta.
pub const BUILTIN: &[Builtin] = &[
    Builtin {
        name: DEFAULT,
        text: include_str!("../../../../studies/gadasin-2026-short.toml"),
    },
    Builtin {
        name: "gadasin-2026",
        text: include_str!("../../../../studies/gadasin-2026.toml"),
    },
    Builtin {
        name: "message-size-short",
        text: include_str!("../../../../studies/message-size-short.toml"),
    },
    Builtin {
        name: "buffer-size-short",
        text: include_str!("../../../../studies/buffer-size-short.toml"),
    },
    Builtin {
        name: "olkhovik-2025-short",
        text: include_str!("../../../../studies/olkhovik-2025-short.toml"),
    },
];

/// Looks a built-in study up by its name.
#[must_use]
pub fn builtin(name: &str) -> Option<&'static Builtin> {
    BUILTIN.iter().find(|study| study.name == name)
}
