//! What is made, audited and scored, on a small encyclopedia of made-up towns.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::cell::Cell;
use std::collections::BTreeSet;

use burnish_core::rng::{Stream, bits};
use burnish_retrieval::{
    Arm, AuditOptions, Bm25, CompareOptions, Corruption, Dense, Dimension, Hashed, Item, Judge, Lexical,
    Made, MakeOptions, PromptJudge, PromptSpeaker, RandomOrder, Ranker, Result, RetrievalError, ScoreOptions,
    Speaker, Templates, Text, View, audit, compare, corrupt, corruption_study, four_variants, make_dialogues,
    options_with_gold, score,
};
use proptest::prelude::*;

const TOWNS: [&str; 12] = [
    "Brenford",
    "Calmstead",
    "Dorvale",
    "Eastmere",
    "Farhollow",
    "Greywick",
    "Hartsea",
    "Ironby",
    "Jutland",
    "Kelmore",
    "Lowick",
    "Marshend",
];

/// Sentences of a town's article. Everything but the town occurs in other articles as well.
const ASPECTS: [(&str, [&str; 4]); 6] = [
    ("harbour", ["fishing boats", "a stone pier", "grain ships", "a lighthouse"]),
    ("market", ["woollen cloth", "smoked herring", "clay pots", "spring flowers"]),
    ("railway", ["a narrow gauge", "steep bridges", "night trains", "a wooden station"]),
    ("school", ["evening classes", "a large library", "music lessons", "painted windows"]),
    ("mill", ["water wheels", "heavy millstones", "paper rolls", "linen thread"]),
    ("garden", ["apple trees", "rare orchids", "gravel paths", "glass houses"]),
];

/// One article per town, with a paragraph per aspect.
fn encyclopedia(seed: u64) -> Vec<Text> {
    TOWNS
        .iter()
        .enumerate()
        .map(|(number, town)| {
            let mut stream = Stream::new(bits(seed, number as u64));
            let paragraphs: Vec<String> = ASPECTS
                .iter()
                .map(|(aspect, details)| {
                    let (first, second) = (details[stream.index(2)], details[2 + stream.index(2)]);
                    let year = 1600 + stream.index(300);
                    format!(
                        "The {aspect} of {town} was opened in {year} by merchants. Visitors praise {first} at the \
                         {aspect} in {town}. Since {} the council pays for {second} beside the {aspect}, which people \
                         from {town} use daily.",
                        year + 20
                    )
                })
                .collect();
            Text { name: format!("{town}.md"), text: paragraphs.join("\n\n") }
        })
        .collect()
}

fn small() -> MakeOptions {
    MakeOptions { words_max: 50, seed: 3, ..MakeOptions::default() }
}

fn by_templates(texts: &[Text], options: &MakeOptions) -> Result<Made> {
    make_dialogues(
        texts,
        |chunks| Box::new(Hashed::new(chunks.iter().map(|chunk| chunk.text.as_str()), 512)),
        |chunks| Box::new(Templates::new(chunks)) as Box<dyn Speaker>,
        options,
    )
}

fn by_prompts(
    ask: impl Fn(&str) -> std::result::Result<String, String>,
    options: &MakeOptions,
) -> Result<Made> {
    make_dialogues(
        &encyclopedia(1),
        |chunks| Box::new(Hashed::new(chunks.iter().map(|chunk| chunk.text.as_str()), 512)),
        |_| Box::new(PromptSpeaker::new(ask)) as Box<dyn Speaker>,
        options,
    )
}

#[test]
fn the_same_seed_makes_the_same_dialogues_and_another_makes_others() {
    let texts = encyclopedia(1);
    let made = by_templates(&texts, &small()).unwrap();
    assert_eq!(made, by_templates(&texts, &small()).unwrap());
    let other = by_templates(&texts, &MakeOptions { seed: 4, ..small() }).unwrap();
    assert_eq!(made.benchmark.chunks, other.benchmark.chunks);
    assert_ne!(made.benchmark.dialogues, other.benchmark.dialogues);
    assert_eq!(made.report.chunks, TOWNS.len() * ASPECTS.len());
    assert_eq!(made.report.refused, 0);
}

