//! Every metric: what it means, and what other frameworks call the same number.
//!
//! A metric has an alias only if the other framework's number has the same definition, for runs that both can do.
//! `docs/metrics.md` repeats this table, and lists where runs can make a difference and which names look alike but
//! mean something else.

use serde::{Deserialize, Serialize};

use super::{Row, Values};

/// `metrics.names`: the framework whose names the metrics get.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Names {
    /// TRL 1.16's, which are burnish's own.
    #[default]
    Trl,
    /// verl 0.7's.
    Verl,
    /// prime-rl 0.6's.
    PrimeRl,
}

/// A number that a run can log. Placeholders in names are in braces.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name in `metrics.jsonl`.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
    /// Its name in verl.
    pub verl: Option<&'static str>,
    /// Its name in prime-rl.
    pub prime_rl: Option<&'static str>,
}

/// The numbers of extra evaluations.
const FURTHER: &str = "eval/{name}/{metric}";

/// All metrics.
pub const METRICS: &[Metric] = &[
    metric("reward", "reward", "mean weighted reward of the scored episodes")
        .verl("critic/rewards/mean")
        .prime_rl("reward/all/mean"),
    metric("reward_std", "reward", "its standard deviation over the step (n - 1)"),
    metric("frac_reward_zero_std", "share", "episodes in groups whose rewards are all equal"),
    metric("rewards/{component}/mean", "reward", "mean of one component of the reward, unweighted"),
    metric("rewards/{component}/std", "reward", "its standard deviation over the step (n - 1)"),
    metric(
        "success",
        "share",
        "scored episodes that solved their task (where the environment reports success)",
    ),
    metric("flags/{flag}", "share", "scored episodes for which the environment raised the flag"),
    metric("environment/{name}", "number", "a metric of the environment, which is not rewarded: mean over scored episodes"),
    metric("tasks", "tasks", "tasks of the step").prime_rl("progress/problems"),
    metric("episodes", "episodes", "episodes of the step").prime_rl("progress/samples"),
    metric("episodes/unscored", "episodes", "episodes that could not be judged; they are not learnt from"),
    metric("completions/mean_length", "tokens", "sampled tokens of an episode, mean")
        .verl("response_length/mean")
        .prime_rl("decode_len/all/mean"),
    metric("completions/min_length", "tokens", "the least of an episode").verl("response_length/min"),
    metric("completions/max_length", "tokens", "the most of an episode").verl("response_length/max"),
    metric("completions/clipped_ratio", "share", "episodes in which a limit cut an answer short"),
    metric("completions/mean_terminated_length", "tokens", "mean over episodes whose answers all ended"),
    metric("tokens/sampled", "tokens", "tokens that were sampled").prime_rl("progress/decode_tokens"),
    metric("tokens/total", "tokens", "prompts and answers of the samples; a shared prompt counts in each")
        .verl("perf/total_num_tokens"),
    metric("tokens/trained", "tokens", "tokens that counted in a loss, over all updates"),
    metric("tokens/forward", "tokens", "rows that went through the model in updates, after sharing prefixes"),
    metric("num_tokens", "tokens", "`tokens/total` of all steps so far"),
    metric("loss", "loss", "the objective's value, mean over the updates"),
    metric("entropy", "nats", "entropy of the policy at loss tokens, mean")
        .verl("actor/entropy")
        .prime_rl("entropy/all/mean"),
    metric("kl", "nats", "the objective's KL to the reference at loss tokens, mean (where `loss.beta` > 0)"),
    metric("proximal_kl", "nats", "divergence from the proximal policy at loss tokens, mean (where `loss.proximal_kl_coef` > 0)"),
    metric("kl_coef", "1", "weight of the KL divergence in the step (where `loss.beta` > 0)")
        .verl("actor/reward_kl_penalty_coeff"),
    metric(
        "reward_kl_penalty",
        "nats",
        "KL to the reference in the reward: mean over episodes of the mean over tokens",
    )
    .verl("actor/reward_kl_penalty"),
    metric("clip_ratio/low_mean", "share", "loss tokens clipped at the lower bound (`luspo`, `gspo`: sequences)"),
    metric("clip_ratio/high_mean", "share", "loss tokens clipped at the upper bound (`luspo`, `gspo`: sequences)"),
    metric("clip_ratio/region_mean", "share", "loss tokens clipped at either (`luspo`, `gspo`: sequences)")
        .verl("actor/pg_clipfrac"),
    metric("clip_ratio/dual_mean", "share", "loss tokens beyond the bound of `dual_clip`, where it is set; in none of the above")
        .verl("actor/pg_clipfrac_lower"),
    metric("cispo_clip_ratio", "share", "loss tokens with an advantage above 0 whose weight is that of the upper bound (`cispo`)"),
    metric("grad_norm", "loss", "2-norm of the gradient before it is clipped, mean over the updates")
        .verl("actor/grad_norm")
        .prime_rl("optim/grad_norm"),
    metric("learning_rate", "1", "learning rate, mean over the updates")
        .verl("actor/lr")
        .prime_rl("optim/lr"),
    metric("entropy_top", "nats", "entropy at the loss tokens that train, mean (where `loss.top_entropy_quantile` < 1)"),
    metric("entropy_coef", "1", "weight of the entropy bonus in the step (where `loss.adaptive_entropy` is on)"),
    metric("clip_cov/detached_mean", "share", "loss tokens taken out for their covariance (`clip_cov`)"),
    metric("kl_cov/penalised_mean", "share", "loss tokens with a penalty for their covariance (`kl_cov`)"),
    metric("m2po/masked_mean", "share", "loss tokens masked for their second moment (`m2po`)"),
    metric("red/dropped_mean", "share", "loss tokens of answers that were dropped (`red`)"),
    metric("vespo/phi_mean", "1", "weight of a sequence, mean over loss tokens (`vespo`)"),
    metric("rewards/chosen", "nats", "implicit reward of the better answers, mean over pairs"),
    metric("rewards/rejected", "nats", "implicit reward of the worse answers, mean over pairs"),
    metric("rewards/accuracies", "share", "pairs whose better answer has the greater implicit reward"),
    metric("rewards/margins", "nats", "implicit reward of the better answer minus that of the worse, mean over pairs"),
    metric("logps/chosen", "nats", "log-prob of the better answers, mean over pairs"),
    metric("logps/rejected", "nats", "log-prob of the worse answers, mean over pairs"),
    metric("accuracy", "share", "pairs, or labels, that a reward model tells right"),
    metric("margin", "reward", "reward of the better answer minus that of the worse, mean over pairs, of a reward model"),
    metric("mean_reward", "reward", "what a reward model gives, mean over answers"),
    metric("dgpo/opposed", "share", "groups with better and worse answers (`dgpo`)"),
    metric("dgpo/variance", "nats²", "variance of the better answers' scores, mean over the groups that have any (`dgpo`)"),
    metric("plan/rethought", "share", "rollouts that went on behind a trigger (plan `vl_rethinker`)"),
    metric("plan/coherent", "share", "answers that are right and whose cycle closes (plan `dgpo`)"),
    metric("plan/cycle_consistency", "share", "right answers whose cycle closes (plan `dgpo`)"),
    metric("plan/forward_success", "share", "right answers to the tasks as they are drawn (plan `dgpo`)"),
    metric("plan/reverse_success", "share", "right answers to the tasks turned round (plan `dgpo`)"),
    metric("plan/useful/{group}", "share", "running share of groups with a positive advantage, among tasks of a group (plan `lang`)"),
    metric("plan/off/{group}", "share", "whether the hints of a group are switched off (plan `lang`)"),
    metric("judge/comparisons", "pairs", "pairs of answers that the judge compared (`[judge]`)"),
    metric("judge/ties", "share", "of these, those that it found alike (`[judge]`)"),
    metric("judge/unreadable", "share", "of these, those of which it named no winner and no tie; they count as ties (`[judge]`)"),
    metric("judge/first", "share", "of those that it decided, those won by the answer that it read first (`[judge]`)"),
    metric("continuations/answers", "answers", "answers that went on from within another (estimator `vineppo`)"),
    metric("drafts/mean_length", "tokens", "sampled tokens of a draft, mean (plans `skpo`, `heavyskill`)"),
    metric("drafts/success", "share", "drafts that succeed by themselves (plan `heavyskill`)"),
    metric(
        "upstream/from_task",
        "share",
        "variance of the upstream advantage that the task explains, whatever the draft (estimator `skpo` with `measure_every`)",
    ),
    metric("upstream/told_apart", "share", "drafts that are better or worse than their task by over two standard errors"),
    metric("upstream/sign_errors", "share", "of these, those whose upstream advantage has the other sign, or none"),
    metric("rollout_corr/kl", "nats", "sampling policy to training policy, mean over tokens (k1) (where `loss.correction` is on)")
        .verl("rollout_corr/kl"),
    metric("rollout_corr/k3_kl", "nats", "the same, estimated by k3 (where `loss.correction` is on)")
        .verl("rollout_corr/k3_kl"),
    metric("rollout_corr/chi2_token", "1", "chi-square divergence, mean over tokens (where `loss.correction` is on)")
        .verl("rollout_corr/chi2_token"),
    metric("rollout_corr/training_ppl", "1", "perplexity of an answer under the training policy, mean over sequences (where `loss.correction` is on)")
        .verl("rollout_corr/training_ppl"),
    metric("rollout_corr/rollout_ppl", "1", "the same under the policy that sampled (where `loss.correction` is on)")
        .verl("rollout_corr/rollout_ppl"),
    metric("rollout_corr/training_log_ppl", "nats", "its logarithm under the training policy (where `loss.correction` is on)")
        .verl("rollout_corr/training_log_ppl"),
    metric("rollout_corr/rollout_log_ppl", "nats", "its logarithm under the policy that sampled (where `loss.correction` is on)")
        .verl("rollout_corr/rollout_log_ppl"),
    metric("rollout_corr/log_ppl_diff", "nats", "difference of the two, mean over sequences (where `loss.correction` is on)")
        .verl("rollout_corr/log_ppl_diff"),
    metric("rollout_corr/log_ppl_abs_diff", "nats", "its magnitude, mean over sequences (where `loss.correction` is on)")
        .verl("rollout_corr/log_ppl_abs_diff"),
    metric("rollout_corr/ppl_ratio", "1", "ratio of the perplexities, mean over sequences (where `loss.correction` is on)")
        .verl("rollout_corr/ppl_ratio"),
    metric("rollout_corr/chi2_seq", "1", "chi-square divergence, mean over sequences (where `loss.correction` is on)")
        .verl("rollout_corr/chi2_seq"),
    metric("rollout_corr/rollout_rs_masked_fraction", "share", "loss tokens that are rejected (where `loss.correction` is on)")
        .verl("rollout_corr/rollout_rs_masked_fraction"),
    metric("rollout_corr/rollout_rs_seq_masked_fraction", "share", "sequences with a rejected token (where `loss.correction` is on)")
        .verl("rollout_corr/rollout_rs_seq_masked_fraction"),
    metric("rollout_corr/opsm_masked_fraction", "share", "loss tokens masked because the policy has left them (OPSM) (where `loss.correction` is on)"),
    metric("rollout_corr/rollout_is_mean", "1", "importance weight, mean over tokens (where `loss.correction` is on)")
        .verl("rollout_corr/rollout_is_mean"),
    metric("rollout_corr/rollout_is_seq_mean", "1", "its mean over sequences of the mean over tokens (where `loss.correction` is on)")
        .verl("rollout_corr/rollout_is_seq_mean"),
    metric("rollout_corr/rollout_is_ratio_fraction_high", "share", "weights above the upper bound (where `loss.correction` is on)")
        .verl("rollout_corr/rollout_is_ratio_fraction_high"),
    metric("rollout_corr/rollout_is_ratio_fraction_low", "share", "weights below the lower bound (where `loss.correction` is on)")
        .verl("rollout_corr/rollout_is_ratio_fraction_low"),
    metric("rollout_corr/rollout_is_seq_fraction_high", "share", "sequences whose mean weight is above the upper bound (where `loss.correction` is on)")
        .verl("rollout_corr/rollout_is_seq_fraction_high"),
    metric("rollout_corr/rollout_is_seq_fraction_low", "share", "sequences whose mean weight is below the lower bound (where `loss.correction` is on)")
        .verl("rollout_corr/rollout_is_seq_fraction_low"),
    metric("critic/vf_loss", "loss", "the critic's loss at loss tokens, mean over its updates")
        .verl("critic/vf_loss"),
    metric(
        "critic/vf_clipfrac",
        "share",
        "loss tokens at which the clipped loss of the critic is the larger one",
    )
    .verl("critic/vf_clipfrac"),
    metric("critic/vpred_mean", "reward", "values at loss tokens, mean").verl("critic/vpred_mean"),
    metric(
        "critic/vf_explained_var",
        "share",
        "1 - Var(return - value) / Var(return), before the critic's updates",
    )
    .verl("critic/vf_explained_var"),
    metric(
        "critic/grad_norm",
        "loss",
        "2-norm of the critic's gradient before it is clipped, mean over its updates",
    )
    .verl("critic/grad_norm"),
    metric("critic/lr", "1", "the critic's learning rate, mean over its updates").verl("critic/lr"),
    metric(
        "sampling/sampling_logp_difference/mean",
        "nats",
        "trainer's minus sampler's log-prob under the model before the first update, absolute, mean; however tokens were drawn",
    ),
    metric("sampling/sampling_logp_difference/max", "nats", "the largest of them"),
    metric(
        "sampling/updates_behind",
        "updates",
        "by which the weights that sampled a token are behind those that the step starts from, mean over loss tokens (where \
         `rollout.policy_lag` is set)",
    ),
    metric("tools/call_frequency", "calls", "in an episode's answers, mean (where there were any)"),
    metric(
        "tools/failure_frequency",
        "share",
        "calls that no tool ran: they could not be read, or did not fit their tool",
    ),
    metric("sampling/prompt_tokens", "tokens", "of the prompts of all turns of the rollouts"),
    metric(
        "sampling/prompt_tokens_read",
        "tokens",
        "those of them that went through the model: the others were known from a turn before or a sibling",
    ),
    metric(
        "sampling/cache_waits",
        "requests",
        "times that a request waited for room in the cache; left out if 0",
    ),
    metric(
        "sampling/cache_preemptions",
        "sequences",
        "sequences that gave up their room in the cache for a while",
    ),
    metric(
        "dynamic_sampling/rounds",
        "rounds",
        "rounds of sampling in the step (where `rollout.dynamic_sampling` is on)",
    ),
    metric("dynamic_sampling/dropped_groups", "groups", "groups left out because nothing varied in them"),
    metric("selection/pool", "tasks", "candidates that the step's tasks were chosen from, over all rounds (where `selection` is on)"),
    metric("selection/mean_success", "share", "success that the selector expected of the tasks it chose, mean over tasks"),
    metric("selection/time", "s", "wall time of the choice"),
    metric(
        "head_grad_norm",
        "loss",
        "Frobenius norm of the gradient of the head alone, before clipping, mean over the updates (where `[gate]` is on)",
    ),
    metric(
        "gate/z",
        "1",
        "how far the last update that was proposed in the step stood out (`dgg`)",
    ),
    metric(
        "gate/alarm",
        "share",
        "whether that was above the threshold, closed or not (`dgg`)",
    ),
    metric(
        "gate/closed",
        "share",
        "whether the gate dropped an update and ended the use of the batch (where `[gate]` is on)",
    ),
    metric(
        "gate/updates",
        "updates",
        "updates that were made in the step (where `[gate]` is on)",
    ),
    metric("flaws/rate", "share", "answers with a step that is called wrong, among those whose steps can be read (`fapo`)"),
    metric("flaws/flawed_positives", "share", "right answers with a step that is called wrong (`fapo`)"),
    metric("skills/size", "skills", "skills in the library after the step (`skilled`)"),
    metric("skills/added", "skills", "skills that successful episodes of the step added"),
    metric("skills/utility", "number", "mean utility of the skills in the library, from 0 to 1"),
    metric("skills/miscalibration", "number", "mean over the skills that episodes were given of the distance between utility and the share of these episodes that succeeded"),
    metric("skills/order", "number", "mean NDCG of the orders of skills, where one order is better than another"),
    metric("replay/kept", "members", "members of steps so far that are kept (where `[replay]` is on)"),
    metric("replay/share", "share", "members of earlier steps among those that the update trains on"),
    metric("replay/vanished", "share", "members of the step whose advantage is 0"),
    metric(
        "divergence/lm_head",
        "1",
        "distance of the head's weights from those of the start, relative to their norm (where `metrics.weight_divergence` is on)",
    ),
    metric(
        "divergence/layers_mean",
        "1",
        "the same of a layer, mean over the layers",
    ),
    metric(
        "divergence/layers/{layer}",
        "1",
        "the same of one layer with all that is in it",
    ),
    metric(
        "teacher/same_choice",
        "share",
        "scored tokens at which the teacher's likeliest token is the policy's too (where `metrics.teacher_agreement` is on)",
    ),
    metric(
        "teacher/choice_unlikely",
        "share",
        "scored tokens at which the policy gives the teacher's likeliest token less than 5 %",
    ),
    metric("step_time", "s", "wall time of the step, without evaluation and saving")
        .verl("timing_s/step")
        .prime_rl("time/step"),
    metric(
        "eval/success",
        "share",
        "held-out tasks solved: mean over tasks of the mean over a task's episodes (where the environment reports success)",
    )
    .verl("val-core/{env}/acc/mean@{k}"),
    metric("eval/success/low", "share", "lower end of its 95 % interval"),
    metric("eval/success/high", "share", "upper end of its 95 % interval"),
    metric("eval/reward", "reward", "weighted reward on held-out tasks, mean over tasks of the mean over scored episodes")
        .verl("val-aux/{env}/reward/mean@{k}")
        .prime_rl("eval/{env}/avg@{k}"),
    metric("eval/reward/low", "reward", "lower end of its 95 % interval"),
    metric("eval/reward/high", "reward", "upper end of its 95 % interval"),
    metric(
        "eval/pass@{n}",
        "share",
        "tasks that one of n episodes solved, unbiased: n = 2, 4, 8 ... and `eval.rollouts` (where that is above 1)",
    ),
    metric(
        "eval/rewards/{component}/mean",
        "reward",
        "one component of the reward, unweighted, averaged as `eval/success`",
    ),
    metric(
        "eval/flags/{flag}",
        "share",
        "episodes for which the flag was raised, averaged as `eval/success`",
    ),
    metric(
        "eval/environment/{name}",
        "number",
        "a metric of the environment, which is not rewarded: mean over tasks of the mean over the episodes that have it",
    ),
    metric(
        "eval/by_label/{label}/{value}",
        "share",
        "`eval/success` (else `eval/reward`) over the tasks with one value of a label (labels with 2 to 8 values)",
    ),
    metric(
        "eval/flags_by_label/{label}/{value}/{flag}",
        "share",
        "`eval/flags/{flag}` over the tasks with one value of a label (labels with 2 to 4 values)",
    ),
    metric(
        "eval/distinct",
        "share",
        "different answers to a task, over its episodes, mean over tasks (where `eval.rollouts` > 1)",
    ),
    metric(
        "eval/entropy",
        "nats",
        "-log p of the sampled tokens, mean over tasks of the mean over a task's tokens: an estimate of the entropy (where \
         evaluation samples, without filters or penalties)",
    ),
    metric(
        "eval/completions/mean_length",
        "tokens",
        "sampled tokens of an episode, averaged as `eval/success`",
    )
    .prime_rl("eval/{env}/completion_len/mean"),
    metric(
        "eval/completions/clipped_ratio",
        "share",
        "episodes in which a limit cut an answer short, averaged as `eval/success`",
    ),
    metric("eval/loss", "nats", "the loss on held-out rows: mean over tokens of imitation, over rows of preferences and reward models"),
    metric("eval/loss/low", "nats", "lower end of its 95 % interval"),
    metric("eval/loss/high", "nats", "upper end of its 95 % interval"),
    metric("eval/loss/change", "nats", "its change since the evaluation before training, paired by row"),
    metric("eval/loss/change/low", "nats", "lower end of the change's 95 % interval"),
    metric("eval/loss/change/high", "nats", "upper end of the change's 95 % interval"),
    metric("eval/held_out_rows", "rows", "rows that it was measured on"),
    metric("eval/accuracy", "share", "`accuracy` on held-out rows"),
    metric("eval/accuracy/low", "share", "lower end of its 95 % interval"),
    metric("eval/accuracy/high", "share", "upper end of its 95 % interval"),
    metric("eval/accuracy/change", "share", "its change since the evaluation before training, paired by row"),
    metric("eval/accuracy/change/low", "share", "lower end of the change's 95 % interval"),
    metric("eval/accuracy/change/high", "share", "upper end of the change's 95 % interval"),
    metric("eval/margin", "reward", "`margin` on held-out rows"),
    metric("eval/mean_reward", "reward", "`mean_reward` on held-out rows"),
    metric("eval/rewards/chosen", "nats", "`rewards/chosen` on held-out rows"),
    metric("eval/rewards/rejected", "nats", "`rewards/rejected` on held-out rows"),
    metric("eval/rewards/accuracies", "share", "`rewards/accuracies` on held-out rows"),
    metric("eval/rewards/accuracies/low", "share", "lower end of its 95 % interval"),
    metric("eval/rewards/accuracies/high", "share", "upper end of its 95 % interval"),
    metric("eval/rewards/accuracies/change", "share", "its change since the evaluation before training, paired by row"),
    metric("eval/rewards/accuracies/change/low", "share", "lower end of the change's 95 % interval"),
    metric("eval/rewards/accuracies/change/high", "share", "upper end of the change's 95 % interval"),
    metric("eval/rewards/margins", "nats", "`rewards/margins` on held-out rows"),
    metric("eval/logps/chosen", "nats", "`logps/chosen` on held-out rows"),
    metric("eval/logps/rejected", "nats", "`logps/rejected` on held-out rows"),
    metric("eval/kl", "nats", "`kl` on held-out rows"),
    metric("eval/unscored", "episodes", "held-out episodes that could not be judged; they are in no mean"),
    metric(
        "eval/prompt_too_long",
        "episodes",
        "held-out episodes whose prompt does not fit the context window; they count as failures (where there are any)",
    ),
    metric(FURTHER, "", "any of these, of the evaluation of `[[eval.extra]]` called so"),
    metric("data/overlap/rows", "rows", "training rows that were compared with evaluation rows"),
    metric("data/overlap/overlapping", "rows", "of these, rows that share a run of words with one"),
    metric("data/overlap/evaluation_rows", "rows", "evaluation rows that they were compared with"),
    metric("data/overlap/evaluation_rows_found", "rows", "of these, rows found in training rows"),
];

