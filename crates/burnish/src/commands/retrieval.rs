//! `burnish data dialogues`, `burnish data audit`, `burnish eval retrieval`: benchmarks of conversational retrieval.

use std::path::{Path, PathBuf};

use burnish_data::read_whole;
use burnish_eval::Interval;
use burnish_recipe::Source;
use burnish_retrieval::{
    Arm, AuditOptions, AuditReport, Benchmark, Bm25, Chunk, CompareOptions, Comparison, Corruption,
    CorruptionEffect, Dense, Embed, Hashed, Judge, Lexical, MakeOptions, MakeReport, PromptJudge,
    PromptSpeaker, RandomOrder, Ranker, ScoreOptions, ScoreReport, Speaker, Templates, Text, View, audit,
    compare, corruption_study, four_variants, make_dialogues, score, sources,
};
use burnish_run::texts::{Asker, Embedder};
use burnish_rundir::files::write_atomic;
use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::Done;
use super::policy::Place;
use crate::out;

/// The files of a benchmark's folder: chunks, dialogues, and the dialogues before any two were spliced.
const CHUNKS: &str = "chunks.jsonl";
const DIALOGUES: &str = "dialogues.jsonl";
const UNSPLICED: &str = "unspliced.jsonl";

/// Endings of files that a folder's texts are read from.
const ENDINGS: [&str; 3] = ["md", "txt", "rst"];

/// Numbers of a hashed vector.
const WIDTH: usize = 2048;

/// Most tokens of what a speaker or a judge says.
const TOKENS_MAX: usize = 512;

/// Share of dialogues that are spliced in the comparison of variants.
const SPLICED: f64 = 0.5;

