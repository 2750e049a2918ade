//! mergekit 0.1.5 on the same checkpoints and configurations: what it made is compared with what is made here.
//!
//! The committed files are small. With `BURNISH_PYTHON`, a Python that has mergekit, larger ones are made anew.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use burnish_weights::{Checkpoint, Float, Options, parse};

/// Where a sum cancels, what is left is the rounding of its terms, a share of them of this size: torch multiplies and
/// adds without rounding in between.
const ROUNDING: f32 = 2.0 * f32::EPSILON;

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

type Values = BTreeMap<String, Vec<f32>>;

fn values(path: &Path) -> Values {
    let checkpoint = Checkpoint::open(path).unwrap();
    let decoded = |view: burnish_weights::View<'_>| {
        assert_eq!(Float::of(view.dtype), Some(Float::Bf16));
        let value = |bytes: &[u8]| half::bf16::from_le_bytes(bytes.try_into().unwrap()).to_f32();
        (view.name.to_owned(), view.bytes.chunks(2).map(value).collect())
    };
    checkpoint.tensors().map(decoded).collect()
}

/// Distance in steps of bf16.
fn steps(a: f32, b: f32) -> u32 {
    let order = |value: f32| {
        let bits = i32::from(half::bf16::from_f32(value).to_bits() as i16);
        if bits < 0 { -(bits & 0x7fff) } else { bits }
    };
    order(a).abs_diff(order(b))
}

/// What mergekit and we made of one configuration.
struct Case {
    name: String,
    folder: PathBuf,
    theirs: Values,
    ours: Values,
}

impl Case {
    fn model(&self, name: &str) -> Values {
        values(&self.folder.join(name))
    }

    /// Same names, and no element further apart than so many steps, or `close` of the largest in its tensor. Elements
    /// that `is_free` are not compared; they are few.
    fn agrees(&self, most: u32, close: f32, is_free: impl Fn(&str, usize) -> bool) {
        assert_eq!(
            self.theirs.keys().collect::<Vec<_>>(),
            self.ours.keys().collect::<Vec<_>>(),
            "{}",
            self.name
        );
        let (mut free, mut all) = (0, 0);
        for (tensor, theirs) in &self.theirs {
            let largest = theirs.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
            for (at, (theirs, ours)) in theirs.iter().zip(&self.ours[tensor]).enumerate() {
                let is_close = (theirs - ours).abs() <= close * largest;
                let agrees = steps(*theirs, *ours) <= most || is_close;
                assert!(agrees || is_free(tensor, at), "{} {tensor} [{at}]: {theirs} {ours}", self.name);
                free += usize::from(!agrees);
                all += 1;
            }
        }
        assert!(50 * free <= all, "{}: {free} of {all} differ", self.name);
    }

    /// Elements whose change has just the size at which TIES cuts: mergekit sorts unstably, so which of them it keeps
    /// is a matter of chance; here the first ones are kept.
    fn cut_elements(&self, models: &[(&str, f64)]) -> BTreeMap<String, Vec<bool>> {
        let base = self.model("base");
        let mut cut: BTreeMap<String, Vec<bool>> = BTreeMap::new();
        for (model, density) in models {
            for (tensor, values) in self.model(model) {
                let sizes = values.iter().zip(&base[&tensor]).map(|(value, base)| (value - base).abs());
                let sizes: Vec<f32> = sizes.collect();
                let mut sorted = sizes.clone();
                sorted.sort_by(|one, other| other.total_cmp(one));
                let least = sorted[((density * sizes.len() as f64) as usize).max(1) - 1];
                let cut = cut.entry(tensor).or_insert_with(|| vec![false; sizes.len()]);
                cut.iter_mut().zip(&sizes).for_each(|(cut, size)| *cut |= *size == least);
            }
        }
        cut
    }
}

/// Compares all cases in a folder that `make.py` filled; returns how many.
fn compare(folder: &Path) -> usize {
    let scratch = tempfile::tempdir().unwrap();
    let mut count = 0;
    for kind in ["llama", "qwen"] {
        let folder = folder.join(kind);
        let mut configurations: Vec<PathBuf> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
            .collect();
        configurations.sort();
        for path in configurations {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).unwrap().replace('@', &folder.display().to_string());
            let out = scratch.path().join(format!("{kind}_{name}"));
            let go_on = &mut |_| ControlFlow::Continue(());
            parse(&path, &text).unwrap().run(&out, &Options::default(), go_on).unwrap();
            let theirs = values(&folder.join(format!("{name}.safetensors")));
            let config = folder.join(format!("{name}.json"));
            if config.exists() {
                let layers = |path: &Path| json(path)["num_hidden_layers"].clone();
                assert_eq!(layers(&out.join("config.json")), layers(&config), "{name}");
            }
            let case = Case { ours: values(&out), theirs, name, folder: folder.clone() };
            check(&case);
            count += 1;
        }
    }
    count
}

