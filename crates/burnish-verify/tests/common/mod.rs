//! Where the shared data is, and how it is read.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![allow(dead_code, reason = "each test binary uses a part")]

pub(crate) mod frames;
pub(crate) mod rewritings;

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// `../shared/data/NAME`, looked up beside the repository. Prints `skipped: ` if it is not there.
pub(crate) fn shared(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(name);
    if root.is_dir() {
        return Some(root);
    }
    println!("skipped: there is no {}", root.display());
    None
}

/// The rows of a JSON Lines file.
pub(crate) fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The value in a gzipped JSON file.
pub(crate) fn gzipped(path: &Path) -> Value {
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The text of a gzipped file.
pub(crate) fn gunzipped(path: &Path) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

/// A small random number generator (SplitMix64), so that a test is the same on every machine.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