#[test]
fn polish_and_switches_change_nothing_but_what_they_should() {
    let texts = encyclopedia(1);
    let made = by_templates(&texts, &small()).unwrap();
    let plain = by_templates(&texts, &MakeOptions { polish: false, switched: 0.0, ..small() }).unwrap();
    assert_eq!(plain.report.polished, 0);
    assert_eq!(plain.report.switches, 0);
    assert_eq!(plain.benchmark.dialogues, plain.unspliced);
    let variants = four_variants(&made.unspliced, &made.benchmark.chunks, 1.0, 3);
    assert_eq!(variants[0].dialogues, plain.unspliced, "polish changes `user` alone");
    assert_eq!(variants[2].dialogues, made.unspliced);
    for (bare, polished) in variants[1].dialogues.iter().zip(&variants[3].dialogues) {
        assert_eq!(bare.id, polished.id);
        for (bare, polished) in bare.turns.iter().zip(&polished.turns) {
            assert_eq!((&bare.rewrite, bare.switched), (&polished.rewrite, polished.switched));
        }
    }
    assert!(made.report.polished > made.report.turns / 3, "{:?}", made.report);
    // Whoever is told nothing new says everything: first turns and switches need no history.
    for dialogue in &made.benchmark.dialogues {
        for (number, turn) in
            dialogue.turns.iter().enumerate().filter(|(number, turn)| *number == 0 || turn.switched)
        {
            assert_eq!(Some(&turn.user), turn.rewrite.as_ref(), "{} {number}", dialogue.id);
        }
    }
}

#[test]
fn every_question_singles_out_its_chunk_with_its_topic_and_not_without() {
    let made = by_templates(&encyclopedia(1), &small()).unwrap();
    let terms = |text: &str| -> BTreeSet<String> {
        let all = burnish_retrieval::text::terms(text).into_iter();
        all.filter(|term| !burnish_retrieval::text::is_function_word(term)).collect()
    };
    let matching = |query: &str| -> Vec<&str> {
        let query = terms(query);
        let has = |text: &str| query.is_subset(&burnish_retrieval::text::terms(text).into_iter().collect());
        made.benchmark.chunks.iter().filter(|chunk| has(&chunk.text)).map(|chunk| chunk.id.as_str()).collect()
    };
    let mut ambiguous = 0;
    for turn in made.benchmark.dialogues.iter().flat_map(|dialogue| &dialogue.turns) {
        assert_eq!(matching(turn.rewrite.as_ref().unwrap()), [turn.evidence[0].as_str()], "{turn:?}");
        if Some(&turn.user) != turn.rewrite.as_ref() {
            assert!(matching(&turn.user).contains(&turn.evidence[0].as_str()), "{turn:?}");
            ambiguous += usize::from(matching(&turn.user).len() > 1);
        }
    }
    assert!(ambiguous * 2 > made.report.polished, "{ambiguous} of {}", made.report.polished);
}

#[test]
fn texts_that_say_the_same_are_kept_once_and_texts_of_no_use_not_at_all() {
    let mut texts = encyclopedia(1);
    let copies = texts.len();
    let same: Vec<Text> = texts
        .iter()
        .map(|text| Text { name: format!("copy of {}", text.name), text: text.text.clone() })
        .collect();
    texts.extend(same);
    texts.push(Text { name: "numbers".to_owned(), text: "12 34 | 56 ".repeat(20) });
    texts.push(Text { name: "short".to_owned(), text: "Nothing much.".to_owned() });
    let made = by_templates(&texts, &small()).unwrap();
    assert_eq!(made.report.duplicates, copies * ASPECTS.len());
    assert_eq!(made.report.rejected.values().sum::<usize>(), made.report.cut - 2 * copies * ASPECTS.len());
    assert_eq!(made.benchmark, by_templates(&encyclopedia(1), &small()).unwrap().benchmark);
}