fn check(case: &Case) {
    match case.name.as_str() {
        // What is dropped differs by the generator, so each result is held against its own mask.
        "dare_linear" => dare(case, &[("a", 1.0, 0.5)], true, false),
        "dare_plain" => dare(case, &[("a", 0.6, 0.5), ("b", 0.7, 0.3)], false, false),
        "dare_ties" => dare(case, &[("a", 0.6, 0.5), ("b", 0.7, 0.3)], false, true),
        // Computed in bf16 there: each of a few operations rounds.
        name if name.starts_with("plain_") => case.agrees(2, 0.01, |_, _| false),
        "ties" | "ties_sum" => {
            let cut = case.cut_elements(&[("a", 0.5), ("b", 0.3), ("c", 0.9)]);
            case.agrees(1, ROUNDING, |tensor, at| cut[tensor][at]);
        }
        _ => case.agrees(1, ROUNDING, |_, _| false),
    }
}

/// The models of a case with weight and density, for one tensor: the change of each.
fn dare(case: &Case, models: &[(&str, f64, f64)], rescale: bool, elects: bool) {
    let base = case.model("base");
    let others: Vec<Values> = models.iter().map(|(name, ..)| case.model(name)).collect();
    for made in [&case.theirs, &case.ours] {
        let (mut kept, mut all) = (vec![0usize; models.len()], 0usize);
        for (tensor, made) in made {
            let base = &base[tensor];
            let changes: Vec<Vec<f64>> = others
                .iter()
                .map(|other| other[tensor].iter().zip(base).map(|(x, y)| f64::from(x - y)).collect())
                .collect();
            // With scaling, the factor follows from what was kept, so it is first read off, of one model.
            let scale = if rescale { read_scale(made, base, &changes[0]) } else { 1.0 };
            for (at, made) in made.iter().enumerate() {
                let weighted = |model: usize| scale * models[model].1 * changes[model][at];
                let masks = 0..1u32 << models.len();
                let value = |mask: u32| {
                    let parts: Vec<f64> = (0..models.len())
                        .map(|model| if mask >> model & 1 == 1 { weighted(model) } else { 0.0 })
                        .collect();
                    let sum: f64 = parts.iter().sum();
                    let agrees = |part: &&f64| !elects || (**part > 0.0) == (sum >= 0.0);
                    f64::from(base[at]) + parts.iter().filter(agrees).sum::<f64>()
                };
                let distance = |mask: &u32| steps(value(*mask) as f32, *made);
                let mask = masks.min_by_key(distance).unwrap();
                // Where base and change cancel, what is left is the rounding of terms, here of the scale as well.
                let left = f64::from(2.0 * ROUNDING * base[at].abs());
                let is_close = (value(mask) - f64::from(*made)).abs() <= left;
                assert!(
                    distance(&mask) <= 1 || is_close,
                    "{} {tensor} [{at}]: {made} is no sum of kept changes",
                    case.name
                );
                // Only where all masks give different values can the mask be read off.
                let mut values: Vec<u32> =
                    (0..1u32 << models.len()).map(|mask| (value(mask) as f32).to_bits()).collect();
                values.sort_unstable();
                values.dedup_by(|x, y| steps(f32::from_bits(*x), f32::from_bits(*y)) <= 2);
                if values.len() == 1 << models.len() {
                    all += 1;
                    (0..models.len()).for_each(|model| kept[model] += (mask >> model & 1) as usize);
                }
            }
        }
        for ((name, _, density), kept) in models.iter().zip(kept) {
            let deviation = (density * (1.0 - density) / all as f64).sqrt();
            let share = kept as f64 / all as f64;
            // Values that can be told apart are not quite a random choice where signs are elected.
            let tolerance = 5.0 * deviation + if elects { 0.05 } else { 0.0 };
            assert!((share - density).abs() < tolerance, "{} {name}: {share} of {all} are kept", case.name);
        }
    }
}

/// The factor of what was kept of a change: the sum of all sizes divided by that of the kept ones.
fn read_scale(made: &[f32], base: &[f32], change: &[f64]) -> f64 {
    let size = |is_meant: &dyn Fn(usize) -> bool| {
        (0..change.len()).filter(|at| is_meant(*at)).map(|at| change[at].abs()).sum::<f64>()
    };
    // Kept is what moved. (In bf16 a change may be lost in rounding; it is then small.)
    size(&|_| true) / size(&|at| made[at] != base[at])
}

#[test]
fn committed_merges_of_mergekit_are_reproduced() {
    let count = compare(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden"));
    assert_eq!(count, 44);
}

#[test]
fn new_merges_of_mergekit_are_reproduced() {
    let python = std::env::var("BURNISH_PYTHON").unwrap_or_default();
    let has_mergekit = !python.is_empty()
        && Command::new(&python)
            .args(["-c", "import mergekit"])
            .output()
            .is_ok_and(|done| done.status.success());
    if !has_mergekit {
        println!("skipped: BURNISH_PYTHON names no Python with mergekit");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/make.py");
    let done = Command::new(&python).arg(script).arg(scratch.path()).arg("small").output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(compare(scratch.path()), 44);
}
