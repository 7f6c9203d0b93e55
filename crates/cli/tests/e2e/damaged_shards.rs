//! Shards that `regatta merge` must refuse.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    help::Bench,
    large::{plan, store},
};

/// Numbers of a linear congruential generator.
struct Draws(u64);

impl Draws {
    fn below(&mut self, most: usize) -> usize {
        self.0 = (self.0)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % most
    }
}

/// Shards of a plan, and files that are refused beside them.
struct Shards {
    bench: Bench,
    draws: Draws,
    /// Results file of shard 2.
    whole: Vec<u8>,
}

impl Shards {
    fn new() -> Self {
        let bench = Bench::new();
        for number in [1, 2] {
            store(&plan(2, 2), number, &bench.path(&format!("part-{number}")));
        }
        let whole = fs::read(bench.path("part-2/results.sqlite")).expect("results");
        bench.run(&["merge", "earlier", "part-1", "--no-report"]);
        Self {
            bench,
            draws: Draws(20_261_125),
            whole,
        }
    }

    /// Makes a directory with these bytes as the results file, and with the digest of shard 2 if it is given one.
    fn directory(&self, name: &str, bytes: &[u8], digest: bool) -> PathBuf {
        let dir = self.bench.path(name);
        fs::create_dir(&dir).expect("a new directory");
        fs::write(dir.join("results.sqlite"), bytes).expect("written");
        if digest {
            let file = "results.sqlite.sha256";
            fs::copy(self.bench.path("part-2").join(file), dir.join(file)).expect("a digest");
        }
        dir
    }

    /// Returns shard 2 with a damage at a random place.
    fn damaged(&mut self, kind: usize) -> Vec<u8> {
        let mut bytes = self.whole.clone();
        let (length, draws) = (bytes.len(), &mut self.draws);
        while bytes == self.whole {
            let at = draws.below(length);
            let end = (at + 1 + draws.below(8192)).min(length);
            let pages = [draws.below(length / 4096), draws.below(length / 4096)];
            match kind {
                0 => bytes.truncate(at),
                1 => bytes[at] ^= 1 << draws.below(8),
                2 => bytes[at..end].fill(0),
                3 => bytes[at..end].fill_with(|| draws.below(256) as u8),
                4 => bytes.copy_within(pages[0] * 4096..(pages[0] + 1) * 4096, pages[1] * 4096),
                _ => bytes.extend(vec![0; 4096 * (1 + draws.below(4))]),
            }
        }
        bytes
    }

    /// Makes the case-th file that must be refused, in a directory of this name. Returns what the refusal says.
    fn make(&mut self, case: usize, name: &str) -> &'static str {
        let whole = self.whole.clone();
        match case % 10 {
            kind @ 0..=5 => {
                let bytes = self.damaged(kind);
                self.directory(name, &bytes, true);
                ""
            }
            6 => {
                store(&plan(3 + case as u64, 2), 2, &self.bench.path(name));
                "it is of another plan"
            }
            7 => {
                let dir = self.directory(name, &whole, false);
                set_schema(&dir, if case % 20 == 7 { 1 } else { 99 });
                "with tables of version"
            }
            8 => {
                self.directory(name, &whole, case % 20 == 8);
                "it is the same run as `part-2`"
            }
            _ => {
                let merged = fs::read(self.bench.path("earlier/results.sqlite")).expect("results");
                self.directory(name, &merged, false);
                "it is merged already"
            }
        }
    }
}

/// Sets the version of the tables in the header of the file, where SQLite has `user_version`.
fn set_schema(dir: &Path, version: u32) {
    let path = dir.join("results.sqlite");
    let mut bytes = fs::read(&path).expect("results");
    bytes[60..64].copy_from_slice(&version.to_be_bytes());
    fs::write(&path, bytes).expect("written");
}

/// A hundred of a hundred: damages at random places, shards of other plans and of other versions, copies, merged files.
#[test]
fn damaged_foreign_and_duplicate_shards_are_refused_by_name() {
    let mut shards = Shards::new();
    for case in 0..100 {
        let name = format!("bad-{case}");
        let expected = shards.make(case, &name);
        let done = shards
            .bench
            .run(&["merge", "merged", "part-1", "part-2", &name]);
        println!("{}", done.stderr.trim());
        done.assert_code(2);
        done.assert_stderr_contains("1 file cannot be merged, and nothing was written");
        done.assert_stderr_contains(&format!("`{name}` cannot be merged: "));
        done.assert_stderr_contains(expected);
        assert!(!shards.bench.path("merged").exists(), "case {case}");
        fs::remove_dir_all(shards.bench.path(&name)).expect("removed");
    }
    // Without them the shards are good.
    let done = shards
        .bench
        .run(&["merge", "merged", "part-1", "part-2", "--no-report"]);
    done.assert_code(3);
    done.assert_stderr_contains("16 of 160 trials are merged, from 2 files");
}
