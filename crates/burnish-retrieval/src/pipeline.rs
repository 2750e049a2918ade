//! Dialogues from texts.

use std::collections::{BTreeMap, BTreeSet};

use burnish_core::rng::{Address, Purpose};
use serde::{Deserialize, Serialize};

use crate::chunk::{Quality, Rejected, chunks};
use crate::cluster::{merge, traverse};
use crate::data::{Benchmark, Chunk, Dialogue, Text, Turn};
use crate::embed::{Embed, neighbours, unit_vectors};
use crate::minhash::Duplicates;
use crate::speak::{Asked, Said, Scene, Speaker};
use crate::switch::switch_topics;
use crate::{Result, wrong};

/// How dialogues are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MakeOptions {
    /// Most words of a chunk.
    pub words_max: usize,
    /// What a chunk needs to be kept.
    pub quality: Quality,
    /// How duplicates are found.
    pub duplicates: Duplicates,
    /// Neighbours per chunk.
    pub neighbours: usize,
    /// Most chunks of a cluster, before small ones are merged into others.
    pub cluster: usize,
    /// Most turns of a dialogue.
    pub turns: usize,
    /// Fewest turns; shorter dialogues are dropped.
    pub turns_min: usize,
    /// Most dialogues before splicing; `None` makes one per cluster.
    pub dialogues: Option<usize>,
    /// How often a speaker is asked for what a turn needs before the dialogue ends there.
    pub attempts: usize,
    /// Are questions polished?
    pub polish: bool,
    /// Share of the dialogues that are spliced with another.
    pub switched: f64,
    /// Seed.
    pub seed: u64,
}

impl Default for MakeOptions {
    fn default() -> Self {
        MakeOptions {
            words_max: 150,
            quality: Quality::default(),
            duplicates: Duplicates::default(),
            neighbours: 100,
            cluster: 8,
            turns: 8,
            turns_min: 3,
            dialogues: None,
            attempts: 3,
            polish: true,
            switched: 0.5,
            seed: 0,
        }
    }
}

impl MakeOptions {
    fn check(&self) -> Result<()> {
        for (key, value) in [
            ("words_max", self.words_max),
            ("duplicates.shingle", self.duplicates.shingle),
            ("duplicates.bands", self.duplicates.bands),
            ("duplicates.rows", self.duplicates.rows),
            ("neighbours", self.neighbours),
            ("cluster", self.cluster),
            ("turns_min", self.turns_min),
            ("attempts", self.attempts),
        ] {
            if value == 0 {
                return wrong(format!("`{key}` is 0; give at least 1"));
            }
        }
        if self.turns < self.turns_min {
            return wrong(format!("`turns` is {}, less than `turns_min`, {}", self.turns, self.turns_min));
        }
        for (key, value) in [
            ("switched", self.switched),
            ("duplicates.similarity", self.duplicates.similarity),
            ("quality.letters_min", self.quality.letters_min),
            ("quality.distinct_min", self.quality.distinct_min),
        ] {
            if !(0.0..=1.0).contains(&value) {
                return wrong(format!("`{key}` is {value}; give a share from 0 to 1"));
            }
        }
        Ok(())
    }
}

/// What became of the texts.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MakeReport {
    /// Texts.
    pub texts: usize,
    /// Chunks before anything was dropped.
    pub cut: usize,
    /// Chunks that were no use, by reason.
    pub rejected: BTreeMap<Rejected, usize>,
    /// Chunks that duplicate another.
    pub duplicates: usize,
    /// Chunks that are left: what retrievers search.
    pub chunks: usize,
    /// Clusters, after small ones were merged.
    pub clusters: usize,
    /// Dialogues that were too short and dropped.
    pub short: usize,
    /// Dialogues, after splicing.
    pub dialogues: usize,
    /// Turns of these.
    pub turns: usize,
    /// Chunks that are some turn's evidence.
    pub asked: usize,
    /// Turns that polish changed.
    pub polished: usize,
    /// Turns at which the topic changes without a word.
    pub switches: usize,
    /// Things that a speaker said and that were refused; the first reason is [`MakeReport::first_refusal`].
    pub refused: usize,
    /// Why something was refused for the first time.
    pub first_refusal: Option<String>,
}

/// Dialogues about the chunks of texts.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// The chunks, and the dialogues as `options` ask for them.
    pub benchmark: Benchmark,
    /// The dialogues before splicing: what [`crate::four_variants`] starts from.
    pub unspliced: Vec<Dialogue>,
    /// The clusters, as places of chunks.
    pub clusters: Vec<Vec<usize>>,
    /// What became of the texts.
    pub report: MakeReport,
}