#[test]
fn what_cannot_be_made_is_refused_with_a_reason() {
    let texts = encyclopedia(1);
    let refused = |texts: &[Text], options: MakeOptions| by_templates(texts, &options).unwrap_err().0;
    for (options, says) in [
        (MakeOptions { words_max: 0, ..small() }, "`words_max` is 0"),
        (MakeOptions { attempts: 0, ..small() }, "`attempts` is 0"),
        (MakeOptions { turns: 2, ..small() }, "`turns` is 2, less than `turns_min`, 3"),
        (MakeOptions { switched: 1.5, ..small() }, "`switched` is 1.5"),
        (MakeOptions { words_max: 5, ..small() }, "of which none is left"),
        (MakeOptions { turns: 90, turns_min: 90, ..small() }, "no dialogue has the 90 turns"),
    ] {
        let message = refused(&texts, options);
        assert!(message.contains(says), "{message}");
    }
    assert!(
        refused(&[texts[0].clone(), texts[0].clone()], small())
            .contains("two texts are called \"Brenford.md\"")
    );
    let message = by_prompts(|_| Err("the endpoint is down".to_owned()), &small()).unwrap_err().0;
    assert!(message.contains("the endpoint is down"), "{message}");
}

#[test]
fn a_speaker_over_prompts_is_asked_again_and_never_asks_twice() {
    let asked = Cell::new(0usize);
    // Every other answer to a request for a question is no question; and every third repeats the first one.
    let made = by_prompts(
        |prompt| {
            if !prompt.contains("square brackets") {
                return Ok(if prompt.contains("Rewrite it") { "Polished?" } else { "An answer." }.to_owned());
            }
            asked.set(asked.get() + 1);
            Ok(match asked.get() {
                number if number % 2 == 0 => "I would ask about the mill.".to_owned(),
                number if number % 3 == 0 => "[1] What is it?".to_owned(),
                number => format!("[2] What is number {number}?"),
            })
        },
        &MakeOptions { dialogues: Some(2), switched: 0.0, attempts: 4, ..small() },
    )
    .unwrap();
    assert_eq!(made.benchmark.dialogues.len(), 2);
    assert!(made.report.refused > 4, "{:?}", made.report);
    assert!(made.report.first_refusal.as_ref().unwrap().contains("[NUMBER] QUESTION"), "{:?}", made.report);
    for dialogue in &made.benchmark.dialogues {
        let questions: BTreeSet<_> = dialogue.turns.iter().map(|turn| turn.rewrite.clone()).collect();
        assert_eq!(questions.len(), dialogue.turns.len());
        assert!(
            dialogue.turns[1..].iter().all(|turn| turn.user == "Polished?" && turn.answer == "An answer.")
        );
        assert_ne!(dialogue.turns[0].user, "Polished?", "there is nothing to refer to");
    }
}

/// Corruptions that leave some answers as they are, and of which the lexical judge sees only a part.
const PARTIAL: [Corruption; 2] = [Corruption::NegatedAnswer, Corruption::ChangedNumber];

#[test]
fn each_corruption_lowers_the_dimensions_that_it_names_and_no_others() {
    let made = by_templates(&encyclopedia(1), &small()).unwrap();
    let judge = Lexical::new(&made.benchmark.chunks);
    let judges: [&dyn Judge; 1] = [&judge];
    let (intact, effects) =
        corruption_study(&made.benchmark, &judges, &Corruption::ALL, &AuditOptions::default()).unwrap();
    assert_eq!((intact.turns, intact.failures), (made.report.turns, 0));
    assert!(intact.means.iter().all(|(dimension, mean)| mean.mean > 1.0 + 0.8 * dimension.range() - 1.0));
    assert_eq!(effects.len(), Corruption::ALL.len());
    for effect in &effects {
        if PARTIAL.contains(&effect.corruption) {
            assert!(effect.lowered.iter().all(|dimension| effect.named.contains(dimension)), "{effect:?}");
            continue;
        }
        assert!(effect.as_named && effect.changes.len() == 6, "{effect:?}");
        for (dimension, change) in &effect.changes {
            assert_eq!(
                effect.named.contains(dimension),
                -change.mean > 0.1 * dimension.range(),
                "{effect:?}"
            );
        }
    }
    // A judge that sees nothing notices nothing.
    let blind = PromptJudge::new("blind", |prompt: &str| {
        Ok(match () {
            () if prompt.contains("choice") => "{\"choice\": 1}",
            () if prompt.contains("pass\"") => "{\"pass\": true}",
            () => "{\"score\": 3}",
        }
        .to_owned())
    });
    let (_, effects) =
        corruption_study(&made.benchmark, &[&blind], &Corruption::ALL, &AuditOptions::default()).unwrap();
    assert!(effects.iter().all(|effect| !effect.as_named && effect.lowered.len() <= 1), "{effects:?}");
}

