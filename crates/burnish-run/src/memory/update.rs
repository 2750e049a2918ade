//! What an update takes, and how much of a pass is computed again so that it fits.

use burnish_model::Outline;
use burnish_recipe::ActivationCheckpointing;
use burnish_tensor::Buffer;
use burnish_train::Checkpointing::{Full, Off, Selective};
use burnish_train::{Checkpointing, CheckpointingBySize, Place, UpdateNeed};

use super::{Count, When, mib};

/// No micro-batch has more rows.
const ROWS_MAX: usize = 1 << 24;

/// On the CPU, values have memory that is used again and again.
const WAITING: &str = "memory of values that waits for its next use";

const LEVELS: [(Checkpointing, &str); 3] = [(Off, "false"), (Selective, "\"selective\""), (Full, "true")];

impl Count<'_> {
    /// What stays between updates of a model.
    pub(super) fn held_by_trainer(&mut self, model: &Outline, whose: &str) {
        let need = UpdateNeed::new(model, self.recipe.optimizer.moments, Off, 1, self.place);
        if self.place == Place::Cpu {
            self.add(
                When::Always,
                format!("gradient of {whose}"),
                need.gradient,
                "policy.lora, train.freeze",
            );
        }
        self.add(When::Always, format!("moments of AdamW for {whose}"), need.moments, "optimizer.moments");
        let what = format!("copy in bf16 of what is trained of {whose}");
        self.add(When::Always, what, need.shadow, "policy.precision");
    }

    /// Counts what updates of the trained models take, each with its name, if a micro-batch has `rows` rows. Models are
    /// updated one after the other, so the largest counts.
    pub(super) fn updating(&mut self, models: &[(Outline, &str)], rows: usize) -> CheckpointingBySize {
        let held = self.bytes(When::Always);
        let (place, moments) = (self.place, self.recipe.optimizer.moments);
        let need = |model: &Outline, level, rows| UpdateNeed::new(model, moments, level, rows, place);
        let of = |model: &Outline, level, rows| passing(place, need(model, level, rows));
        let taken = |level, rows| models.iter().map(|(model, _)| of(model, level, rows)).max().unwrap_or(0);
        let asked = self.recipe.train.activation_checkpointing;
        let by_size = match (asked, self.free) {
            (ActivationCheckpointing::Always(level), _) => level.always(),
            // Layers with latent steps are not computed again.
            _ if self.recipe.latent.is_some() => Off.always(),
            (ActivationCheckpointing::Auto, None) => Off.always(),
            (ActivationCheckpointing::Auto, Some(free)) => {
                let room = usable(self.place, free).saturating_sub(held);
                let off_max = most_rows(|rows| taken(Off, rows) <= room);
                let selective_max = most_rows(|rows| taken(Selective, rows) <= room);
                CheckpointingBySize { off_max, selective_max: selective_max.max(off_max) }
            }
        };
        let level = by_size.of(rows);
        let all = |level| mib(held.saturating_add(taken(level, rows)));
        if asked == ActivationCheckpointing::Auto && self.recipe.latent.is_none() {
            let each = LEVELS.map(|(level, value)| format!("{} with {value}", all(level)));
            self.notes.push(format!(
                "`train.activation_checkpointing = \"auto\"` looks at the memory that is free when the run begins; training \
                 needs {} (at `train.micro_batch_tokens`)",
                each.join(", ")
            ));
            self.told.extend(self.free.map(|free| told(by_size, free, &self.recipe.device)));
        }
        if let Some(free) = self.free.filter(|free| held.saturating_add(taken(level, rows)) > *free) {
            self.told.push(format!(
                "training needs {}, and {} are free on {}: lower `train.micro_batch_tokens`",
                all(level),
                mib(free),
                self.recipe.device
            ));
        }
        let largest = models.iter().max_by_key(|(model, _)| of(model, level, rows));
        if let Some((model, whose)) = largest {
            let longer = taken(level, rows.saturating_add(1000)).saturating_sub(taken(level, rows));
            self.notes.push(format!(
                "a sequence of more than {rows} tokens is a micro-batch of its own: {} more for each 1,000 tokens",
                mib(longer)
            ));
            self.add_update(need(model, level, rows), whose, rows);
        }
        by_size
    }

    fn add_update(&mut self, need: UpdateNeed, whose: &str, rows: usize) {
        match self.place {
            Place::Gpu => {
                let what = format!("gradient of {whose}");
                self.add(When::Training, what, need.gradient, "policy.lora, train.freeze");
            }
            Place::Cpu => self.add(When::Training, WAITING, waiting(need), ""),
        }
        let what = format!("what a micro-batch of {rows} tokens keeps for its way back");
        self.add(When::Training, what, need.kept, "train.micro_batch_tokens, train.activation_checkpointing");
        let what = match self.place {
            Place::Gpu => "its logits, or a layer on its way back",
            Place::Cpu => "its logits, and a layer on its way back",
        };
        self.add(When::Training, what, need.passing, "train.micro_batch_tokens");
    }
}

/// Memory of values that waits for its next use during an update on the CPU.
fn waiting(need: UpdateNeed) -> usize {
    Buffer::waiting_bytes_max(need.kept.saturating_add(need.passing))
}

