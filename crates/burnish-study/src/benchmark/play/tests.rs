//! MGSM with a scripted policy: answers and their language are judged separately.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;

use burnish_core::{Sampling, Script, StopReason};

use super::*;
use crate::benchmark::find;
use crate::benchmark::language::Consistency;

/// A policy that answers each prompt from a table.
fn known(answers: BTreeMap<String, String>) -> impl Policy {
    Script::recorded_as(vec![7], move |turn| {
        Ok((answers[&turn.messages[0].content].clone(), StopReason::EndToken))
    })
}

fn settings(benchmark: &Benchmark) -> Settings {
    Settings {
        device: "cpu".to_owned(),
        burnish: String::new(),
        benchmark: benchmark.name.to_owned(),
        policy: PolicySettings { path: String::new(), files: BTreeMap::new(), precision: String::new() },
        data: Vec::new(),
        verifier: benchmark.verifier(),
        language_share: Some(SHARE),
        limit: None,
        samples: 1,
        sampling: Sampling::greedy(8),
        sampling_from: crate::benchmark::SamplingFrom::Greedy,
        seed: 0,
        batch: 64,
        strategy: None,
    }
}

/// The worked answer to each MGSM question is the question itself, or its English version, always with the right
/// number.
#[test]
fn right_answers_in_english_are_right_and_have_drifted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    if !folder.join("mgsm").is_dir() {
        println!("skipped: there is no {}", folder.join("mgsm").display());
        return;
    }
    let benchmark = find("mgsm").unwrap();
    let located = locate(benchmark, None, &[], Some(&folder)).unwrap();
    let parts: Vec<Items> = located.iter().map(|one| Items::read(benchmark, one, None).unwrap()).collect();
    let question = |part: usize, row: usize| {
        let prompt = &parts[part].tasks[row].prompt[0].content;
        let of = located[part].part;
        prompt.strip_prefix(of.before).unwrap().strip_suffix(of.after).unwrap().to_owned()
    };
    let settings = settings(benchmark);
    let english = located.iter().position(|one| one.part.language == Some("en")).unwrap();
    let evaluated = |is_translated: bool| {
        let mut records = Vec::new();
        for (index, items) in parts.iter().enumerate() {
            let answer = |row: usize| {
                let said = question(if is_translated { english } else { index }, row);
                let text = format!("{said}\n\\boxed{{{}}}", items.references[row]);
                (items.tasks[row].prompt[0].content.clone(), text)
            };
            let mut policy = known((0..items.tasks.len()).map(answer).collect());
            records.extend(play(&mut policy, items, 0..items.tasks.len(), &settings).unwrap());
        }
        Consistency::by_language(&records, 1)
    };
    let (own, translated) = (evaluated(false), evaluated(true));
    assert_eq!((own.len(), own["all"].items), (12, 2750));
    for (language, Consistency { correct, in_language, both, found, .. }) in &own {
        println!(
            "{language}: right {:.4}, kept {:.4}, both {:.4}; {found:?}",
            correct.mean, in_language.mean, both.mean
        );
        assert!(correct.mean == 1.0 && in_language.mean >= 0.992 && both == in_language, "{language}");
    }
    assert!((own["all"].in_language.mean - 2746.0 / 2750.0).abs() < 1e-12);
    for (language, Consistency { correct, in_language, both, found, .. }) in &translated {
        let expected = match language.as_str() {
            "all" => 1.0 / 11.0,
            "en" => 1.0,
            _ => 0.0,
        };
        assert!((in_language.mean - expected).abs() < 1e-12 && both == in_language, "{language}");
        assert!(correct.mean == 1.0 && found.keys().eq(["en"]), "{language}: {found:?}");
    }
}

#[test]
fn every_language_of_a_benchmark_can_be_checked() {
    for benchmark in crate::benchmark::BENCHMARKS {
        for language in benchmark.languages() {
            assert!(Language::of(language).is_some(), "{}: {language}", benchmark.name);
        }
    }
    assert_eq!(find("mgsm").unwrap().languages(), Language::ALL.map(Language::code));
}
