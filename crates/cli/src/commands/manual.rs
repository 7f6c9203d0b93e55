//! `regatta completions` and `regatta man`: both are made of the definition of the command line.

use std::fs;

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::completion;
use crate::{
    args::{Args, CompletionsArgs, ManArgs},
    exit::{Code, OrFailure as _, Result},
    output,
};

/// Runs `regatta completions`.
///
/// # Errors
/// Standard output cannot be written.
pub fn completions(args: &CompletionsArgs) -> Result<Code> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "regatta", &mut script);
    output::exactly(&with_words(&String::from_utf8_lossy(&script), args.shell))?;
    Ok(Code::Measured)
}

/// Returns the script of a shell with what asks this program for further words.
fn with_words(script: &str, shell: Shell) -> String {
    match shell {
        Shell::Bash => format!("{script}{}", completion::BASH),
        Shell::Zsh => script.replacen(completion::ZSH_FUNCTION, completion::ZSH, 1),
        Shell::Fish => format!("{script}{}", completion::FISH),
        _ => script.to_owned(),
    }
}

/// Runs `regatta man`.
///
/// # Errors
/// The directory cannot be made, or a page cannot be written.
pub fn man(args: &ManArgs) -> Result<Code> {
    fs::create_dir_all(&args.dir)
        .and_then(|()| clap_mangen::generate_to(Args::command(), &args.dir))
        .cannot("write the man pages into", &args.dir)?;
    output::show(&format!("{}\n", args.dir.join("regatta.1").display()))
}