/// Makes a benchmark of conversational retrieval.
#[derive(Debug, Args)]
pub(crate) struct Dialogues {
    /// Text files, or folders with files that end with .md, .txt or .rst.
    #[arg(required = true, value_parser = super::path())]
    texts: Vec<PathBuf>,
    /// The folder that the benchmark goes to.
    #[arg(long, value_name = "DIR", value_parser = super::path())]
    out: PathBuf,
    /// How dialogues are made: `key=value`, such as `turns=6` or `seed=3` (docs/retrieval.md).
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Who asks and answers: a model directory, a run directory, or http(s)://HOST/v1. [default: templates]
    #[arg(long, value_name = "POLICY", value_parser = super::path())]
    speaker: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Judges a benchmark of conversational retrieval.
#[derive(Debug, Args)]
pub(crate) struct Audit {
    /// The benchmark: a folder that `burnish data dialogues` made, or a file of mtRAG or XQuAD.
    #[arg(value_parser = super::path())]
    benchmark: PathBuf,
    /// A judge: a model directory, a run directory, or http(s)://HOST/v1. [default: the lexical judge]
    #[arg(long, value_name = "POLICY", value_parser = super::path())]
    judge: Option<PathBuf>,
    /// Also corrupt the benchmark in each way, and say which dimensions fell.
    #[arg(long)]
    corrupt: bool,
    /// How turns are audited: `key=value`, such as `dialogues=50`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    place: Place,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The model that gives vectors, as the crate of retrieval asks for them.
struct Vectors(Embedder);

impl Embed for Vectors {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, String> {
        self.0.embed(texts)
    }
}

/// `burnish data dialogues`
pub(crate) fn dialogues(arguments: &Dialogues) -> Done {
    let options: MakeOptions = options(&arguments.set)?;
    let texts = texts(&arguments.texts)?;
    let asker = asker(arguments.speaker.as_deref(), &arguments.place, "--speaker ")?;
    let embed = |chunks: &[Chunk]| Box::new(hashed(chunks)) as Box<dyn Embed>;
    let speaker = |chunks: &[Chunk]| match &asker {
        Some(asker) => {
            Box::new(PromptSpeaker::new(|prompt: &str| asker.ask(prompt))) as Box<dyn Speaker + '_>
        }
        None => Box::new(Templates::new(chunks)),
    };
    let made = make_dialogues(&texts, embed, speaker, &options)?;
    std::fs::create_dir_all(&arguments.out)
        .map_err(|error| format!("{} can't be made: {error}", arguments.out.display()))?;
    let unspliced = Benchmark::new(made.benchmark.chunks.clone(), made.unspliced)?;
    for (name, content) in [
        (CHUNKS, made.benchmark.chunks_jsonl()?),
        (DIALOGUES, made.benchmark.dialogues_jsonl()?),
        (UNSPLICED, unspliced.dialogues_jsonl()?),
    ] {
        write_atomic(&arguments.out.join(name), content.as_bytes())?;
    }
    if arguments.json {
        out::json(&serde_json::to_string(&made.report)?);
    } else {
        say_made(&made.report, &arguments.out);
    }
    Ok(())
}

/// `burnish data audit`
pub(crate) fn audited(arguments: &Audit) -> Done {
    let options: AuditOptions = options(&arguments.set)?;
    let benchmark = read(&arguments.benchmark)?;
    let asker = asker(arguments.judge.as_deref(), &arguments.place, "--judge ")?;
    let judge: Box<dyn Judge> = match (&asker, &arguments.judge) {
        (Some(asker), Some(path)) => {
            let name = arguments.place.model.clone().unwrap_or_else(|| path.display().to_string());
            Box::new(PromptJudge::new(name, |prompt: &str| asker.ask(prompt)))
        }
        _ => Box::new(Lexical::new(&benchmark.chunks)),
    };
    let judges = [&*judge];
    let (report, effects) = match arguments.corrupt {
        true => corruption_study(&benchmark, &judges, &Corruption::ALL, &options)?,
        false => (audit(&benchmark, &judges, &options)?, Vec::new()),
    };
    if arguments.json {
        out::json(&serde_json::to_string(&json!({ "audit": report, "corruptions": effects }))?);
    } else {
        say_audit(&report, &effects);
    }
    Ok(())
}

/// What is scored by `burnish eval retrieval`, and by whom.
pub(crate) struct Scored<'a> {
    /// The benchmark.
    pub(crate) data: Option<&'a Path>,
    /// Who gives vectors, besides hashes.
    pub(crate) policy: Option<&'a Path>,
    /// Where that is.
    pub(crate) place: &'a Place,
    /// The k of recall.
    pub(crate) k: &'a [usize],
    /// The seed.
    pub(crate) seed: Option<u64>,
    /// Whether one JSON object is printed.
    pub(crate) json: bool,
}

/// `burnish eval retrieval`
pub(crate) fn scored(arguments: &Scored<'_>) -> Done {
    let Some(data) = arguments.data else {
        return Err("retrieval: which benchmark? Give with --data a folder that `burnish data dialogues TEXTS --out DIR` made, or a \
                    file of mtRAG (reference.jsonl) or XQuAD (xquad.en.json)"
            .into());
    };
    let benchmark = read(data)?;
    let seed = arguments.seed.unwrap_or(0);
    let embedder = arguments.policy.map(|path| {
        let endpoint = arguments.place.endpoint(Some(path), "--policy ")?;
        Ok::<_, Box<dyn std::error::Error>>(Vectors(Embedder::open(path, endpoint.as_ref())?))
    });
    let embedder = embedder.transpose()?;
    let hashed = hashed(&benchmark.chunks);
    let bm25 = Bm25::new(&benchmark.chunks);
    let random = RandomOrder { count: benchmark.chunks.len(), seed };
    let mut rankers: Vec<Box<dyn Ranker + '_>> = vec![Box::new(Dense::new(&benchmark.chunks, &hashed)?)];
    if let Some(embedder) = &embedder {
        rankers.push(Box::new(Dense::new(&benchmark.chunks, embedder)?));
    }
    // Only dialogues of ours know what a question means by itself.
    let knows =
        benchmark.dialogues.iter().flat_map(|dialogue| &dialogue.turns).all(|turn| turn.rewrite.is_some());
    let views = View::ALL.into_iter().filter(|view| knows || *view != View::Rewrite);
    let mut arms: Vec<Arm<'_>> = vec![Arm { view: View::LastTurn, ranker: &random }];
    arms.extend(views.map(|view| Arm { view, ranker: &bm25 }));
    arms.extend(
        rankers
            .iter()
            .flat_map(|ranker| [View::LastTurn, View::Questions].map(|view| Arm { view, ranker: &**ranker })),
    );
    let mut options = ScoreOptions { seed, ..ScoreOptions::default() };
    if !arguments.k.is_empty() {
        options.k = arguments.k.to_vec();
    }
    let report = score(&benchmark, &arms, &options)?;
    let compared = variants(data, &benchmark, &arms, seed)?;
    if arguments.json {
        out::json(&serde_json::to_string(&json!({ "scores": report, "variants": compared }))?);
    } else {
        say_scores(&report, compared.as_ref());
    }
    Ok(())
}

/// How far the arms lie apart with and without polishing and switches, where the dialogues before splicing are known.
fn variants(
    data: &Path,
    benchmark: &Benchmark,
    arms: &[Arm<'_>],
    seed: u64,
) -> Result<Option<Comparison>, Box<dyn std::error::Error>> {
    let path = data.join(UNSPLICED);
    if !path.is_file() {
        return Ok(None);
    }
    let chunks = benchmark.chunks_jsonl()?;
    let unspliced = Benchmark::read((CHUNKS, &chunks), (&path.display().to_string(), &text_of(&path)?))?;
    let variants = four_variants(&unspliced.dialogues, &unspliced.chunks, SPLICED, seed);
    // Chance is no retriever that anybody would tell apart from others.
    let options = CompareOptions { seed, ..CompareOptions::default() };
    Ok(Some(compare(&unspliced.chunks, &variants, &arms[1..], &options)?))
}

/// Options of the crate of retrieval, from `key=value`.
fn options<T: DeserializeOwned>(set: &[String]) -> Result<T, Box<dyn std::error::Error>> {
    Ok(Source::parse("--set", "", set)?.of_no_recipe().decode()?)
}

/// Vectors that need no model.
fn hashed(chunks: &[Chunk]) -> Hashed {
    Hashed::new(chunks.iter().map(|chunk| chunk.text.as_str()), WIDTH)
}

/// Who answers prompts, if somebody is given.
fn asker(
    path: Option<&Path>,
    place: &Place,
    option: &str,
) -> Result<Option<Asker>, Box<dyn std::error::Error>> {
    let endpoint = place.endpoint(path, option)?;
    let asker = path.map(|path| Asker::open(path, endpoint.as_ref(), TOKENS_MAX));
    Ok(asker.transpose()?)
}

/// The texts of files and folders, by name.
fn texts(paths: &[PathBuf]) -> Result<Vec<Text>, Box<dyn std::error::Error>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let entries =
            std::fs::read_dir(path).map_err(|error| format!("{} can't be read: {error}", path.display()))?;
        for entry in entries {
            let own = entry.map_err(|error| format!("{} can't be read: {error}", path.display()))?.path();
            let ending = own.extension().and_then(|ending| ending.to_str());
            if ending.is_some_and(|ending| ENDINGS.contains(&ending)) {
                files.push(own);
            }
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(format!(
            "there is no text: give files, or a folder with files that end with .{}",
            ENDINGS.join(", .")
        )
        .into());
    }
    files.iter().map(|file| Ok(Text { name: file.display().to_string(), text: text_of(file)? })).collect()
}

/// The content of a text file, packed by gzip or not.
fn text_of(path: &Path) -> Result<String, Box<dyn std::error::Error>> {
    let bytes = read_whole(path)?;
    Ok(String::from_utf8(bytes).map_err(|error| format!("{}: is no text: {error}", path.display()))?)
}

/// The benchmark in a folder, or in a file of somebody else's form.
fn read(path: &Path) -> Result<Benchmark, Box<dyn std::error::Error>> {
    let shown = path.display().to_string();
    if path.is_dir() {
        let file = |name: &str| {
            let file = path.join(name);
            text_of(&file).map(|text| (file.display().to_string(), text)).map_err(|error| {
                format!("{shown} is no benchmark of retrieval, which has {CHUNKS} and {DIALOGUES}: {error}")
            })
        };
        let (chunks, dialogues) = (file(CHUNKS)?, file(DIALOGUES)?);
        return Ok(Benchmark::read((&chunks.0, &chunks.1), (&dialogues.0, &dialogues.1))?);
    }
    let text = text_of(path)?;
    let is_json = shown.trim_end_matches(".gz").ends_with(".json");
    Ok(if is_json { sources::xquad(&shown, &text)? } else { sources::mtrag(&shown, &text)? })
}

fn interval(interval: &Interval) -> String {
    format!("{:.3} [{:.3}, {:.3}]", interval.mean, interval.low, interval.high)
}

fn say_made(report: &MakeReport, out: &Path) {
    let MakeReport { texts, cut, duplicates, chunks, clusters, short, dialogues, turns, .. } = report;
    println!("texts      {texts}");
    println!("chunks     {chunks} of {cut}; {duplicates} duplicates");
    for (reason, count) in &report.rejected {
        println!(
            "dropped    {count} chunks: {}",
            serde_json::to_value(reason).unwrap_or_default().as_str().unwrap_or("")
        );
    }
    println!("clusters   {clusters}");
    println!("dialogues  {dialogues} with {turns} turns; {short} were too short");
    println!("polished   {} turns; {} switches of topic", report.polished, report.switches);
    if let Some(first) = &report.first_refusal {
        println!("refused    {} times; first: {first}", report.refused);
    }
    println!("written    {}", out.display());
}

fn say_audit(report: &AuditReport, effects: &[CorruptionEffect]) {
    println!("judge      {}", report.judges.join(", "));
    println!("dialogues  {} ({} turns with evidence)", report.dialogues, report.turns);
    for (dimension, mean) in &report.means {
        println!("{:14} {}", dimension.name(), interval(mean));
    }
    if let Some(first) = &report.first_failure {
        println!("failures   {}; first: {first}", report.failures);
    }
    for effect in effects {
        let names = |dimensions: &[burnish_retrieval::Dimension]| {
            let names: Vec<&str> = dimensions.iter().map(|dimension| dimension.name()).collect();
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        };
        let verdict = if effect.as_named { "as named" } else { "not as named" };
        println!(
            "{}: {verdict}; fell: {} (named: {})",
            effect.corruption.name(),
            names(&effect.lowered),
            names(&effect.named)
        );
        for (dimension, change) in &effect.changes {
            println!("  {:14} {}", dimension.name(), interval(change));
        }
    }
}

fn say_scores(report: &ScoreReport, compared: Option<&Comparison>) {
    println!("chunks     {}", report.chunks);
    println!(
        "dialogues  {} ({} turns, and {} without evidence)",
        report.dialogues, report.turns, report.without_evidence
    );
    for arm in &report.arms {
        println!("{}", arm.arm);
        for (k, recall) in &arm.recall {
            println!("  recall@{k:<3} {}", interval(recall));
        }
        println!("  MRR        {}", interval(&arm.mrr));
        println!("  nDCG@{:<5} {}", report.depth, interval(&arm.ndcg));
        for (name, slice) in &arm.slices {
            let recalls: Vec<String> =
                slice.recall.iter().map(|(k, recall)| format!("@{k} {:.3}", recall.mean)).collect();
            println!("  {name}: {} turns, recall {}", slice.turns, recalls.join(", "));
        }
    }
    let Some(compared) = compared else { return };
    println!(
        "variants, by recall@{}: the widest difference between two retrievers, and pairs that are told apart",
        compared.k
    );
    for variant in &compared.variants {
        let beyond = variant.beyond.as_ref().map(|beyond| format!("; beyond the first {}", interval(beyond)));
        println!(
            "  {:18} {}; {} of {} pairs{}",
            variant.variant,
            interval(&variant.spread),
            variant.told_apart,
            variant.pairs,
            beyond.unwrap_or_default()
        );
    }
}
