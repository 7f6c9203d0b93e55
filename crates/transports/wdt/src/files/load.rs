//! Files that an earlier transfer has left, verified before they are held.

use std::{collections::HashSet, ffi::CString, io, os::unix::ffi::OsStrExt as _, path::Path};

use super::{
    directory::{Shared, State},
    directory_handle::if_there,
    entry::Entry,
    journal::{self, Recorded, staged},
};

impl Shared {
    /// Adds to `state` the files of an earlier transfer's journal whose content still matches the journal's checksums,
    /// and removes all other files from the staging directory, `path`.
    ///
    /// # Errors
    /// Errors of the file system. A file that no longer matches is none.
    pub(super) fn load(&self, state: &mut State, path: &Path) -> io::Result<()> {
        let mut staged_names = HashSet::new();
        for (sequence, recorded) in journal::read(&self.staging)? {
            let held = match self.named(state, &recorded) {
                Some(entry) => Some(entry),
                None => self.unfinished(state, sequence, recorded)?,
            };
            let Some(entry) = held else { continue };
            if entry.is_named {
                state.replaceable.insert(entry.path.clone());
            } else {
                staged_names.insert(sequence.to_string());
            }
            state.entries.add(sequence, entry);
        }
        for entry in std::fs::read_dir(path)? {
            let name = entry?.file_name();
            let is_staged = name
                .to_str()
                .is_some_and(|name| staged_names.contains(name));
            if !is_staged && !journal::is_own(name.as_bytes()) {
                self.staging.remove(&CString::new(name.as_bytes())?)?;
            }
        }
        Ok(())
    }

    /// Returns a file that has been renamed to its final name, if it is still complete and unchanged.
    fn named(&self, state: &mut State, recorded: &Recorded) -> Option<Entry> {
        let (parent, name) = state.parents.of(&recorded.path).ok()??;
        let file = parent.read(&name).ok()?;
        if file.metadata().ok()?.len() != recorded.size {
            return None;
        }
        let mut blocks = recorded.blocks.clone();
        journal::verify(&file, &mut blocks).ok()?;
        let mut entry = Entry::held(recorded.path.clone(), recorded.size, blocks);
        entry.is_named = true;
        entry.is_complete().then_some(entry)
    }

    /// Returns a file of the staging directory with those of its blocks that are unchanged.
    fn unfinished(
        &self,
        state: &mut State,
        sequence: u64,
        recorded: Recorded,
    ) -> io::Result<Option<Entry>> {
        let name = staged(sequence)?;
        let Some(file) = if_there(self.staging.read(&name))? else {
            return Ok(None);
        };
        let there = file.metadata()?.len();
        // What could not be named in the end is no use: it comes again, and is refused then.
        let can_be_named = (self.check(state, &recorded.path, recorded.replaces)).is_ok();
        if there < recorded.size || !can_be_named {
            return Ok(None);
        }
        if there > recorded.size {
            self.staging.write(&name)?.set_len(recorded.size)?;
        }
        let mut blocks = recorded.blocks;
        journal::verify(&file, &mut blocks)?;
        let mut entry = Entry::held(recorded.path, recorded.size, blocks);
        entry.replaces = recorded.replaces;
        Ok(Some(entry))
    }
}