/// What an update takes that is not held all the time.
fn passing(place: Place, need: UpdateNeed) -> usize {
    let beside = match place {
        Place::Gpu => need.gradient,
        Place::Cpu => waiting(need),
    };
    beside.saturating_add(need.kept).saturating_add(need.passing)
}

/// How much of the free memory may be planned with: the rest is for what is not counted.
fn usable(place: Place, free: usize) -> usize {
    match place {
        Place::Gpu => free / 10 * 9,
        Place::Cpu => free / 4 * 3,
    }
}

/// The most rows that fit.
fn most_rows(fits: impl Fn(usize) -> bool) -> usize {
    let (mut fit, mut too_many) = (0, ROWS_MAX + 1);
    while too_many - fit > 1 {
        let rows = fit.midpoint(too_many);
        if fits(rows) { fit = rows } else { too_many = rows }
    }
    fit
}

/// What `"auto"` comes to.
fn told(
    CheckpointingBySize { off_max, selective_max }: CheckpointingBySize,
    free: usize,
    device: &str,
) -> String {
    let free = format!("{} of {device}'s memory are free", mib(free));
    let said = match (off_max, selective_max) {
        (ROWS_MAX.., _) => "off".to_owned(),
        (0, 0) => "full".to_owned(),
        (0, most) => format!("selective in micro-batches of up to {most} tokens, full in longer ones"),
        (off, most) if most <= off => {
            format!("off in micro-batches of up to {off} tokens, full in longer ones")
        }
        (off, most) => {
            format!("off in micro-batches of up to {off} tokens, selective up to {most}, full in longer ones")
        }
    };
    format!("activation checkpointing is {said}: {free}")
}

#[cfg(test)]
mod tests {
    use burnish_recipe::{Recipe, Source};

    use super::*;
    use crate::memory::{CONTEXT_BYTES, Memory};

    const RECIPE: &str = "
        device = \"cuda:0\"
        run.dir = \"run\"
        env.id = \"countdown\"
        optimizer.learning_rate = 1e-3
        policy.precision = \"bf16\"
        eval.tasks = 0
        train = { method = \"sft\", max_steps = 1, sequences_per_step = 64, micro_batch_tokens = 8192 }
        [[data.demonstrations]]
        env = \"countdown\"
        tasks = 64
        [policy.new]
        architecture = \"qwen3\"
        vocab_size = 512
        hidden_size = 64
        intermediate_size = 192
        num_hidden_layers = 12
        num_attention_heads = 4
        num_key_value_heads = 2
        head_dim = 32
        max_position_embeddings = 512
        rope_theta = 10000.0
        tie_word_embeddings = true
        dtype = \"f32\"
    ";

    fn memory(overrides: &[&str], free: Option<usize>) -> Memory {
        let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        let recipe = Recipe::resolve(&Source::parse("r.toml", RECIPE, &overrides).unwrap()).unwrap();
        Memory::of(&recipe, free).unwrap()
    }

    /// What training takes of buffers.
    fn needed(level: &str) -> usize {
        let memory = memory(&[&format!("train.activation_checkpointing={level}")], None);
        memory.while_(When::Always) - CONTEXT_BYTES + memory.while_(When::Training)
    }

    #[test]
    fn as_little_is_computed_again_as_the_memory_allows() {
        let [off, selective, full] = ["false", "selective", "true"].map(needed);
        assert!(off > selective + (1 << 20) && selective > full + (1 << 20), "{off} {selective} {full}");
        let level = |free: usize| memory(&[], Some(free)).checkpointing.of(8192);
        // A tenth stays free.
        let enough = |bytes: usize| (bytes / 9 + 1) * 10;
        assert_eq!([enough(off), enough(off) - 40].map(level), [Off, Selective]);
        assert_eq!([enough(selective), enough(selective) - 40].map(level), [Selective, Full]);
        assert_eq!(level(0), Full);

        let at_limit = memory(&[], Some(enough(off)));
        assert_eq!(at_limit.checkpointing.of(8200), Selective, "a longer micro-batch");
        assert_eq!(at_limit.checkpointing.of(1 << 20), Full);
        let told = "activation checkpointing is off in micro-batches of up to 8192 tokens, selective up to ";
        assert!(at_limit.told[0].starts_with(told), "{:?}", at_limit.told);
    }

    #[test]
    fn what_a_recipe_says_and_what_nobody_knows_is_not_decided_by_memory() {
        let unknown = memory(&[], None);
        assert_eq!((unknown.checkpointing, unknown.told.len()), (Off.always(), 0));
        let asked = memory(&["train.activation_checkpointing=selective"], Some(1 << 20));
        assert_eq!(asked.checkpointing, Selective.always());
        assert!(
            asked.told.iter().any(|told| told.contains("lower `train.micro_batch_tokens`")),
            "{:?}",
            asked.told
        );
    }

    #[test]
    fn the_most_rows_are_found() {
        for most in [0, 1, 777, ROWS_MAX] {
            assert_eq!(most_rows(|rows| rows <= most), most);
        }
    }
}