/// A number of another framework that can be computed from ours.
#[derive(Debug, Clone, Copy)]
pub struct Derived {
    /// The framework.
    pub names: Names,
    /// Its name there.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
    value: fn(&Row) -> Option<f64>,
}

/// All derived numbers; they come from training rows.
pub const DERIVED: &[Derived] = &[
    Derived {
        names: Names::Verl,
        name: "training/global_step",
        unit: "steps",
        meaning: "`step`",
        value: |row| Some(row.step as f64),
    },
    Derived {
        names: Names::Verl,
        name: "perf/throughput",
        unit: "tokens/s",
        meaning: "`tokens/total` over `step_time`, for one device",
        value: |row| Some(row.values.get("tokens/total")? / row.values.get("step_time")?),
    },
];

const fn metric(name: &'static str, unit: &'static str, meaning: &'static str) -> Metric {
    Metric { name, unit, meaning, verl: None, prime_rl: None }
}

impl Metric {
    const fn verl(self, name: &'static str) -> Self {
        Metric { verl: Some(name), ..self }
    }

    const fn prime_rl(self, name: &'static str) -> Self {
        Metric { prime_rl: Some(name), ..self }
    }

    /// Its name in another framework, with placeholders; `None` if the framework has no such number.
    pub fn alias(&self, names: Names) -> Option<&'static str> {
        match names {
            Names::Trl => None,
            Names::Verl => self.verl,
            Names::PrimeRl => self.prime_rl,
        }
    }

    /// Whether `name` is a name of this metric in some run.
    pub fn is_called(&self, name: &str) -> bool {
        if self.name != FURTHER {
            return fits(self.name, name);
        }
        let Some((own, rest)) = name.strip_prefix("eval/").and_then(|name| name.split_once('/')) else {
            return false;
        };
        let main = format!("eval/{rest}");
        !is_of_evaluation(own) && METRICS.iter().any(|other| other.name != FURTHER && other.is_called(&main))
    }
}

