//! Plays the items of a benchmark, chunk by chunk.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Instant;

use burnish_core::{Ending, Episode, Policy, Validity};
use burnish_data::Columns;
use burnish_engine::{Limits, LocalPolicy};
use burnish_env::lang::spoken;
use burnish_env::rollout::{self, Overlong, Playing, RolloutSpec, SeedPlace, Spawn};
use burnish_env::rows::VerifierConfig;
use burnish_model::Tokenizer;
use burnish_tensor::{Device, Precision};
use burnish_verify::code;
use burnish_verify::language::{Language, SHARE};

use super::cards::Benchmark;
use super::language::Spoken;
use super::records::{Outcome, Record, Sample};
use super::report::Report;
use super::sampling::sampling;
use super::settings::{DataSettings, Settings};
use super::source::{self, FOLDER_VARIABLE, Items, Located, locate};
use burnish_recipe::ComputeType;
use burnish_recipe::bounds::{BATCH_MAX, ROLLOUTS_MAX, THREADS_MAX, TOKENS_MAX};
use burnish_run::RunError;
use burnish_run::inspect::{self, FoundPolicy};
use burnish_run::policy::LoadedPolicy;
use burnish_run::records::{Finished, PolicySettings, Records};
use burnish_run::seeds::Draws;
use burnish_run::watch::{Event, Stop, Watch};
use burnish_rundir::files::file_digest;

/// What to evaluate, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// The benchmark.
    pub benchmark: &'static Benchmark,
    /// Its data: a file or a folder. Without it, the benchmark's folder in `$BURNISH_DATA`.
    pub data: Option<PathBuf>,
    /// Which columns hold the question (as `prompt`) and the reference (as `answer`). If none are given, the
    /// benchmark's own.
    pub columns: Columns,
    /// Languages to play; if none are given, all.
    pub languages: Vec<String>,
    /// A model directory, or a run directory.
    pub policy: PathBuf,
    /// For a run: the checkpoint after this step instead of the newest.
    pub step: Option<u64>,
    /// Samples per item.
    pub samples: usize,
    /// The k of pass@k; if none are given, 1 and `samples`.
    pub ks: Vec<usize>,
    /// Temperature; without it, sampling is greedy.
    pub temperature: Option<f32>,
    /// Whether to sample as the model's `generation_config.json` says.
    pub is_model_sampling: bool,
    /// Most tokens of an answer; without it, the benchmark's own number.
    pub tokens_max: Option<usize>,
    /// Play only this many items of each file, the first ones.
    pub limit: Option<usize>,
    /// Where records are stored. Without it, nothing is written.
    pub out: Option<PathBuf>,
    /// Seed of everything random.
    pub seed: u64,
    /// Sequences sampled at once.
    pub batch: usize,
    /// The device that computes, such as `"cpu"` or `"cuda:0"`. Default: that of the policy's run, or the CPU for a
    /// model directory.
    pub device: Option<String>,
    /// The precision. Default: that of the policy's run, or f32 for a model directory.
    pub precision: Option<ComputeType>,
    /// Number of threads; 0 takes every core. Changes no result.
    pub threads: usize,
}

/// How an evaluation ended.
pub type Finish = Finished<Report>;

/// A benchmark that is ready to be played.
pub(super) struct Prepared {
    pub(super) parts: Vec<Items>,
    policy: LoadedPolicy,
    version: u64,
    pub(super) settings: Settings,
    pub(super) chunks: Vec<Chunk>,
}

