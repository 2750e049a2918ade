//! A run directory of an earlier burnish works and continues as it did then.
//!
//! `fixtures/run_before_records.tar.gz` was written by the burnish of commit 1002375, whose episodes had no records.
//! It holds `grpo`, a run of 2 steps by `grpo.toml` from a policy that `tiny.toml` made, and the output of that
//! burnish: `rollout.txt` (`rollout --from grpo --step 2 --count 2`), and, after `train --resume grpo
//! train.max_steps=4`, the metrics lines of the last two steps (`resumed.jsonl`) and the weights
//! (`resumed.safetensors`).

#![cfg(unix)]

use std::path::Path;
use std::process::Command;

use crate::common::{Scratch, timeless_metrics};
use burnish_core::Record;
use burnish_rundir::journal::{EpisodeKind, Journal};

fn unpacked() -> Scratch {
    let scratch = Scratch::new();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/run_before_records.tar.gz");
    let status =
        Command::new("tar").arg("xzf").arg(fixture).arg("-C").arg(scratch.path("")).status().unwrap();
    assert!(status.success());
    scratch
}

#[test]
fn a_run_of_before_there_were_records_is_shown_and_goes_on_to_the_same_bits() {
    let scratch = unpacked();
    let journal = Journal::open_to_read(&scratch.path("grpo/run.db")).unwrap();
    let before = journal.episodes(2, EpisodeKind::Train).unwrap();
    assert!(before.len() == 24 && before.iter().all(|stored| stored.episode.record == Record::default()));
    drop(journal);
    let shown = scratch.burnish(&["rollout", "--from", "grpo", "--step", "2", "--count", "2"]).succeeds();
    assert_eq!(shown.stdout(), String::from_utf8(scratch.read("rollout.txt")).unwrap());
    let rewards = scratch.burnish(&["metrics", "grpo"]).succeeds().stdout();
    assert!(rewards.contains("reward"), "{rewards}");

    scratch.burnish(&["train", "--resume", "grpo", "train.max_steps=4"]).succeeds();
    assert!(scratch.read("grpo/checkpoints/step_4/model.safetensors") == scratch.read("resumed.safetensors"));
    let metrics = timeless_metrics(&scratch.path("grpo/metrics.jsonl"));
    for line in timeless_metrics(&scratch.path("resumed.jsonl")) {
        assert!(metrics.contains(&line), "{line}\n{metrics:#?}");
    }
    let report = String::from_utf8(scratch.read("grpo/report.html")).unwrap();
    assert!(report.contains("<svg"));

    let journal = Journal::open_to_read(&scratch.path("grpo/run.db")).unwrap();
    let of_step = |step| journal.episodes(step, EpisodeKind::Train).unwrap();
    let traces = |stored: &[burnish_rundir::journal::StoredEpisode]| {
        stored.iter().map(|stored| stored.episode.clone()).collect::<Vec<_>>()
    };
    assert_eq!(traces(&of_step(2)), traces(&before));
    // Those after it have one: the beginning, and a turn.
    assert!(of_step(4).iter().all(|stored| stored.episode.record.contacts.len() == 2));
}