/// Makes a benchmark from `texts`.
///
/// `embed` finds the neighbours of chunks; it gets the chunks that are left once duplicates are dropped, and so does
/// `speaker`, which makes the one that asks and answers. The same texts, options and answers give the same benchmark.
pub fn make_dialogues<'s>(
    texts: &[Text],
    embed: impl FnOnce(&[Chunk]) -> Box<dyn Embed + 's>,
    speaker: impl FnOnce(&[Chunk]) -> Box<dyn Speaker + 's>,
    options: &MakeOptions,
) -> Result<Made> {
    options.check()?;
    let mut report = MakeReport { texts: texts.len(), ..MakeReport::default() };
    let kept = kept_chunks(texts, options, &mut report)?;
    let bodies: Vec<&str> = kept.iter().map(|chunk| chunk.text.as_str()).collect();
    let vectors = unit_vectors(embed(&kept).as_ref(), &bodies)?;
    let knn = neighbours(&vectors, options.neighbours);
    let clusters = merge(traverse(&knn, options.cluster, options.seed), &knn, options.cluster);
    report.clusters = clusters.len();

    let speaker = speaker(&kept);
    let mut unspliced: Vec<Dialogue> = Vec::new();
    for (number, cluster) in clusters.iter().enumerate() {
        if options.dialogues.is_some_and(|most| unspliced.len() >= most) {
            break;
        }
        let members: Vec<&Chunk> = cluster.iter().map(|place| &kept[*place]).collect();
        let turns = converse(&members, speaker.as_ref(), number, options, &mut report);
        if turns.len() < options.turns_min {
            report.short += 1;
            continue;
        }
        unspliced.push(Dialogue { id: format!("dialogue-{number}"), turns });
    }
    if unspliced.is_empty() {
        let why = report.first_refusal.as_deref().unwrap_or("nothing in the chunks to ask about was found");
        return wrong(format!(
            "no dialogue has the {} turns of `turns_min`: {why} ({} chunks in {} clusters)",
            options.turns_min,
            kept.len(),
            clusters.len()
        ));
    }
    let dialogues = switch_topics(&unspliced, &kept, options.switched, options.seed);
    let turns = || dialogues.iter().flat_map(|dialogue| &dialogue.turns);
    report.dialogues = dialogues.len();
    report.turns = turns().count();
    report.asked = turns().flat_map(|turn| &turn.evidence).collect::<BTreeSet<_>>().len();
    report.polished = turns().filter(|turn| turn.rewrite.as_ref() != Some(&turn.user)).count();
    report.switches = turns().filter(|turn| turn.switched).count();
    Ok(Made { benchmark: Benchmark::new(kept, dialogues)?, unspliced, clusters, report })
}

/// The chunks of `texts` that are of use and no duplicates.
fn kept_chunks(texts: &[Text], options: &MakeOptions, report: &mut MakeReport) -> Result<Vec<Chunk>> {
    let mut names = BTreeSet::new();
    let mut useful = Vec::new();
    for text in texts {
        if !names.insert(&text.name) {
            return wrong(format!("two texts are called {:?}; give each its own name", text.name));
        }
        for chunk in chunks(text, options.words_max) {
            report.cut += 1;
            match options.quality.rejects(&chunk.text) {
                Some(reason) => *report.rejected.entry(reason).or_default() += 1,
                None => useful.push(chunk),
            }
        }
    }
    let bodies: Vec<&str> = useful.iter().map(|chunk| chunk.text.as_str()).collect();
    let seed = Address::new(options.seed, Purpose::Init).seed();
    let duplicates = options.duplicates.find(&bodies, seed);
    report.duplicates = duplicates.iter().flatten().count();
    let kept: Vec<Chunk> = useful
        .into_iter()
        .zip(duplicates)
        .filter_map(|(chunk, earlier)| earlier.is_none().then_some(chunk))
        .collect();
    report.chunks = kept.len();
    if kept.is_empty() {
        return wrong(format!(
            "{} texts gave {} chunks, of which none is left; give longer texts, or lower `quality`",
            texts.len(),
            report.cut
        ));
    }
    Ok(kept)
}

/// The turns of a dialogue about `members`, until there is nothing left to ask or a speaker fails `attempts` times.
fn converse(
    members: &[&Chunk],
    speaker: &dyn Speaker,
    number: usize,
    options: &MakeOptions,
    report: &mut MakeReport,
) -> Vec<Turn> {
    let mut said: Vec<Said> = Vec::new();
    'turns: while said.len() < options.turns {
        for attempt in 0..options.attempts {
            let address = Address {
                task: number as u64,
                turn: said.len() as u64,
                rollout: attempt as u64,
                ..Address::new(options.seed, Purpose::Task)
            };
            let scene = Scene { chunks: members, said: &said, seed: address.seed() };
            match one_turn(&scene, speaker, options.polish) {
                Ok(Some(next)) => {
                    said.push(next);
                    continue 'turns;
                }
                Ok(None) => break 'turns,
                Err(refusal) => {
                    report.refused += 1;
                    report.first_refusal.get_or_insert(refusal);
                }
            }
        }
        break;
    }
    said.into_iter().map(|said| said.turn).collect()
}

fn one_turn(
    scene: &Scene<'_>,
    speaker: &dyn Speaker,
    polish: bool,
) -> std::result::Result<Option<Said>, String> {
    let Some(asked) = speaker.ask(scene)? else { return Ok(None) };
    let Some(chunk) = scene.chunks.get(asked.chunk) else {
        return Err(format!("the question is about chunk {} of {}", asked.chunk, scene.chunks.len()));
    };
    if asked.question.trim().is_empty() {
        return Err("the question is empty".to_owned());
    }
    let same = |said: &&Said| is_same(&said.asked, &asked);
    if scene.said.iter().find(same).is_some() {
        return Err(format!("the question {:?} was asked before", asked.question));
    }
    let answer = speaker.answer(scene, &asked)?;
    let user = if polish { speaker.polish(scene, &asked)? } else { asked.question.clone() };
    if answer.trim().is_empty() || user.trim().is_empty() {
        return Err(format!("the answer to {:?}, or the polished question, is empty", asked.question));
    }
    let turn = Turn {
        user,
        rewrite: Some(asked.question.clone()),
        answer,
        evidence: vec![chunk.id.clone()],
        switched: false,
    };
    Ok(Some(Said { asked, turn }))
}

/// The same question, but for signs and capitals?
fn is_same(left: &Asked, right: &Asked) -> bool {
    crate::text::terms(&left.question) == crate::text::terms(&right.question)
}