impl Prepared {
    /// Reads the data and loads the policy. Nothing is written.
    ///
    /// # Errors
    /// If the data or the policy can't be used.
    pub(super) fn of(options: &Options, watch: &mut dyn Watch) -> Result<Self, RunError> {
        let folder = std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from);
        let located =
            locate(options.benchmark, options.data.as_deref(), &options.languages, folder.as_deref())?;
        let read = |located| Items::read_as(options.benchmark, located, &options.columns, options.limit);
        let parts = located.iter().map(read).collect::<Result<Vec<_>, RunError>>()?;
        for part in &parts {
            part.generator.ready().map_err(|error| RunError::Refused(error.to_string()))?;
        }
        let FoundPolicy { dir: policy_dir, mut loading, version, device, start, notes } =
            inspect::policy_of(&options.policy, options.step)?;
        notes.into_iter().for_each(|note| watch.event(Event::Note(note)));
        let device = options.device.clone().unwrap_or(device);
        loading.precision = options.precision.map_or(loading.precision, Precision::from);
        let opened = Device::open(&device)?;
        watch.event(Event::Doing("loading the policy"));
        burnish_tensor::set_threads(options.threads);
        let policy = LoadedPolicy::load_over(&policy_dir, start.as_deref(), &loading)?.on(&opened);
        let (sampling, sampling_from) = sampling(options, &policy.chat)?;
        let settings = Settings {
            burnish: env!("CARGO_PKG_VERSION").to_owned(),
            benchmark: options.benchmark.name.to_owned(),
            policy: PolicySettings::of(&policy_dir, &format!("{:?}", loading.precision).to_lowercase())?,
            device,
            data: located
                .iter()
                .zip(&parts)
                .map(|part| data_settings(part, &options.columns))
                .collect::<Result<_, RunError>>()?,
            verifier: options.benchmark.verifier(),
            language_share: parts.iter().any(|part| part.language.is_some()).then_some(SHARE),
            limit: options.limit,
            samples: options.samples,
            sampling,
            sampling_from,
            seed: options.seed,
            batch: options.batch,
            strategy: None,
        };
        let chunks = chunks(&parts, (options.batch / options.samples).max(1));
        Ok(Prepared { parts, policy, version, settings, chunks })
    }

    /// The ids of all items.
    pub(super) fn ids(&self) -> Vec<&str> {
        self.parts.iter().flat_map(|part| &part.tasks).map(|task| task.id.0.as_str()).collect()
    }

    /// Where chunks end.
    pub(super) fn ends(&self) -> Vec<usize> {
        self.chunks.iter().map(|chunk| chunk.end).collect()
    }

    /// The policy's tokenizer.
    pub(super) fn tokenizer(&self) -> &Tokenizer {
        &self.policy.chat.tokenizer
    }

    /// The policy, which samples.
    pub(super) fn sampler(&self) -> LocalPolicy {
        self.policy.sampler(self.version, Limits::default())
    }
}

/// Plays the benchmark and summarises the records.
///
/// # Errors
/// If the options conflict, the data or the policy can't be used, or the directory for records holds something else.
pub fn evaluate(options: &Options, watch: &mut dyn Watch, stop: &Stop) -> Result<Finish, RunError> {
    let ks = ks(options)?;
    let prepared = Prepared::of(options, watch)?;
    let (ids, settings) = (prepared.ids(), &prepared.settings);
    let out = options.out.as_deref();
    let (mut file, mut records) = Records::open(out, || Ok(settings.clone()), &ids, &prepared.ends())?;
    if !records.is_empty() {
        watch.event(Event::Note(format!("{} of {} items are there already", records.len(), ids.len())));
    }
    let mut local = prepared.sampler();
    let mut pace = Pace::new();
    watch.event(pace.event(&records, ids.len()));
    let begin = records.len();
    for chunk in prepared.chunks.iter().filter(|chunk| chunk.end > begin) {
        if stop.is_asked() {
            return Ok(Finish::Interrupted { done: records.len(), items: ids.len() });
        }
        let played = play(&mut local, &prepared.parts[chunk.part], chunk.rows.clone(), settings)?;
        if let Some(file) = &mut file {
            file.append(&played)?;
        }
        pace.add(&played);
        records.extend(played);
        watch.event(pace.event(&records, ids.len()));
    }
    let report = Report::of(settings, &records, &ks);
    if let Some(file) = &file {
        file.finish(&report)?;
    }
    Ok(Finish::Done(Box::new(report)))
}

