//! A strategy on the items of a benchmark, beside the plain policy and beside majority.

use std::collections::BTreeMap;
use std::time::Instant;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Policy, Task};
use burnish_env::rollout::Playing;
use burnish_recipe::StrategySection;
use burnish_run::RunError;
use burnish_run::records::Records;
use burnish_run::strategies::{Arms, Compared, Comparison, Field, StrategyRecord, success_rate};
use burnish_run::watch::{Event, Stop, Watch};

use super::play::{Options, Prepared, episodes, ks, seeds};

/// Plays every item in every arm.
///
/// # Errors
/// If the options or the strategy conflict, the data or the policy can't be used, or the directory for records holds
/// something else.
pub fn compare(
    options: &Options,
    strategy: &StrategySection,
    watch: &mut dyn Watch,
    stop: &Stop,
) -> Result<Compared, RunError> {
    ks(options)?;
    let mut prepared = Prepared::of(options, watch)?;
    let mut arms = Arms::new(strategy, &prepared.settings.sampling)?;
    let mut policy = prepared.sampler();
    arms.own().check(&mut policy, &prepared.settings.sampling)?;
    arms.own().load(strategy, &prepared.settings.device, Some(prepared.tokenizer()))?;
    prepared.settings.strategy = Some(arms.named().clone());
    let (ids, settings) = (prepared.ids(), &prepared.settings);
    let out = options.out.as_deref();
    let (mut file, mut kept) =
        Records::open::<StrategyRecord, _>(out, || Ok(settings.clone()), &ids, &prepared.ends())?;
    if !kept.is_empty() {
        watch.event(Event::Note(format!("{} of {} items are there already", kept.len(), ids.len())));
    }
    let (begin, start, mut sampled) = (kept.len(), Instant::now(), 0);
    let weights = BTreeMap::new();
    for chunk in prepared.chunks.iter().filter(|chunk| chunk.end > begin) {
        if stop.is_asked() {
            return Ok(Compared::Interrupted { done: kept.len(), items: ids.len() });
        }
        let items = &prepared.parts[chunk.part];
        let seeds = seeds(items, chunk.rows.start, settings);
        let field = Field {
            generator: &*items.generator,
            tasks: &items.tasks[chunk.rows.clone()],
            place: &|task: usize| seeds.address(task),
            weights: &weights,
            has_tokens: true,
        };
        let mut playing = |policy: &mut dyn Policy, program: Playing<'_>| {
            episodes(policy, items, chunk.rows.clone(), settings, Some(program))
        };
        let records = arms.records(&mut policy, &mut playing, &field)?;
        sampled += records.iter().map(StrategyRecord::generated).sum::<usize>();
        if let Some(file) = &mut file {
            file.append(&records)?;
        }
        kept.extend(records);
        watch.event(Event::Items {
            done: kept.len(),
            items: ids.len(),
            success: success_rate(&kept),
            tokens_per_second: sampled as f64 / start.elapsed().as_secs_f64().max(1e-9),
        });
    }
    let tasks: Vec<Task> = prepared.parts.iter().flat_map(|part| part.tasks.iter().cloned()).collect();
    let seed = Address::new(settings.seed, Purpose::Bootstrap).seed();
    let comparison = Comparison::of(strategy, &tasks, &kept, &weights, seed);
    if let Some(file) = &file {
        file.finish(&comparison)?;
    }
    Ok(Compared::Done(Box::new(comparison)))
}
