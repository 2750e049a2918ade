//! Real data: dialogues from XQuAD and chunking_evaluation, the auditor on corrupted data, retrievers on four variants,
//! and the 507 turns of MTRAG-UN. `docs/retrieval.md` has the numbers that these tests print.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use burnish_retrieval::{
    Arm, AuditOptions, Benchmark, Bm25, CompareOptions, Comparison, Corruption, CorruptionEffect, Dense,
    Dimension, Hashed, Judge, Lexical, Made, MakeOptions, RandomOrder, Ranker, ScoreOptions, Speaker,
    Templates, Text, View, compare, corruption_study, four_variants, make_dialogues, score, sources,
};

fn shared(name: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let data = std::env::var_os("BURNISH_DATA").map_or(beside, PathBuf::from);
    let folder = data.join(name);
    if !folder.is_dir() {
        println!("skipped: there is no {}; BURNISH_DATA names the folder of data sets", folder.display());
        return None;
    }
    Some(folder)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

const CORPORA: [&str; 5] = ["wikitexts", "state_of_the_union", "chatlogs", "finance", "pubmed"];

fn xquad() -> Option<(String, String)> {
    let path = shared("xquad")?.join("xquad.en.json");
    Some((path.display().to_string(), read(&path)))
}

fn corpora(names: &[&str]) -> Option<Vec<Text>> {
    let folder = shared("chunking_evaluation")?;
    let text = |name: &&str| Text {
        name: (*name).to_owned(),
        text: read(&folder.join("corpora").join(format!("{name}.md"))),
    };
    Some(names.iter().map(text).collect())
}

fn mtrag() -> Option<Benchmark> {
    let path = shared("mtrag_un")?.join("reference.jsonl.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(&path).unwrap()).read_to_string(&mut text).unwrap();
    Some(sources::mtrag("reference.jsonl.gz", &text).unwrap())
}

fn made(texts: &[Text], options: &MakeOptions) -> Made {
    make_dialogues(
        texts,
        |chunks| Box::new(Hashed::new(chunks.iter().map(|chunk| chunk.text.as_str()), 2048)),
        |chunks| Box::new(Templates::new(chunks)) as Box<dyn Speaker>,
        options,
    )
    .unwrap()
}

/// What holds for all that is made.
fn checked(made: &Made) {
    println!("{:?}", made.report);
    let ids: Vec<&str> = made.benchmark.chunks.iter().map(|chunk| chunk.id.as_str()).collect();
    for dialogue in &made.unspliced {
        let number: usize = dialogue.id.strip_prefix("dialogue-").unwrap().parse().unwrap();
        let cluster: BTreeSet<&str> = made.clusters[number].iter().map(|place| ids[*place]).collect();
        let mut asked = BTreeSet::new();
        for turn in &dialogue.turns {
            assert!(
                cluster.contains(turn.evidence[0].as_str()) && turn.evidence.len() == 1 && !turn.switched
            );
            assert!(asked.insert(turn.rewrite.as_ref().unwrap()), "asked twice: {turn:?}");
            let chunk = made.benchmark.chunks.iter().find(|chunk| chunk.id == turn.evidence[0]).unwrap();
            assert!(chunk.text.contains(&turn.answer), "{turn:?}");
        }
    }
    for dialogue in &made.benchmark.dialogues {
        let switches = dialogue.turns.iter().filter(|turn| turn.switched).count();
        assert_eq!(switches, usize::from(dialogue.id.contains('+')), "{}", dialogue.id);
    }
    let again = Benchmark::read(
        ("chunks.jsonl", &made.benchmark.chunks_jsonl().unwrap()),
        ("dialogues.jsonl", &made.benchmark.dialogues_jsonl().unwrap()),
    );
    assert_eq!(again.unwrap(), made.benchmark);
}

fn audited(benchmark: &Benchmark) -> Vec<CorruptionEffect> {
    let judge = Lexical::new(&benchmark.chunks);
    let (intact, effects) =
        corruption_study(benchmark, &[&judge as &dyn Judge], &Corruption::ALL, &AuditOptions::default())
            .unwrap();
    assert_eq!(intact.failures, 0);
    println!("intact, {} turns of {} dialogues:", intact.turns, intact.dialogues);
    for (dimension, interval) in &intact.means {
        println!(
            "  {:14} {:.3} ({:.3} to {:.3})",
            dimension.name(),
            interval.mean,
            interval.low,
            interval.high
        );
    }
    for effect in &effects {
        println!("{} lowers {:?}", effect.corruption.name(), effect.lowered);
        for (dimension, change) in &effect.changes {
            println!(
                "  {:14} {:+.3} ({:+.3} to {:+.3})",
                dimension.name(),
                change.mean,
                change.low,
                change.high
            );
        }
    }
    effects
}

fn assert_as_named(effects: &[CorruptionEffect]) {
    for effect in effects {
        // These leave some answers as they are, and the judge sees only a part of them.
        if [Corruption::NegatedAnswer, Corruption::ChangedNumber].contains(&effect.corruption) {
            assert!(effect.lowered.iter().all(|dimension| effect.named.contains(dimension)), "{effect:?}");
            continue;
        }
        assert!(effect.as_named, "{effect:?}");
        for (dimension, change) in &effect.changes {
            let range = dimension.range();
            if effect.named.contains(dimension) {
                assert!(-change.mean > 0.1 * range, "{:?} falls too little: {effect:?}", dimension);
            } else {
                // A question about nothing asks one thing, which those before it may not.
                let is_empty = effect.corruption == Corruption::EmptyQuestion;
                let moves = if is_empty { -change.mean } else { change.mean.abs() };
                assert!(moves < 0.02 * range, "{dimension:?} moves: {effect:?}");
            }
        }
    }
}

fn shown(comparison: &Comparison) {
    for variant in &comparison.variants {
        println!("{} ({} dialogues), recall@{}", variant.variant, variant.dialogues, comparison.k);
        for (arm, recall) in &variant.recall {
            println!("  {arm:24} {:.3} ({:.3} to {:.3})", recall.mean, recall.low, recall.high);
        }
        let spread = variant.spread;
        println!(
            "  spread {:.3} ({:.3} to {:.3}), mean distance {:.3}, {} of {} pairs told apart, beyond {:?}",
            spread.mean,
            spread.low,
            spread.high,
            variant.distance.mean,
            variant.told_apart,
            variant.pairs,
            variant.beyond
        );
    }
}

/// The four retrievers on the four variants.
fn compared(made: &Made) -> Comparison {
    let chunks = &made.benchmark.chunks;
    let hashed = Hashed::new(chunks.iter().map(|chunk| chunk.text.as_str()), 2048);
    let (bm25, dense) = (Bm25::new(chunks), Dense::new(chunks, &hashed).unwrap());
    let arm = |view, ranker| Arm { view, ranker };
    let arms: [Arm<'_>; 4] = [
        arm(View::LastTurn, &bm25 as &dyn Ranker),
        arm(View::Questions, &bm25),
        arm(View::LastTurn, &dense),
        arm(View::Rewrite, &bm25),
    ];
    let variants = four_variants(&made.unspliced, chunks, 1.0, 1);
    let comparison = compare(chunks, &variants, &arms, &CompareOptions::default()).unwrap();
    shown(&comparison);
    let plain = &comparison.variants[0];
    assert_eq!(plain.recall[0].1.mean, plain.recall[3].1.mean, "an unpolished question is its own rewriting");
    let full = score(&made.benchmark, &arms, &ScoreOptions::default()).unwrap();
    for arm in &full.arms {
        let slices: Vec<String> = arm
            .slices
            .iter()
            .map(|(name, slice)| format!("{name} ({}) {:.3}", slice.turns, slice.recall[&5].mean))
            .collect();
        println!(
            "{:24} mrr {:.3} ndcg {:.3} recall@1 {:.3} @5 {:.3} @20 {:.3}; @5 of {}",
            arm.arm,
            arm.mrr.mean,
            arm.ndcg.mean,
            arm.recall[&1].mean,
            arm.recall[&5].mean,
            arm.recall[&20].mean,
            slices.join(", ")
        );
    }
    comparison
}

#[test]
fn dialogues_about_encyclopedia_articles() {
    let Some((file, text)) = xquad() else { return };
    let texts = sources::xquad_texts(&file, &text).unwrap();
    let options = MakeOptions { words_max: 60, seed: 1, ..MakeOptions::default() };
    let made = made(&texts, &options);
    checked(&made);
    for dialogue in made.benchmark.dialogues.iter().take(1) {
        for turn in &dialogue.turns {
            println!(
                "{}{} | {:?} | {}",
                if turn.switched { "* " } else { "" },
                turn.user,
                turn.rewrite,
                turn.answer
            );
        }
        println!();
    }
    assert_as_named(&audited(&made.benchmark));
    let comparison = compared(&made);
    let last = comparison.variants.last().unwrap();
    assert!(last.beyond.unwrap().low > 0.0, "{last:?}");
}

#[test]
fn dialogues_about_long_documents() {
    let Some(texts) = corpora(&CORPORA) else { return };
    let options = MakeOptions { seed: 1, ..MakeOptions::default() };
    let made = made(&texts, &options);
    checked(&made);
    assert_as_named(&audited(&made.benchmark));
    let comparison = compared(&made);
    let last = comparison.variants.last().unwrap();
    assert!(last.beyond.unwrap().low > 0.0, "{last:?}");
}

/// The templates and the list of function words were written with an eye on the texts of the two tests above. These
/// played no part in that.
#[test]
fn dialogues_about_texts_that_the_templates_were_not_written_for() {
    let Some(source) = mtrag() else { return };
    let mut texts: Vec<Text> = Vec::new();
    for chunk in source.chunks {
        match texts.last_mut() {
            Some(text) if text.name == chunk.document => text.text.push_str(&format!("\n\n{}", chunk.text)),
            _ => texts.push(Text { name: chunk.document, text: chunk.text }),
        }
    }
    let made = made(&texts, &MakeOptions { seed: 1, ..MakeOptions::default() });
    checked(&made);
    assert_as_named(&audited(&made.benchmark));
    let comparison = compared(&made);
    let last = comparison.variants.last().unwrap();
    assert!(last.beyond.unwrap().low > 0.0, "{last:?}");
}

#[test]
fn the_turns_of_mtrag_un() {
    let Some(benchmark) = mtrag() else { return };
    assert_eq!((benchmark.dialogues.len(), benchmark.chunks.len()), (507, 1152));
    let asked =
        benchmark.dialogues.iter().flat_map(|dialogue| &dialogue.turns).filter(|t| !t.evidence.is_empty());
    assert_eq!(asked.count(), 377);
    let effects = audited(&benchmark);
    assert_as_named(&effects);
    let chunks = &benchmark.chunks;
    let hashed = Hashed::new(chunks.iter().map(|chunk| chunk.text.as_str()), 2048);
    let (bm25, dense) = (Bm25::new(chunks), Dense::new(chunks, &hashed).unwrap());
    let random = RandomOrder { count: chunks.len(), seed: 0 };
    let mut arms: Vec<Arm<'_>> = vec![Arm { view: View::LastTurn, ranker: &random }];
    for view in [View::LastTurn, View::Questions, View::Conversation] {
        arms.push(Arm { view, ranker: &bm25 });
        arms.push(Arm { view, ranker: &dense });
    }
    let report = score(&benchmark, &arms, &ScoreOptions::default()).unwrap();
    for arm in &report.arms {
        println!(
            "{:28} mrr {:.3} ndcg {:.3} recall@1 {:.3} @5 {:.3} @20 {:.3}",
            arm.arm,
            arm.mrr.mean,
            arm.ndcg.mean,
            arm.recall[&1].mean,
            arm.recall[&5].mean,
            arm.recall[&20].mean
        );
        assert!(arm.recall[&1].mean <= arm.recall[&5].mean && arm.recall[&5].mean <= arm.recall[&20].mean);
    }
    // k of N in expectation; the standard error is below 0.007.
    assert!((report.arms[0].recall[&20].mean - 20.0 / 1152.0).abs() < 0.025);
    assert!(report.arms[1].recall[&5].low > report.arms[0].recall[&5].high);
    let oracle = Arm { view: View::Rewrite, ranker: &bm25 };
    let message = score(&benchmark, &[oracle], &ScoreOptions::default()).unwrap_err().0;
    assert!(message.contains("there is no `rewrite`"), "{message}");
}

/// Counts the turns in which four corruptions are caught: the
/// table of `docs/retrieval.md`. `cargo test -p burnish-retrieval --test real caught -- --nocapture` prints it.
#[test]
fn corrupted_turns_of_mtrag_un_are_caught() {
    let Some(benchmark) = mtrag() else { return };
    let judge = Lexical::new(&benchmark.chunks);
    let audited = |benchmark: &Benchmark| {
        burnish_retrieval::audit(benchmark, &[&judge], &AuditOptions::default()).unwrap().rated
    };
    let intact = audited(&benchmark);
    let asked = |benchmark: &Benchmark| {
        let turns = benchmark.dialogues.iter().flat_map(|dialogue| dialogue.turns.clone());
        turns.filter(|turn| !turn.evidence.is_empty()).collect::<Vec<_>>()
    };
    let originals = asked(&benchmark);
    for (corruption, dimension, least) in [
        (Corruption::NegatedAnswer, Dimension::Faithfulness, 0.3),
        (Corruption::ChangedNumber, Dimension::Faithfulness, 0.7),
        (Corruption::LeakedReference, Dimension::NoReference, 1.0),
        (Corruption::EmptyQuestion, Dimension::Alignment, 0.9),
    ] {
        let wrong = burnish_retrieval::corrupt(&benchmark, corruption, 0).unwrap();
        let (mut all, mut caught) = (0, 0);
        for ((before, after), turns) in
            intact.iter().zip(audited(&wrong)).zip(originals.iter().zip(asked(&wrong)))
        {
            let is_meant =
                corruption != Corruption::LeakedReference || turns.1.user.starts_with("Based on chunk 3");
            if *turns.0 != turns.1 && is_meant {
                all += 1;
                caught += usize::from(before.values[&dimension] - after.values[&dimension] > 0.1);
            }
        }
        println!("{}: {caught} of {all} lower {}", corruption.name(), dimension.name());
        assert!(caught as f64 >= least * all as f64, "{}", corruption.name());
    }
}

#[test]
fn questions_of_xquad_and_chunking_evaluation() {
    if let Some((file, text)) = xquad() {
        let benchmark = sources::xquad(&file, &text).unwrap();
        assert_eq!((benchmark.dialogues.len(), benchmark.chunks.len()), (1190, 240));
        single_turns("xquad", &benchmark);
    }
    if let Some(texts) = corpora(&CORPORA) {
        let folder = shared("chunking_evaluation").unwrap();
        let csv = read(&folder.join("questions_df.csv"));
        let benchmark = sources::chunking_evaluation("questions_df.csv", &csv, &texts, 150).unwrap();
        assert_eq!(benchmark.dialogues.len(), 472);
        assert!(benchmark.dialogues.iter().all(|dialogue| !dialogue.turns[0].evidence.is_empty()));
        single_turns("chunking_evaluation", &benchmark);
        let wrong = csv.replacen("\"\"start_index\"\": 27346", "\"\"start_index\"\": 27347", 1);
        let message = sources::chunking_evaluation("q.csv", &wrong, &texts, 150).unwrap_err().0;
        assert!(message.contains("q.csv, question 1: characters 27347 to 27425"), "{message}");
    }
}

fn single_turns(name: &str, benchmark: &Benchmark) {
    let hashed = Hashed::new(benchmark.chunks.iter().map(|chunk| chunk.text.as_str()), 2048);
    let (bm25, dense) = (Bm25::new(&benchmark.chunks), Dense::new(&benchmark.chunks, &hashed).unwrap());
    let arms = [
        Arm { view: View::LastTurn, ranker: &bm25 as &dyn Ranker },
        Arm { view: View::LastTurn, ranker: &dense },
    ];
    let report = score(benchmark, &arms, &ScoreOptions::default()).unwrap();
    for arm in &report.arms {
        println!(
            "{name}, {} chunks, {} turns: {} mrr {:.3} recall@1 {:.3} @5 {:.3} @20 {:.3}",
            report.chunks,
            report.turns,
            arm.arm,
            arm.mrr.mean,
            arm.recall[&1].mean,
            arm.recall[&5].mean,
            arm.recall[&20].mean
        );
    }
    assert!(report.arms[0].recall[&20].mean > 0.6, "words of a question are in its passage: {report:?}");
    assert!(audit_is_high(benchmark));
}

fn audit_is_high(benchmark: &Benchmark) -> bool {
    let judge = Lexical::new(&benchmark.chunks);
    let options = AuditOptions { dialogues: Some(200), ..AuditOptions::default() };
    let report = burnish_retrieval::audit(benchmark, &[&judge as &dyn Judge], &options).unwrap();
    println!("{:?}", report.means);
    report.dialogues == 200 && report.means[&Dimension::Completeness].mean > 2.0
}