/// The k of pass@k.
pub(super) fn ks(options: &Options) -> Result<Vec<usize>, RunError> {
    let refuse = |problem: String| Err(RunError::Refused(problem));
    if options.samples == 0 || options.batch == 0 {
        return refuse("--samples and --batch must be 1 or more".into());
    }
    let counts = [
        ("--samples", options.samples, ROLLOUTS_MAX),
        ("--batch", options.batch, BATCH_MAX),
        ("--threads", options.threads, THREADS_MAX),
        ("--tokens-max", options.tokens_max.unwrap_or(0), TOKENS_MAX),
    ];
    if let Some((name, count, most)) = counts.iter().find(|(_, count, most)| *count as u64 > *most) {
        return refuse(format!("{name} {count}: must be {most} or less"));
    }
    if options.limit == Some(0) {
        return refuse("--limit must be 1 or more".into());
    }
    let mut ks = options.ks.clone();
    if ks.is_empty() {
        ks = vec![1, options.samples];
    }
    if let Some(k) = ks.iter().find(|k| **k == 0 || **k > options.samples) {
        return refuse(format!(
            "--k {k}: must be 1 to {}, the number of --samples; pass@k is estimated from k samples or more",
            options.samples
        ));
    }
    ks.sort_unstable();
    ks.dedup();
    Ok(ks)
}

fn data_settings((located, items): (&Located, &Items), columns: &Columns) -> Result<DataSettings, RunError> {
    Ok(DataSettings {
        columns: match columns {
            Columns::Auto => None,
            Columns::Named(names) => Some((**names).clone()),
        },
        path: located.path.display().to_string(),
        digest: file_digest(&located.path)?,
        items: items.tasks.len(),
        language: located.part.language.map(str::to_owned),
        prompt: located.part.prompt("{question}"),
    })
}

/// Items that are played together.
pub(super) struct Chunk {
    /// Index of the part that they are in.
    pub(super) part: usize,
    /// Their rows in that part.
    pub(super) rows: Range<usize>,
    /// Number of items of all parts up to the end of this chunk.
    pub(super) end: usize,
}

/// Splits the items into chunks of at most `size`. No chunk spans two parts.
fn chunks(parts: &[Items], size: usize) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    let mut end = 0;
    for (part, items) in parts.iter().enumerate() {
        let mut from = 0;
        while from < items.tasks.len() {
            let to = items.tasks.len().min(from + size);
            end += to - from;
            chunks.push(Chunk { part, rows: from..to, end });
            from = to;
        }
    }
    chunks
}

/// Plays a chunk. The seed of a sample depends on the part, the row and the number of the sample.
fn play(
    policy: &mut dyn Policy,
    items: &Items,
    rows: Range<usize>,
    settings: &Settings,
) -> Result<Vec<Record>, RunError> {
    let tasks = &items.tasks[rows.clone()];
    let episodes = episodes(policy, items, rows.clone(), settings, None)?;
    tasks
        .iter()
        .zip(&items.references[rows])
        .zip(episodes.chunks(settings.samples))
        .map(|((task, reference), episodes)| {
            let sample = |episode| sample(episode, settings, reference, items.language);
            Ok(Record {
                id: task.id.0.clone(),
                labels: task.labels.clone(),
                prompt: task.prompt.clone(),
                reference: reference.clone(),
                samples: episodes.iter().map(sample).collect::<Result<_, RunError>>()?,
            })
        })
        .collect()
}

/// The place of the items from row `row` on.
pub(super) fn seeds(items: &Items, row: usize, settings: &Settings) -> SeedPlace {
    Draws::Benchmark.place(settings.seed, items.part as u64, row as u64)
}