/// Whether `name` is the first part of a main evaluation's metric after `eval/`.
pub fn is_of_evaluation(name: &str) -> bool {
    let names = METRICS.iter().filter_map(|metric| metric.name.strip_prefix("eval/"));
    names.map(|own| own.split(['/', '@']).next().unwrap_or(own)).any(|own| own == name)
}

/// Whether `name` fits a pattern whose placeholders each stand for one or more characters.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((before, rest)) = pattern.split_once('{') else { return pattern == name };
    let after = rest.split_once('}').map_or("", |(_, after)| after);
    let Some(name) = name.strip_prefix(before) else { return false };
    name.char_indices()
        .skip(1)
        .map(|(at, _)| at)
        .chain([name.len()])
        .any(|at| at > 0 && fits(after, &name[at..]))
}

/// Renames the metrics of one run.
#[derive(Debug, Clone)]
pub struct Aliases {
    names: Names,
    env: String,
    rollouts: usize,
}

impl Aliases {
    /// `names` for a run in environment `env` whose evaluations play `rollouts` episodes per task.
    pub fn new(names: Names, env: &str, rollouts: usize) -> Self {
        Aliases { names, env: env.to_owned(), rollouts }
    }

    /// The numbers of a row under these names. Numbers that the framework lacks keep burnish's names.
    pub fn rename(&self, row: &Row) -> Values {
        let named = row.values.iter().map(|(name, value)| (self.name(name), *value));
        let derived = DERIVED.iter().filter(|derived| derived.names == self.names && row.event == "train");
        let derived = derived.filter_map(|derived| Some((derived.name.to_owned(), (derived.value)(row)?)));
        named.chain(derived).collect()
    }

