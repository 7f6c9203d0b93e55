//! Whether the kernel of this machine loads modules.

use std::{fs, path::Path};

/// Whether this kernel loads modules, such as that of a protocol or of a congestion control: it was built for modules,
/// and loading further ones was not forbidden until the next boot.
#[must_use]
pub fn loads_modules() -> bool {
    loads_modules_below(Path::new("/proc"))
}

/// As [`loads_modules`], by the files of the kernel below this directory.
fn loads_modules_below(proc: &Path) -> bool {
    let disabled = fs::read_to_string(proc.join("sys/kernel/modules_disabled"));
    let is_disabled = disabled.is_ok_and(|text| text.trim() == "1");
    proc.join("modules").exists() && !is_disabled
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a kernel with these files loads modules.
    fn loads(name: &str, files: &[(&str, &str)]) -> bool {
        let proc = std::env::temp_dir().join(format!("regatta-{name}-{}", std::process::id()));
        fs::create_dir_all(proc.join("sys/kernel")).expect("a directory");
        for (file, text) in files {
            fs::write(proc.join(file), text).expect("a file");
        }
        let loads = loads_modules_below(&proc);
        fs::remove_dir_all(&proc).expect("the directory");
        loads
    }

    #[test]
    fn a_kernel_without_modules_loads_none() {
        assert!(!loads("without", &[]));
    }

    #[test]
    fn a_kernel_with_modules_loads_them_unless_that_is_disabled() {
        let modules = ("modules", "");
        let disabled = |text| ("sys/kernel/modules_disabled", text);
        assert!(loads("with", &[modules]));
        assert!(loads("enabled", &[modules, disabled("0\n")]));
        assert!(!loads("disabled", &[modules, disabled("1\n")]));
    }
}