/// The episodes of a chunk, item by item.
pub(super) fn episodes(
    policy: &mut dyn Policy,
    items: &Items,
    rows: Range<usize>,
    settings: &Settings,
    program: Option<Playing<'_>>,
) -> Result<Vec<Episode>, RunError> {
    let seeds = seeds(items, rows.start, settings);
    let spawns = Spawn::of_tasks(&items.tasks[rows], settings.samples, &settings.sampling, seeds);
    // If a prompt does not fit the policy's context, the item counts as unanswered, and the evaluation continues.
    let overlong = Overlong::Drop;
    let generator = &*items.generator;
    let spec = RolloutSpec { generator, partners: None, spawns: &spawns, turns_max: 1, overlong, program };
    Ok(rollout::play(policy, &spec)?)
}

/// The text of an episode, with the answer that its verifier found.
fn sample(
    episode: &Episode,
    settings: &Settings,
    reference: &str,
    language: Option<Language>,
) -> Result<Sample, RunError> {
    let refuse = |problem: &str| RunError::Refused(format!("item {}: {problem}", episode.task));
    if episode.ending == Ending::ContextOverflow {
        let (text, outcome) = (String::new(), Outcome::PromptTooLong);
        let language = language.map(|language| Spoken::of(&text, language));
        return Ok(Sample {
            text,
            reasoning: None,
            answer: None,
            outcome,
            feedback: None,
            tokens: 0,
            stop: None,
            language,
        });
    }
    if let Validity::Unscored { reason } = &episode.verdict.validity {
        return Err(refuse(reason));
    }
    let message = episode.answers.last().ok_or_else(|| refuse("was not answered"))?;
    // The environment's verdict is only yes or no; the record also has the answer that the same verifier read.
    let (answer, outcome) = match &settings.verifier {
        VerifierConfig::BuiltIn(verifier) => {
            let gold = verifier.gold(reference).map_err(|error| refuse(&error.to_string()))?;
            let judgement = gold.judge(&message.content);
            (judgement.answer, judgement.reason.into())
        }
        _ => (code::python(&message.content, &[]), Outcome::of_program(&episode.verdict)),
    };
    let language = language.map(|language| Spoken::of(&spoken(message), language));
    let agrees = language.as_ref().is_none_or(|language| {
        episode.verdict.flags.get(source::LANGUAGE).is_some_and(|flag| *flag == language.is_kept)
    });
    if (outcome == Outcome::Correct) != episode.verdict.success || !agrees {
        return Err(refuse("the verdict and its explanation disagree"));
    }
    let mut stop =
        episode.traces.iter().flat_map(|trace| trace.nodes()).filter_map(|node| node.sampled.as_ref());
    Ok(Sample {
        text: message.content.clone(),
        reasoning: message.reasoning_content.clone(),
        answer,
        outcome,
        feedback: matches!(settings.verifier, VerifierConfig::Code(_))
            .then(|| episode.verdict.feedback.clone())
            .flatten(),
        tokens: episode.sampled_tokens(),
        stop: stop.next_back().map(|sampled| sampled.stop),
        language,
    })
}

/// The speed of this process.
struct Pace {
    start: Instant,
    tokens: usize,
}

impl Pace {
    fn new() -> Self {
        Pace { start: Instant::now(), tokens: 0 }
    }

    fn add(&mut self, records: &[Record]) {
        self.tokens +=
            records.iter().flat_map(|record| &record.samples).map(|sample| sample.tokens).sum::<usize>();
    }

    fn event(&self, records: &[Record], items: usize) -> Event<'static> {
        let samples: usize = records.iter().map(|record| record.samples.len()).sum();
        let correct: usize = records.iter().map(Record::correct).sum();
        Event::Items {
            done: records.len(),
            items,
            success: (samples > 0).then(|| correct as f64 / samples as f64),
            tokens_per_second: self.tokens as f64 / self.start.elapsed().as_secs_f64().max(1e-9),
        }
    }
}

#[cfg(test)]
mod tests;