    /// The numbers of a row under their TensorBoard tags: these names, in the form that the framework's own logger
    /// writes. TRL (the `Trainer` of transformers) puts the event first.
    pub(super) fn tags(&self, row: &Row) -> Vec<(String, f64)> {
        let prefix = format!("{}/", row.event);
        let tag = |name: String| match self.names {
            Names::Trl if !name.starts_with(&prefix) => prefix.clone() + &name,
            _ => name,
        };
        self.rename(row).into_iter().map(|(name, value)| (tag(name), value)).collect()
    }

    fn name(&self, name: &str) -> String {
        let alias =
            METRICS.iter().find(|metric| metric.name == name).and_then(|metric| metric.alias(self.names));
        alias.map_or_else(
            || name.to_owned(),
            |alias| alias.replace("{env}", &self.env).replace("{k}", &self.rollouts.to_string()),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const ALL: [Names; 3] = [Names::Trl, Names::Verl, Names::PrimeRl];

    #[test]
    fn no_two_metrics_have_the_same_name_in_any_framework() {
        for names in ALL {
            let mut seen = BTreeSet::new();
            for metric in METRICS {
                let name = metric.alias(names).unwrap_or(metric.name);
                assert!(seen.insert(name), "{names:?} has two {name}");
            }
            for derived in DERIVED.iter().filter(|derived| derived.names == names) {
                assert!(seen.insert(derived.name), "{names:?} has two {}", derived.name);
            }
        }
        // No metric's name may fit the pattern of another.
        for metric in METRICS.iter().filter(|metric| metric.name != FURTHER) {
            let called = METRICS.iter().filter(|other| other.is_called(metric.name)).count();
            assert_eq!(called, 1, "{}", metric.name);
        }
    }

    #[test]
    fn a_row_gets_the_names_of_a_framework_and_keeps_what_that_lacks() {
        let values = [("reward", 0.5), ("success", 0.25), ("tokens/total", 600.0), ("step_time", 2.0)];
        let values: Values = values.into_iter().map(|(name, value)| (name.into(), value)).collect();
        let row = Row { step: 7, event: "train".into(), values };
        let named = |names| Aliases::new(names, "countdown", 4).rename(&row).into_iter().collect::<Vec<_>>();
        let expect = |pairs: &[(&str, f64)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect::<Vec<_>>()
        };
        assert_eq!(Aliases::new(Names::Trl, "countdown", 4).rename(&row), row.values);
        assert_eq!(
            named(Names::Verl),
            expect(&[
                ("critic/rewards/mean", 0.5),
                ("perf/throughput", 300.0),
                ("perf/total_num_tokens", 600.0),
                ("success", 0.25),
                ("timing_s/step", 2.0),
                ("training/global_step", 7.0),
            ])
        );
        assert_eq!(
            named(Names::PrimeRl),
            expect(&[
                ("reward/all/mean", 0.5),
                ("success", 0.25),
                ("time/step", 2.0),
                ("tokens/total", 600.0)
            ])
        );
    }

    #[test]
    fn evaluations_are_named_by_environment_and_rollouts_and_nothing_is_derived_from_them() {
        let values = Values::from([("eval/success".into(), 0.5), ("eval/reward".into(), 0.75)]);
        let row = Row { step: 3, event: "eval".into(), values };
        let tags = |names| {
            let tags = Aliases::new(names, "countdown", 4).tags(&row);
            tags.into_iter().map(|(tag, _)| tag).collect::<Vec<_>>()
        };
        assert_eq!(tags(Names::Trl), ["eval/reward", "eval/success"]);
        assert_eq!(tags(Names::Verl), ["val-aux/countdown/reward/mean@4", "val-core/countdown/acc/mean@4"]);
        assert_eq!(tags(Names::PrimeRl), ["eval/countdown/avg@4", "eval/success"]);
    }

    #[test]
    fn tensorboard_tags_under_trl_start_with_the_event() {
        let row = Row { step: 1, event: "train".into(), values: Values::from([("reward".into(), 1.0)]) };
        assert_eq!(Aliases::new(Names::Trl, "x", 1).tags(&row), [("train/reward".into(), 1.0)]);
        assert_eq!(Aliases::new(Names::Verl, "x", 1).tags(&row)[0], ("critic/rewards/mean".into(), 1.0));
    }

    #[test]
    fn placeholders_stand_for_one_name_or_more() {
        let metric = METRICS.iter().find(|metric| metric.name == "rewards/{component}/mean").unwrap();
        assert!(metric.is_called("rewards/plan/mean") && metric.is_called("rewards/a/b/mean"));
        assert!(!metric.is_called("rewards//mean") && !metric.is_called("rewards/plan/std"));
        let called = |name: &str| -> Vec<&str> {
            METRICS.iter().filter(|metric| metric.is_called(name)).map(|metric| metric.name).collect()
        };
        assert_eq!(called("eval/flags_by_label/a/b/c"), ["eval/flags_by_label/{label}/{value}/{flag}"]);
        assert_eq!(called("eval/pass@8"), ["eval/pass@{n}"]);
        for further in ["eval/retention/success", "eval/retention/success/low", "eval/a-b/by_label/x/y"] {
            assert_eq!(called(further), [FURTHER], "{further}");
        }
        for unknown in ["eval/retention", "eval/retention/succes", "eval/success/reward", "eval/pass@"] {
            assert_eq!(called(unknown), [""; 0], "{unknown}");
        }
    }

    #[test]
    fn the_page_on_metrics_repeats_the_table() {
        let cell = |name: Option<&str>| name.map_or_else(String::new, |name| format!("`{name}`"));
        let mut expected =
            vec!["| name | unit | meaning | verl | prime-rl |".into(), "|---|---|---|---|---|".into()];
        expected.extend(METRICS.iter().map(|metric| {
            let Metric { name, unit, meaning, verl, prime_rl } = metric;
            format!("| `{name}` | {unit} | {meaning} | {} | {} |", cell(*verl), cell(*prime_rl))
        }));
        expected.extend(["".into(), "| derived | unit | meaning | of |".into(), "|---|---|---|---|".into()]);
        expected.extend(DERIVED.iter().map(|derived| {
            let Derived { names, name, unit, meaning, .. } = derived;
            let of = serde_json::to_value(names).unwrap();
            format!("| `{name}` | {unit} | {meaning} | {} |", of.as_str().unwrap())
        }));
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        let page = std::fs::read_to_string(path).unwrap();
        let table =
            page.split_once("<!-- table -->\n").and_then(|(_, rest)| rest.split_once("\n<!-- end -->"));
        let expected = expected.join("\n");
        assert!(
            table.is_some_and(|(table, _)| table == expected),
            "between <!-- table --> and <!-- end --> docs/metrics.md must have:\n{expected}\n"
        );
    }
}
