//! Values of facts that say nothing.

/// Beginning of the value of a fact that has no meaning for a transport; the reason follows.
pub const NOT_APPLICABLE: &str = "not applicable";

/// Beginning of the value of a fact that a stack does not report; the reason follows.
pub const NOT_KNOWN: &str = "not known";