#[test]
fn corruptions_change_what_they_say() {
    let made = by_templates(&encyclopedia(1), &small()).unwrap();
    let benchmark = &made.benchmark;
    for corruption in Corruption::ALL {
        let wrong = corrupt(benchmark, corruption, 5).unwrap();
        assert_eq!(wrong, corrupt(benchmark, corruption, 5).unwrap());
        for (before, after) in benchmark.dialogues.iter().zip(&wrong.dialogues) {
            for (before, after) in before.turns.iter().zip(&after.turns) {
                let changed = [
                    before.evidence != after.evidence,
                    before.answer != after.answer,
                    before.user != after.user,
                    before.rewrite != after.rewrite || before.switched != after.switched,
                ];
                let expected = match corruption {
                    Corruption::WrongEvidence => [true, false, false, false],
                    Corruption::SwappedAnswer => [false, true, false, false],
                    Corruption::LeakedReference | Corruption::SecondQuestion => [false, false, true, false],
                    // Not every answer has a verb or a number to change.
                    Corruption::NegatedAnswer | Corruption::ChangedNumber => {
                        [false, changed[1], false, false]
                    }
                    Corruption::EmptyQuestion => [false, false, true, true],
                };
                assert_eq!(changed, expected, "{corruption:?}: {before:?} {after:?}");
                let document = |id: &str| id.split('#').next().unwrap().to_owned();
                if corruption == Corruption::WrongEvidence {
                    assert_ne!(document(&before.evidence[0]), document(&after.evidence[0]));
                }
            }
        }
        assert_eq!(corruption.name().parse::<Corruption>().unwrap(), corruption);
    }
    assert!("wrong".parse::<Corruption>().unwrap_err().0.contains("wrong_evidence"));
}

struct Fails;
impl Judge for Fails {
    fn name(&self) -> &str {
        "fails"
    }
    fn rate(&self, dimension: Dimension, _: &Item<'_>) -> std::result::Result<f64, String> {
        if dimension == Dimension::Quality { Err("no idea".to_owned()) } else { Ok(1.0) }
    }
    fn pick(&self, _: &Item<'_>, _: &[&str]) -> std::result::Result<usize, String> {
        Ok(usize::MAX)
    }
}

#[test]
fn judges_are_averaged_and_their_failures_counted() {
    let made = by_templates(&encyclopedia(1), &small()).unwrap();
    let lexical = Lexical::new(&made.benchmark.chunks);
    let alone = audit(&made.benchmark, &[&Fails], &AuditOptions::default()).unwrap();
    assert_eq!(alone.failures, alone.turns);
    assert!(alone.first_failure.unwrap().starts_with("fails: dialogue \""));
    assert!(!alone.means.contains_key(&Dimension::Quality));
    assert_eq!(alone.means[&Dimension::Completeness].mean, 1.0, "it never picks the evidence");
    let good = audit(&made.benchmark, &[&lexical], &AuditOptions::default()).unwrap();
    let both = audit(&made.benchmark, &[&lexical, &Fails], &AuditOptions::default()).unwrap();
    assert_eq!(both.means[&Dimension::Quality], good.means[&Dimension::Quality]);
    let expected = (good.means[&Dimension::Alignment].mean + 1.0) / 2.0;
    assert!((both.means[&Dimension::Alignment].mean - expected).abs() < 1e-12);
    let some = AuditOptions { dialogues: Some(2), ..AuditOptions::default() };
    assert_eq!(audit(&made.benchmark, &[&lexical], &some).unwrap().dialogues, 2);
    assert!(audit(&made.benchmark, &[], &some).is_err());
}

