//! Arguments of `regatta bundle`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// Parses the name of the archive, which must not be that of some other file by mistake.
fn archive(text: &str) -> Result<PathBuf, String> {
    match text.ends_with(".tar.gz") || text.ends_with(".tgz") {
        true => Ok(PathBuf::from(text)),
        false => Err("the name of the archive ends in `.tar.gz`".to_owned()),
    }
}

/// `regatta bundle`.
#[derive(Debug, ClapArgs)]
pub struct BundleArgs {
    /// Directory of the run
    pub dir: PathBuf,
    /// Archive to write; an old one is replaced [default: the name of the directory, with `.tar.gz`]
    #[arg(long, value_name = "FILE", value_parser = archive)]
    pub out: Option<PathBuf>,
    /// Put the files of the trials in as well: captures, and logs of the stacks with the keys of
    /// their connections
    #[arg(long)]
    pub captures: bool,
}