#[test]
fn polish_and_switches_tell_retrievers_apart() {
    let made = by_templates(&encyclopedia(1), &small()).unwrap();
    let chunks = &made.benchmark.chunks;
    let hashed = Hashed::new(chunks.iter().map(|chunk| chunk.text.as_str()), 512);
    let (bm25, dense) = (Bm25::new(chunks), Dense::new(chunks, &hashed).unwrap());
    let rankers: [(View, &dyn Ranker); 4] =
        [(View::LastTurn, &bm25), (View::Questions, &bm25), (View::LastTurn, &dense), (View::Rewrite, &bm25)];
    let arms = rankers.map(|(view, ranker)| Arm { view, ranker });
    let variants = four_variants(&made.unspliced, chunks, 1.0, 3);
    let options = CompareOptions { k: 1, ..CompareOptions::default() };
    let comparison = compare(chunks, &variants, &arms, &options).unwrap();
    assert_eq!(comparison, compare(chunks, &variants, &arms, &options).unwrap());
    let recall = |variant: usize, arm: usize| comparison.variants[variant].recall[arm].1.mean;
    assert_eq!(recall(0, 0), recall(0, 3), "an unpolished question is its own rewriting");
    assert!(recall(2, 3) > recall(2, 0) + 0.2, "polish hides the topic from the last turn: {comparison:?}");
    assert!(comparison.variants[0].beyond.is_none() && comparison.variants[3].beyond.is_some());
    assert!(compare(chunks, &variants, &arms[..1], &options).is_err());
}

#[test]
fn scores_of_known_rankers() {
    struct Knows(Vec<usize>);
    impl Ranker for Knows {
        fn name(&self) -> String {
            "knows".to_owned()
        }
        fn rank(&self, queries: &[&str], depth: usize) -> Result<Vec<Vec<usize>>> {
            assert_eq!(queries.len(), self.0.len());
            Ok(self.0.iter().map(|gold| (*gold..*gold + depth).collect()).collect())
        }
    }
    let made = by_templates(&encyclopedia(1), &small()).unwrap();
    let benchmark = &made.benchmark;
    let place = |id: &str| benchmark.chunks.iter().position(|chunk| chunk.id == id).unwrap();
    let gold: Vec<usize> = benchmark
        .dialogues
        .iter()
        .flat_map(|dialogue| dialogue.turns.iter().map(|turn| place(&turn.evidence[0])))
        .collect();
    let oracle = Knows(gold);
    let random = RandomOrder { count: benchmark.chunks.len(), seed: 1 };
    let arms = [
        Arm { view: View::LastTurn, ranker: &oracle as &dyn Ranker },
        Arm { view: View::Rewrite, ranker: &random },
    ];
    let report = score(benchmark, &arms, &ScoreOptions::default()).unwrap();
    let best = &report.arms[0];
    assert_eq!((best.recall[&1].mean, best.mrr.mean, best.ndcg.mean), (1.0, 1.0, 1.0));
    assert_eq!((best.arm.as_str(), report.depth), ("knows/last_turn", 20));
    assert_eq!(best.slices.values().map(|slice| slice.turns).sum::<usize>(), report.turns);
    assert_eq!(best.slices["switch"].turns, made.report.switches);
    let chance = &report.arms[1];
    // 20 of 72; the standard error of about 80 turns is 0.05.
    assert!((chance.recall[&20].mean - 20.0 / 72.0).abs() < 0.2, "{chance:?}");
    assert!(chance.mrr.mean <= chance.recall[&20].mean && chance.ndcg.mean <= chance.recall[&20].mean);
    let wrong = |options: ScoreOptions| -> RetrievalError { score(benchmark, &arms, &options).unwrap_err() };
    assert!(wrong(ScoreOptions { k: vec![], seed: 0 }).0.contains("`k`"));
    assert!(wrong(ScoreOptions { k: vec![0, 5], seed: 0 }).0.contains("`k`"));
    assert!(score(benchmark, &[], &ScoreOptions::default()).is_err());
    assert!("first".parse::<View>().unwrap_err().0.contains("last_turn, questions, conversation, rewrite"));
}

proptest! {
    #[test]
    fn shuffling_options_keeps_the_gold(
        negatives in prop::collection::btree_set(0usize..50, 0..8), seed: u64,
    ) {
        let negatives: Vec<usize> = negatives.into_iter().collect();
        let (shown, place) = options_with_gold(99, &negatives, seed);
        prop_assert_eq!(shown[place], 99);
        let mut others: Vec<usize> = shown.into_iter().filter(|option| *option != 99).collect();
        others.sort_unstable();
        prop_assert_eq!(others, negatives);
    }
}

#[test]
fn the_gold_stands_at_every_place_equally_often() {
    let mut counts = [0i32; 5];
    for seed in 0..5000 {
        counts[options_with_gold(9, &[1, 2, 3, 4], seed).1] += 1;
    }
    // Four standard deviations of 1000 are 113.
    assert!(counts.iter().all(|count| (count - 1000).abs() < 113), "{counts:?}");
}
