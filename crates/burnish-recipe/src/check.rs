//! What can be wrong with a recipe before anything starts.

use burnish_core::SamplingError;
use burnish_core::names::nearest;
use burnish_engine::check_grammar;
use burnish_env::redesign::knobs;
use burnish_env::{EnvError, Generator, Redesign};
use burnish_model::ModelConfig;
use burnish_rl::advantage::AdvantageConfig;
use burnish_rl::catalogue::{PREFERENCES, REWARD_MODELS};
use burnish_rl::fact::{COUNTERPART, DEMONSTRATED, HINT, Need, Per, TOKEN_REWARDS};
use burnish_rl::gate::GateConfig;
use burnish_rl::overlong::OVERLONG;
use burnish_rl::plan::RolloutPlan;
use burnish_rl::presets;
use burnish_rl::rules::{self, RULES};
use burnish_rl::selector::SelectionConfig;
use burnish_rl::{LossConfig, SettingError};
use burnish_systems::PlanConfig;
use burnish_tensor::Device;
use serde_json::Value;

use crate::split::Split;
use crate::supply::{SUPPLIES, Table};

use super::{
    Calibration, GOAL_INFORMATION, LATENT_BREVITY, LATENT_FORMAT, LATENT_USE, MakeKind, MakeSection, Method,
    REWARD_MODEL, Recipe, RecipeError, Source, StageUse, TeacherContext, TeacherSection, Use, asked, bounds,
    defaults, empty, engine, env_config, eval_strategy, evaluations, latent, make, memory, rounds,
    task_source, trainer, weights,
};

/// Checks ranges and combinations, and completes the environments' configurations with their defaults.
pub(super) fn check(recipe: &mut Recipe, source: &Source, what: Use) -> Result<(), RecipeError> {
    let ranges = Ranges { source };
    engine::correct(recipe, source);
    Device::check_name(&recipe.device)
        .map_err(|error| source.error("device", format!("can't be used: {error}")))?;
    let Recipe { train, rollout, optimizer, eval, checkpoint, .. } = &*recipe;
    for id in &recipe.allow {
        let known: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
        if !known.contains(&id.as_str()) {
            let problem = format!("names no rule: `{id}`; there are: {}", known.join(", "));
            return Err(source.refused("allow", problem));
        }
    }
    bounds::check(recipe, source)?;
    engine::check(recipe, source)?;
    latent::check(recipe, source)?;
    ranges.at_least_one("train.unscored_steps_max", train.unscored_steps_max as usize)?;
    check_length(recipe, &ranges, what)?;
    check_spans(recipe, source)?;
    ranges.at_least_one("train.epochs", train.epochs)?;
    ranges.at_least_one("train.minibatches", train.minibatches)?;
    ranges.at_least_one("train.sequences_per_step", train.sequences_per_step)?;
    ranges.at_least_one("train.micro_batch_tokens", train.micro_batch_tokens)?;
    task_source::check(recipe, source)?;
    env_config::check(recipe, source)?;
    make::check(recipe, source)?;
    rounds::check(recipe, source)?;
    ranges.at_least_one("eval.rollouts", eval.rollouts)?;
    ranges.at_least_one("checkpoint.keep", checkpoint.keep)?;
    ranges.at_least_one("data.decontaminate.ngram", recipe.data.decontaminate.ngram)?;
    ranges.holds("eval.temperature", eval.temperature >= 0.0, "must be 0 (greedy) or more")?;
    ranges.positive("optimizer.learning_rate", optimizer.learning_rate)?;
    ranges.positive("optimizer.epsilon", optimizer.epsilon)?;
    ranges.share_below_one("optimizer.beta1", optimizer.beta1)?;
    ranges.share_below_one("optimizer.beta2", optimizer.beta2)?;
    ranges.not_negative("optimizer.weight_decay", optimizer.weight_decay)?;
    ranges.holds("optimizer.final_share", (0.0..=1.0).contains(&optimizer.final_share), "must be 0 to 1")?;
    ranges.not_negative("optimizer.max_grad_norm", optimizer.max_grad_norm)?;
    // Evaluation plays episodes too, whatever the method.
    ranges.at_least_one("rollout.tokens_max", rollout.tokens_max)?;
    ranges.at_least_one("rollout.turns_max", rollout.turns_max)?;
    ranges.at_least_one("rollout.batch_max", rollout.batch_max)?;
    ranges.at_least_one("rollout.cache_mib", rollout.cache_mib.unwrap_or(1))?;
    let samples = rollout.temperature > 0.0 && rollout.temperature.is_finite();
    ranges.holds("rollout.temperature", samples, "must be above 0: the trainer divides by it too")?;
    ranges.sampling("rollout", recipe.rollout_sampling().check(), "")?;
    ranges.sampling("eval", recipe.eval_sampling().check(), "")?;
    for (table, grammar) in [("rollout", &rollout.grammar), ("eval", &eval.grammar)] {
        let problem = grammar.as_ref().and_then(|grammar| check_grammar(grammar).err());
        if let Some(problem) = problem {
            return Err(source.refused(&format!("{table}.grammar"), problem.to_string()));
        }
    }
    evaluations::check(&eval.extra, source)?;
    for (name, weight) in &recipe.reward.weights {
        ranges.holds(&format!("reward.weights.{name}"), weight.is_finite(), "must be a finite number")?;
    }
    match train.method {
        Method::Grpo => {
            ranges.at_least_one("rollout.tasks_per_step", rollout.tasks_per_step)?;
            ranges.at_least_one("rollout.group_size", rollout.group_size)?;
            if !rollout.allow_off_policy {
                let help = ", or set `rollout.allow_off_policy = true`; `loss.correction.behavior = \"sampled\"` and weights \
                            then make up for the difference";
                ranges.sampling("rollout", recipe.rollout_sampling().check_on_policy(), help)?;
            }
            let fits = train.minibatches <= rollout.tasks_per_step * rollout.group_size;
            ranges.holds("train.minibatches", fits, "must not exceed the number of episodes in a step")?;
            let within =
                |table, error: SettingError| source.refused(&format!("{table}.{}", error.key), error.problem);
            let loss = recipe.loss.clone().complete().map_err(|error| within("loss", error))?;
            let advantage =
                recipe.advantage.clone().complete().map_err(|error| within("advantage", error))?;
            let selection =
                recipe.selection.clone().complete().map_err(|error| within("selection", error))?;
            let plan = recipe.plan.clone().map(PlanConfig::complete).transpose();
            recipe.plan = plan.map_err(|error| within("plan", error))?;
            let rule = "is a loss of reward models: it needs `train.method = \"reward\"`";
            ranges.holds("loss.objective", loss.reward_model().is_none(), rule)?;
            let built = recipe.plan.as_ref().map(PlanConfig::build).transpose();
            let built = built.map_err(|error| within("plan", error))?;
            let built = built.as_deref();
            let has_drafts = built.is_some_and(|plan| plan.plays_evaluations());
            let rule = "needs a plan with drafts: `plan.plan = \"skpo\"`";
            ranges.holds("eval.draft", has_drafts || !recipe.eval.draft, rule)?;
            check_partners(recipe, source)?;
            check_supplied(recipe, &loss, &advantage, &selection, built, source)?;
            check_critic(recipe, &ranges)?;
            let rollout = &recipe.rollout;
            let members = built.map_or(rollout.group_size, |plan| plan.group_size(rollout.group_size));
            let episodes = rollout.tasks_per_step * members;
            loss.adaptive_kl.check_batch(episodes).map_err(|error| within("loss", error))?;
            let overlong = recipe.reward.overlong_buffer.check(rollout.tokens_max);
            overlong.map_err(|error| within("reward", error))?;
            let shipped = recipe.preset.as_deref().and_then(|id| presets::find(id).ok());
            let is_allowed = |id: &str| {
                recipe.allow.iter().any(|allowed| allowed == id)
                    || shipped.is_some_and(|preset| preset.allows.contains(&id))
            };
            if let Some(rule) =
                rules::broken(recipe.setup(&loss, &advantage)).find(|rule| !is_allowed(rule.id))
            {
                let mut error = source.error(rule.key, rule.reason.to_owned());
                let allow = format!("or `allow = [\"{}\"]` to permit it with a warning", rule.id);
                error.help = Some(format!("{}, {allow}", rule.nearest));
                return Err(error);
            }
            check_teacher(recipe, source)?;
            (recipe.loss, recipe.advantage, recipe.selection) = (loss, advantage, selection);
        }
        Method::Preference => {
            let within =
                |table, error: SettingError| source.refused(&format!("{table}.{}", error.key), error.problem);
            let known: Vec<&str> = PREFERENCES.iter().map(|entry| entry.card.id).collect();
            let rule = format!("must be a loss of preferences: {}", known.join(", "));
            ranges.holds("loss.objective", known.contains(&recipe.loss.objective.as_str()), &rule)?;
            recipe.loss = recipe.loss.clone().complete().map_err(|error| within("loss", error))?;
            let needs = recipe.loss.build().map_err(|error| source.error("loss", error.to_string()))?.needs();
            let rule = "must be 2 or more: with `baseline = \"mismatched\"`, each prompt is tried with another row's answer";
            ranges.holds(
                "train.sequences_per_step",
                !needs.mismatched || recipe.train.sequences_per_step > 1,
                rule,
            )?;
            ranges.holds("data.path", has_rows(recipe), "must name the rows to learn from")?;
            let is_bare = recipe.data.demonstrations.is_empty();
            ranges.holds("data.demonstrations", is_bare, "have no use: a demonstration is no preference")?;
        }
        Method::Reward => {
            let within =
                |table, error: SettingError| source.refused(&format!("{table}.{}", error.key), error.problem);
            if source.get("loss.objective").is_none() {
                recipe.loss.objective = REWARD_MODELS[0].card.id.to_owned();
            }
            let known: Vec<&str> = REWARD_MODELS.iter().map(|entry| entry.card.id).collect();
            let rule = format!("must be a loss of reward models: {}", known.join(", "));
            ranges.holds("loss.objective", known.contains(&recipe.loss.objective.as_str()), &rule)?;
            recipe.loss = recipe.loss.clone().complete().map_err(|error| within("loss", error))?;
            ranges.holds("data.path", has_rows(recipe), "must name the rows to learn from")?;
            let is_bare = recipe.data.demonstrations.is_empty();
            ranges.holds("data.demonstrations", is_bare, "have no use: a demonstration is no preference")?;
            let rule = "has no use: a reward model says nothing that an environment could play";
            ranges.holds("env", recipe.env.is_absent(), rule)?;
            let rule = "can't be trained as a reward model: leave `policy.lora` out";
            ranges.holds("policy.lora", recipe.policy.lora.is_none(), rule)?;
        }
        Method::None => {
            let is_bare = !has_rows(recipe) && recipe.data.demonstrations.is_empty();
            ranges.holds("data", is_bare, "has no use with `train.method = \"none\"`: nothing is learned")?;
            let rule = "has no use with `train.method = \"none\"`: nothing is learned";
            ranges.holds("policy.lora", recipe.policy.lora.is_none(), rule)?;
            ranges.holds("policy.new", recipe.policy.new.is_none(), rule)?;
            if recipe.make.is_some() {
                ranges.at_least_one("rollout.tasks_per_step", rollout.tasks_per_step)?;
                ranges.at_least_one("rollout.group_size", rollout.group_size)?;
                let selection = recipe.selection.clone().complete();
                let wrong =
                    |error: SettingError| source.refused(&format!("selection.{}", error.key), error.problem);
                let selection = selection.map_err(wrong)?;
                check_partners(recipe, source)?;
                recipe.selection = selection;
            } else {
                // The one step that brings the policy into the run.
                recipe.train.max_steps = 1;
            }
        }
        Method::Sft => {
            let has_data = has_rows(recipe) || !recipe.data.demonstrations.is_empty();
            ranges.holds(
                "data",
                has_data,
                "must give `data.path` or `data.demonstrations`: there is nothing to imitate",
            )?;
        }
    }
    let is_played = recipe.reward.model.is_none() || !recipe.env.is_absent();
    ranges.holds("reward.model", is_played, "has no use: nothing is played without `[env]`")?;
    if let Some(goal) = &recipe.reward.goal {
        ranges.holds(
            "reward.goal",
            !recipe.env.is_absent(),
            "has no use: nothing is played without `[env]`",
        )?;
        asked::check(goal.path.as_deref(), goal.endpoint.as_ref(), 1)
            .map_err(|(key, rule)| source.error(&format!("reward.goal.{key}"), rule))?;
    }
    check_rows(recipe, &ranges)?;
    make::complete(recipe, source)?;
    memory::check(recipe, source)?;
    eval_strategy::check(recipe, source)?;
    complete_gate(recipe, &ranges)?;
    complete_replay(recipe, &ranges)?;
    let is_made = recipe.weights.is_some() || rounds::gives(recipe, StageUse::Policy);
    let is_given = recipe.policy.path.is_some() || recipe.policy.from.is_some() || is_made;
    let has_start = is_given && recipe.policy.lora.is_none();
    let can_diverge = train_is_grpo(recipe) && has_start;
    ranges.holds(
        "metrics.weight_divergence",
        can_diverge || !recipe.metrics.weight_divergence,
        "needs `train.method = \"grpo\"` and a policy that is given and trained whole, without `policy.lora`",
    )?;
    ranges.holds(
        "metrics.teacher_agreement",
        (train_is_grpo(recipe) && recipe.teacher.is_some()) || !recipe.metrics.teacher_agreement,
        "needs `train.method = \"grpo\"` and a `[teacher]`",
    )?;
    check_policy(recipe, source, what)?;
    check_frozen(recipe, &ranges)?;
    trainer::check(recipe, source)?;
    complete_environments(recipe, source, what)
}

/// Refuses parts that need facts which nothing in the recipe supplies, and tables that supply facts which no part
/// needs.
fn check_supplied(
    recipe: &Recipe,
    loss: &LossConfig,
    advantage: &AdvantageConfig,
    selection: &SelectionConfig,
    plan: Option<&dyn RolloutPlan>,
    source: &Source,
) -> Result<(), RecipeError> {
    let estimator =
        advantage.build().map_err(|error| source.error("advantage.estimator", error.to_string()))?;
    let objective = loss.build().map_err(|error| source.error("loss", error.to_string()))?;
    let selector =
        selection.build().map_err(|error| source.error("selection.selector", error.to_string()))?;
    let gate = recipe.gate.as_ref().map(GateConfig::build).transpose();
    let gate = gate.map_err(|error| source.refused(&format!("gate.{}", error.key), error.problem))?;
    let gate_id = recipe.gate.as_ref().map_or("", |gate| gate.gate.as_str());
    let plan_id = recipe.plan.as_ref().map_or("", |plan| plan.plan.as_str());
    let mut of_loss = objective.needs().facts();
    of_loss.extend(Need::all(&objective.facts()));
    let asking = [
        ("advantage.estimator", advantage.estimator.as_str(), estimator.needs()),
        ("loss.objective", loss.objective.as_str(), of_loss),
        ("plan.plan", plan_id, plan.map(|plan| plan.needs()).unwrap_or_default()),
        ("selection.selector", selection.selector.as_str(), selector.needs()),
        ("gate.gate", gate_id, gate.map(|gate| gate.needs()).unwrap_or_default()),
    ];
    for supply in SUPPLIES {
        let wants = |needs: &[Need]| needs.iter().any(|need| supply.facts.contains(&need.fact));
        let asks = asking.iter().find(|(_, _, needs)| wants(needs));
        match (asks, &supply.table) {
            (Some((key, id, _)), Some(table)) if !(table.is_there)(recipe) => {
                let Table { key: table, makes, .. } = table;
                return Err(
                    source.error(key, format!("is `{id}`, which needs {makes}: add a table `[{table}]`"))
                );
            }
            (Some((_, id, _)), _) => {
                if let Some((key, why)) = (supply.clash)(recipe, plan) {
                    return Err(source.error(key, format!("can't be combined with `{id}`, {why}")));
                }
            }
            (None, Some(table)) if (table.is_there)(recipe) => {
                let id = asking.iter().find(|(key, ..)| *key == table.of).map_or("", |(_, id, _)| id);
                return Err(source.error(table.key, format!("has no use: `{id}` {}", table.unused)));
            }
            (None, _) => {}
        }
    }
    for (key, id, needs) in &asking {
        let supplied = |need: &Need| SUPPLIES.iter().any(|supply| supply.facts.contains(&need.fact));
        if let Some(need) = needs.iter().find(|need| !supplied(need)) {
            let (fact, about) = (need.fact.id, need.fact.about);
            return Err(source.error(
                key,
                format!("is `{id}`, which needs `{fact}` ({about}), and nothing supplies that"),
            ));
        }
    }
    if plan.is_some_and(|plan| plan.gives_answers()) {
        for (key, id, needs) in &asking {
            if let Some(need) = needs.iter().find(|need| need.fact.per == Per::Token) {
                let about = need.fact.about;
                let problem = format!(
                    "is `{id}`, which needs {about}; the answers that the plan `{plan_id}` gives have none: take one that \
                     compares rewards, as `grpo`, or leave `[plan]` out"
                );
                return Err(source.error(key, problem));
            }
        }
    }
    let rollouts = recipe.rollout.group_size;
    let members = plan.map_or(rollouts, |plan| plan.group_size(rollouts));
    if members < 2 && estimator.compares_within_groups() {
        let problem =
            format!("must be 2 or more: `{}` compares the episodes of a group", advantage.estimator);
        return Err(source.error("rollout.group_size", problem));
    }
    Ok(())
}

/// Checks the named spans of answers, and what refers to them.
fn check_spans(recipe: &Recipe, source: &Source) -> Result<(), RecipeError> {
    for (at, span) in recipe.spans.iter().enumerate() {
        span.check().map_err(|(key, rule)| source.error(&format!("spans[{at}].{key}"), rule.to_owned()))?;
        if recipe.spans[..at].iter().any(|other| other.name == span.name) {
            let problem = format!("`{}` is the name of another span: each has its own", span.name);
            return Err(source.error(&format!("spans[{at}].name"), problem));
        }
    }
    let objective = recipe.loss.build().ok();
    let terms = recipe.loss.terms.iter().enumerate();
    let of_terms = terms.map(|(at, term)| (format!("loss.terms[{at}].on"), term.on.clone()));
    let asked = objective.iter().flat_map(|own| own.spans()).map(|name| ("loss.objective".to_owned(), name));
    let named = std::iter::once(("loss.on".to_owned(), recipe.loss.on.clone())).chain(of_terms).chain(asked);
    let named: Vec<(String, String)> = named.filter(|(_, name)| !name.is_empty()).collect();
    let names: Vec<&str> = recipe.spans.iter().map(|span| span.name.as_str()).collect();
    if !train_is_grpo(recipe) && !recipe.loss.terms.is_empty() {
        return Err(source.error("loss.terms", "need `train.method = \"grpo\"`".to_owned()));
    }
    if let Some(fact) = objective.filter(|_| !train_is_grpo(recipe)).and_then(|own| own.facts().pop()) {
        let problem = format!("needs `{}` ({}), which rows do not have", fact.id, fact.about);
        return Err(source.error("loss.objective", problem));
    }
    for (key, on) in &named {
        if !train_is_grpo(recipe) {
            return Err(source.error(key, "needs `train.method = \"grpo\"`".to_owned()));
        }
        if recipe.latent.is_some() {
            let problem = "can't be combined with `[latent]`: latent steps have no text to find marks in";
            return Err(source.error(key, problem.to_owned()));
        }
        if names.contains(&on.as_str()) {
            continue;
        }
        let problem = match names.as_slice() {
            [] => "names a span: define it in `[[spans]]`, with `name`, `begin` and `end`".to_owned(),
            _ => format!("names no span; there are {}", names.join(", ")),
        };
        let help = nearest(on, names.iter().copied()).map(|name| format!("did you mean `{name}`?"));
        return Err(RecipeError { help, ..source.error(key, problem) });
    }
    // Verdicts may reward any of them.
    let by_token = recipe.advantage.build().is_ok_and(|own| own.needs().contains(&Need::of(&TOKEN_REWARDS)));
    if by_token && train_is_grpo(recipe) {
        return Ok(());
    }
    if let Some(unused) = names.iter().find(|name| named.iter().all(|(_, on)| on.as_str() != **name)) {
        let problem = format!(
            "hold `{unused}`, which has no use: set `loss.on = \"{unused}\"`, or `on` of a term of the loss, or take an \
             estimator that pays tokens what their spans earned (`gae`)"
        );
        return Err(source.error("spans", problem));
    }
    Ok(())
}

/// Checks the policies that take part beside the trained one.
fn check_partners(recipe: &Recipe, source: &Source) -> Result<(), RecipeError> {
    if let Some(user) = &recipe.user {
        user.check().map_err(|(key, rule)| source.error(&format!("user.{key}"), rule))?;
    }
    if let Some(judge) = &recipe.judge {
        judge.check().map_err(|(key, rule)| source.error(&format!("judge.{key}"), rule))?;
    }
    Ok(())
}

/// A teacher must know something that the policy does not.
fn check_teacher(recipe: &Recipe, source: &Source) -> Result<(), RecipeError> {
    match &recipe.teacher {
        Some(TeacherSection { path: Some(_), from: Some(_), .. }) => {
            Err(source.error("teacher.from", "excludes `teacher.path`: give one of them".into()))
        }
        Some(TeacherSection { path: None, from: None, context: TeacherContext::None }) => Err(source.error(
            "teacher",
            "is the policy itself with the policy's own prompt, from which nothing can be learnt: give `teacher.path` or \
             `teacher.from`, or a `teacher.context` that the policy does not read"
                .into(),
        )),
        _ => Ok(()),
    }
}

fn check_critic(recipe: &Recipe, ranges: &Ranges<'_>) -> Result<(), RecipeError> {
    let Some(critic) = &recipe.critic else { return Ok(()) };
    ranges.positive("critic.learning_rate", critic.learning_rate)?;
    ranges.not_negative("critic.clip_range", critic.clip_range)?;
    let is_whole = recipe.policy.lora.is_none() || critic.path.is_some();
    ranges.holds(
        "critic",
        is_whole,
        "needs `critic.path` beside `policy.lora`: it can't begin as a frozen base",
    )
}

fn train_is_grpo(recipe: &Recipe) -> bool {
    recipe.train.method == Method::Grpo
}

/// Completes the settings of the gate. Refuses a gate that can't work in this recipe.
fn complete_gate(recipe: &mut Recipe, ranges: &Ranges<'_>) -> Result<(), RecipeError> {
    let Some(gate) = &recipe.gate else { return Ok(()) };
    let rule = "needs `train.method = \"grpo\"`: imitation uses no batch twice";
    ranges.holds("gate", train_is_grpo(recipe), rule)?;
    let wrong = |error: SettingError| ranges.source.refused(&format!("gate.{}", error.key), error.problem);
    recipe.gate = Some(gate.clone().complete().map_err(wrong)?);
    Ok(())
}

/// Completes the settings of the replay. Refuses a replay that can't work in this recipe.
fn complete_replay(recipe: &mut Recipe, ranges: &Ranges<'_>) -> Result<(), RecipeError> {
    let Some(replay) = &recipe.replay else { return Ok(()) };
    let rule = "needs `train.method = \"grpo\"`: imitation has no members to keep";
    ranges.holds("replay", train_is_grpo(recipe), rule)?;
    let objective = recipe.loss.build().map_err(|error| ranges.source.error("loss", error.to_string()))?;
    let needs = objective.needs();
    if needs.groups || needs.pairs || needs.head.is_some() {
        let what = "which compares members of one step, or distributions that are not kept";
        let problem = format!("can't be combined with `{}`, {what}", recipe.loss.objective);
        return Err(ranges.source.error("replay", problem));
    }
    let wrong = |error: SettingError| ranges.source.refused(&format!("replay.{}", error.key), error.problem);
    recipe.replay = Some(replay.clone().complete().map_err(wrong)?);
    Ok(())
}

/// How long the run is, and what ends it before.
fn check_length(recipe: &Recipe, ranges: &Ranges<'_>, what: Use) -> Result<(), RecipeError> {
    let train = &recipe.train;
    match train.num_train_epochs {
        Some(epochs) => {
            let key = "train.num_train_epochs";
            let rule = "needs rows to pass over; where tasks are played, give `train.max_steps`";
            ranges.holds(key, !recipe.plays(), rule)?;
            ranges.positive(key, epochs)?;
            // A run writes down how many steps it found out.
            let is_free = train.max_steps == 0 || ranges.source.is_of_run();
            ranges.holds(key, is_free, "excludes `train.max_steps`: give one of them")?;
        }
        None if train.method == Method::None && recipe.make.is_none() => {
            let rule = "has no use with `train.method = \"none\"`: leave it out";
            ranges.holds("train.max_steps", train.max_steps <= 1, rule)?;
        }
        None if what == Use::Evaluation => {}
        None => {
            let rule = match (recipe.plays(), ranges.source.get("train.max_steps").is_some()) {
                (true, true) => "must be 1 or more",
                (true, false) => "is missing: how many steps the run has, 1 or more",
                (false, _) => "must be 1 or more; or give `train.num_train_epochs`",
            };
            ranges.holds("train.max_steps", train.max_steps >= 1, rule)?;
        }
    }
    if let Some(patience) = train.patience {
        ranges.at_least_one("train.patience", patience)?;
        let rule = "needs `checkpoint.best`, which says what is better";
        ranges.holds("train.patience", recipe.checkpoint.best.is_some(), rule)?;
    }
    if recipe.checkpoint.best.is_some() || train.patience.is_some() {
        let has_rows = !recipe.data.held_out.is_empty() || recipe.data.held_out_share > 0.0;
        let is_evaluated = has_rows || (recipe.eval.tasks > 0 && !recipe.env.is_absent());
        let rule = "needs something to evaluate: `data.held_out`, `data.held_out_share`, or `[env]` with `eval.tasks`";
        ranges.holds("checkpoint.best", is_evaluated, rule)?;
    }
    Ok(())
}

/// The keys of `[data]` about rows that are learned from.
fn check_rows(recipe: &Recipe, ranges: &Ranges<'_>) -> Result<(), RecipeError> {
    let data = &recipe.data;
    let is_given = [
        ("data.held_out", !data.held_out.is_empty()),
        ("data.held_out_share", data.held_out_share != 0.0),
        ("data.max_length", data.max_length.is_some()),
        ("data.packing", data.packing),
        ("data.shuffle", !data.shuffle),
        ("data.from", data.from.is_some()),
    ];
    if let Some((key, _)) = is_given.iter().find(|(_, is_given)| *is_given && train_is_grpo(recipe)) {
        return ranges.holds(
            key,
            false,
            "has no use with `train.method = \"grpo\"`, which learns from episodes",
        );
    }
    let share = data.held_out_share;
    ranges.holds("data.held_out_share", (0.0..1.0).contains(&share), "must be at least 0 and below 1")?;
    let has_rows = has_rows(recipe);
    ranges.holds(
        "data.held_out_share",
        has_rows || share == 0.0,
        "needs `data.path` or `data.from`, of whose rows it is a share",
    )?;
    ranges.holds(
        "data.from",
        data.from.is_none() || data.path.is_empty(),
        "excludes `data.path`: give one of them",
    )?;
    let is_one = data.held_out.is_empty() || share == 0.0;
    ranges.holds("data.held_out_share", is_one, "excludes `data.held_out`: give one of them")?;
    ranges.holds(
        "data.max_length",
        data.max_length != Some(0) && data.max_length != Some(1),
        "must be 2 or more",
    )?;
    if data.packing {
        ranges.holds("data.packing", recipe.train.method == Method::Sft, "needs `train.method = \"sft\"`")?;
        ranges.holds("data.packing", data.max_length.is_some(), "needs `data.max_length`, which it fills")?;
    }
    Ok(())
}

/// Are there rows of files to learn from, or will there be?
fn has_rows(recipe: &Recipe) -> bool {
    recipe.data.has_rows() || rounds::gives(recipe, StageUse::Rows)
}

fn check_policy(recipe: &Recipe, source: &Source, what: Use) -> Result<(), RecipeError> {
    let policy = &recipe.policy;
    if let Some(lora) = &policy.lora {
        lora.check().map_err(|error| source.error("policy.lora", format!("is wrong: {error}")))?;
        if policy.new.is_some() {
            return Err(source.error(
                "policy.lora",
                "needs `policy.path` or `policy.from`: a new policy has no base".into(),
            ));
        }
        if recipe.train.method == Method::Grpo && lora.dropout > 0.0 {
            let rule = "must be 0 with `train.method = \"grpo\"`: the trainer would compute other log-probs than the \
                        sampler, and the ratio of the first update would not be 1";
            return Err(source.error("policy.lora.dropout", rule.into()));
        }
    }
    if recipe.weights.is_some() {
        return weights::check(recipe, source);
    }
    if policy.from.is_some() {
        for (key, is_there) in [("policy.path", policy.path.is_some()), ("policy.new", policy.new.is_some())]
        {
            if is_there {
                return Err(source.error("policy.from", format!("excludes `{key}`: give one of them")));
            }
        }
        return Ok(());
    }
    if rounds::gives(recipe, StageUse::Policy) {
        return Ok(());
    }
    match (&policy.path, &policy.new) {
        // Whoever evaluates says which policy plays.
        (None, None) if what == Use::Evaluation => Ok(()),
        (None, None) => Err(source.error(
            "policy",
            "needs `policy.path`, a model directory, `policy.from`, a recipe that makes one, or `[weights]`"
                .into(),
        )),
        (Some(_), Some(_)) => {
            Err(source.error("policy.new", "excludes `policy.path`: give one of them".into()))
        }
        (None, Some(_)) if recipe.train.method != Method::Sft => Err(source.error(
            "policy.new",
            "works with `train.method = \"sft\"` only: a random policy never gets a reward".into(),
        )),
        (None, Some(_)) if recipe.data.demonstrations.is_empty() => Err(source
            .error("policy.new", "needs `data.demonstrations`: the tokenizer is trained on them".into())),
        (None, Some(new)) => ModelConfig::new(new)
            .and_then(|config| if new.masked { config.masked(0) } else { Ok(config) })
            .map(drop)
            .map_err(|error| source.error("policy.new", format!("makes no model: {error}"))),
        (Some(_), None) => Ok(()),
    }
}

/// Parameters can be frozen where a whole policy is trained that was given.
fn check_frozen(recipe: &Recipe, ranges: &Ranges<'_>) -> Result<(), RecipeError> {
    if recipe.train.freeze.is_empty() {
        return Ok(());
    }
    let critic_begins_as_policy = recipe.critic.as_ref().is_some_and(|critic| critic.path.is_none());
    for (is_free, rule) in [
        (
            recipe.policy.lora.is_none(),
            "has no use with `policy.lora`: an adapter's base is frozen; its maps are `policy.lora.target_modules`",
        ),
        (
            recipe.policy.new.is_none(),
            "has no use with `policy.new`: what was never trained would stay random",
        ),
        (
            recipe.train.method != Method::None,
            "has no use with `train.method = \"none\"`: nothing is learned",
        ),
        (
            recipe.train.method != Method::Reward,
            "can't be combined with `train.method = \"reward\"`: a reward model is trained whole",
        ),
        (
            !critic_begins_as_policy,
            "needs `critic.path`: a critic is trained whole, so it can't begin as this policy",
        ),
    ] {
        ranges.holds("train.freeze", is_free, rule)?;
    }
    Ok(())
}

fn complete_environments(recipe: &mut Recipe, source: &Source, what: Use) -> Result<(), RecipeError> {
    if recipe.env.is_absent() {
        return complete_without_environment(recipe, source, what);
    }
    check_split(recipe.env.split.as_ref(), "env", source)?;
    let id = recipe.env.id.clone();
    if env_config::is_made(recipe) {
        recipe.keep_evaluation();
    }
    let (mut components, mut extracts) = (Vec::new(), false);
    if what == Use::Training || recipe.eval.config.is_none() {
        let generator = complete(&id, "env.id", &mut recipe.env.config, "env.config", source)?;
        if what == Use::Training && train_is_grpo(recipe) {
            check_abilities(recipe, &*generator, source)?;
            check_keys(recipe, &*generator, source)?;
            let is_rewarded = generator.components().is_none_or(|own| !own.is_empty());
            if !is_rewarded && recipe.reward.model.is_none() {
                let problem = "gives no reward: name a verifier there, or a reward model, `[reward.model]`";
                return Err(source.error("env.config", problem.to_owned()));
            }
        }
        let rows = generator.rows().filter(|_| source.get("eval.tasks").is_none());
        if let Some(rows) = rows.filter(|_| recipe.eval.config.is_none()) {
            let trains = what == Use::Training && train_is_grpo(recipe);
            recipe.eval.tasks = defaults::tasks_held_out(rows.count(), trains);
        }
        components.push(generator.components());
        extracts |= generator.needs_extractor();
    }
    if let Some(config) = &mut recipe.eval.config {
        let generator = complete(&id, "env.id", config, "eval.config", source)?;
        components.push(generator.components());
        extracts |= generator.needs_extractor();
    }
    for (index, also) in recipe.eval.extra.iter_mut().enumerate() {
        let table = format!("eval.extra[{index}]");
        if also.env.is_some() {
            also.config.get_or_insert_with(empty);
        }
        let Some(config) = &mut also.config else { continue };
        let id = also.env.as_ref().unwrap_or(&id);
        let generator = complete(id, &format!("{table}.env"), config, &format!("{table}.config"), source)?;
        components.push(generator.components());
        extracts |= generator.needs_extractor();
    }
    check_extractor(recipe, extracts, source, what)?;
    if let Some(known) = components.into_iter().collect::<Option<Vec<_>>>() {
        check_weights(recipe, known.concat(), source)?;
    }
    if what == Use::Evaluation {
        return Ok(());
    }
    complete_calibration(recipe, source)?;
    complete_demonstrations(recipe, source)
}

/// Checks that there is an extractor of answers where an environment asks one, and only there.
fn check_extractor(recipe: &Recipe, is_asked: bool, source: &Source, what: Use) -> Result<(), RecipeError> {
    match &recipe.extractor {
        Some(extractor) => {
            extractor.check().map_err(|(key, rule)| source.error(&format!("extractor.{key}"), rule))?;
            // An evaluation may be only a part of what the recipe plays.
            if !is_asked && what == Use::Training {
                let problem = "has no use: no environment of the recipe has `reading = \"judge\"`";
                return Err(source.error("extractor", problem.to_owned()));
            }
            Ok(())
        }
        None if is_asked => {
            let problem = "is needed: with `reading = \"judge\"` a model copies answers that nothing marks out of responses; \
                           give `extractor.path`, a model directory, or `extractor.endpoint`";
            Err(source.error("extractor", problem.to_owned()))
        }
        None => Ok(()),
    }
}

/// A recipe that learns from rows, and plays nothing.
fn complete_without_environment(recipe: &mut Recipe, source: &Source, what: Use) -> Result<(), RecipeError> {
    if train_is_grpo(recipe) {
        let problem = "is needed: `env.id` says what is played (`burnish env list`)";
        return Err(source.error("env", problem.to_owned()));
    }
    for key in ["env", "eval.config", "eval.extra"] {
        if source.get(key).is_some() {
            return Err(source.error(key, "needs `env.id`, which says what is played".to_owned()));
        }
    }
    if source.get("eval.tasks").is_some_and(|tasks| tasks != 0) {
        let problem = "needs `env.id`, which says what is played; held-out rows are `data.held_out`";
        return Err(source.error("eval.tasks", problem.to_owned()));
    }
    recipe.eval.tasks = 0;
    if what == Use::Evaluation {
        return Ok(());
    }
    complete_calibration(recipe, source)?;
    complete_demonstrations(recipe, source)
}

/// The texts of a stream of surgery.
fn complete_calibration(recipe: &mut Recipe, source: &Source) -> Result<(), RecipeError> {
    let calibration = recipe.weights.as_mut().and_then(|weights| weights.calibration.as_mut());
    let Some(Calibration { env, config, .. }) = calibration else { return Ok(()) };
    let key = "weights.calibration.env";
    let generator = complete(env, key, config, "weights.calibration.config", source)?;
    match (generator.evaluation_only(), generator.demonstrations()) {
        (Some(reason), _) => Err(source.error(key, format!("can't be used: {reason}"))),
        (None, None) => {
            let problem = format!(
                "can't be used: `{env}` knows no answers to its tasks; take one that does, as `chains`"
            );
            Err(source.error(key, problem))
        }
        (None, Some(_)) => Ok(()),
    }
}

fn complete_demonstrations(recipe: &mut Recipe, source: &Source) -> Result<(), RecipeError> {
    for (index, set) in recipe.data.demonstrations.iter_mut().enumerate() {
        let table = format!("data.demonstrations[{index}]");
        check_split(set.split.as_ref(), &table, source)?;
        complete(
            &set.env.clone(),
            &format!("{table}.env"),
            &mut set.config,
            &format!("{table}.config"),
            source,
        )?;
    }
    Ok(())
}

/// Refuses what needs an ability that the environment lacks.
fn check_abilities(recipe: &Recipe, generator: &dyn Generator, source: &Source) -> Result<(), RecipeError> {
    let plan = recipe.plan.as_ref().and_then(|plan| plan.build().ok());
    let needs = plan.map(|plan| plan.needs()).unwrap_or_default();
    let abilities = [
        (&HINT, generator.hints().is_some()),
        (&DEMONSTRATED, generator.demonstrations().is_some()),
        (&COUNTERPART, generator.reversible().is_some()),
    ];
    for need in needs {
        if abilities.iter().any(|(fact, is_there)| **fact == *need.fact && !is_there) {
            let (id, about) = (generator.id(), need.fact.about);
            let problem = format!(
                "needs {about}, which the environment {id} does not have; leave `[plan]` out, or take an environment that \
                 has this, such as `chains`"
            );
            return Err(source.error("plan.plan", problem));
        }
    }
    if recipe.reward.goal.is_some() && generator.goals().is_none() {
        let problem = format!(
            "has no use: tasks of the environment {} have no goals that episodes find out, as those of `clarify` have",
            generator.id()
        );
        return Err(source.error("reward.goal", problem));
    }
    let Some(TeacherSection { context, .. }) = &recipe.teacher else { return Ok(()) };
    let has_context = match context {
        TeacherContext::None => true,
        TeacherContext::Skill => generator.skills().is_some(),
        TeacherContext::Demonstration => generator.demonstrations().is_some(),
        TeacherContext::Reasoning => generator.hints().is_some(),
    };
    if has_context {
        return Ok(());
    }
    let problem =
        format!("is something that the environment {} has for no task; take another context", generator.id());
    Err(source.error("teacher.context", problem))
}

/// Refuses a function that makes a configuration if it can't change the keys that the environment has. A program that has to be
/// asked for them is asked later.
fn check_keys(recipe: &Recipe, generator: &dyn Generator, source: &Source) -> Result<(), RecipeError> {
    let make = recipe.make.as_ref().filter(|make| make.kind == MakeKind::Config);
    let Some(maker) = make.and_then(MakeSection::maker) else { return Ok(()) };
    if generator.redesign().is_some_and(Redesign::asks_a_program) {
        return Ok(());
    }
    let wrong = |error: SettingError| source.refused(&format!("make.{}", error.key), error.problem);
    let maker = maker.build().map_err(wrong)?;
    let found = knobs(generator, maker.keys());
    let found = found.map_err(|error| source.error("make.config.keys", format!("can't be used: {error}")))?;
    let of_config =
        |error: SettingError| source.refused(&format!("make.config.{}", error.key), error.problem);
    maker.check_knobs(&found).map_err(of_config)
}

/// Refuses a weight for a component that no reward has.
fn check_weights(recipe: &Recipe, mut known: Vec<String>, source: &Source) -> Result<(), RecipeError> {
    let plan = recipe.plan.as_ref().and_then(|plan| plan.build().ok());
    let of_plan = plan.map(|plan| plan.components()).unwrap_or_default();
    let of_buffer = recipe.reward.overlong_buffer.is_on().then_some(&OVERLONG);
    let of_latent: &[&str] = match &recipe.latent {
        Some(latent) if latent.brevity.is_some() => &[LATENT_FORMAT, LATENT_USE, LATENT_BREVITY],
        Some(latent) if latent.rewards => &[LATENT_FORMAT, LATENT_USE],
        _ => &[],
    };
    let of_model = recipe.reward.model.as_ref().map(|_| &REWARD_MODEL);
    let of_goal = recipe.reward.goal.as_ref().map(|_| &GOAL_INFORMATION);
    let of_models = of_model.into_iter().chain(of_goal);
    known.extend(
        of_plan.iter().chain(of_buffer).chain(of_latent).chain(of_models).map(|name| (*name).to_owned()),
    );
    known.sort();
    known.dedup();
    let Some(unknown) = recipe.reward.weights.keys().find(|name| !known.contains(name)) else {
        return Ok(());
    };
    let meant = nearest(unknown, known.iter().map(String::as_str));
    let problem = format!("weighs a component that no reward has; there are: {}", known.join(", "));
    let help = meant.map(|name| format!("did you mean `reward.weights.{name}`?"));
    Err(RecipeError { help, ..source.error(&format!("reward.weights.{unknown}"), problem) })
}

fn check_split(split: Option<&Split>, table: &str, source: &Source) -> Result<(), RecipeError> {
    let checked = split.map_or(Ok(()), Split::check);
    checked.map_err(|(key, rule)| source.error(&format!("{table}.split.{key}"), rule))
}

/// Completes the configuration of an environment, and returns the generator of its tasks.
fn complete(
    id: &str,
    id_key: &str,
    config: &mut Value,
    config_key: &str,
    source: &Source,
) -> Result<Box<dyn Generator>, RecipeError> {
    let generator = burnish_env::build(id, config).map_err(|error| match error {
        EnvError::UnknownId { .. } => source.refused(id_key, format!("is wrong: {error}")),
        EnvError::Config { key, problem } => source.refused(&format!("{config_key}.{key}"), problem),
        other => source.error(config_key, format!("is refused by the environment: {other}")),
    })?;
    *config = generator.config();
    Ok(generator)
}

struct Ranges<'a> {
    source: &'a Source,
}

impl Ranges<'_> {
    fn holds(&self, key: &str, holds: bool, rule: &str) -> Result<(), RecipeError> {
        if holds {
            return Ok(());
        }
        let given = self.source.get(key).map(|value| format!(" (it is {value})")).unwrap_or_default();
        Err(self.source.error(key, format!("{rule}{given}")))
    }

    fn sampling(
        &self,
        section: &str,
        checked: Result<(), SamplingError>,
        help: &str,
    ) -> Result<(), RecipeError> {
        checked.or_else(|SamplingError { field, range }| {
            self.holds(&format!("{section}.{field}"), false, &format!("must be {range}{help}"))
        })
    }

    fn at_least_one(&self, key: &str, value: usize) -> Result<(), RecipeError> {
        self.holds(key, value >= 1, "must be 1 or more")
    }

    fn positive(&self, key: &str, value: f64) -> Result<(), RecipeError> {
        self.holds(key, value > 0.0 && value.is_finite(), "must be above 0")
    }

    fn not_negative(&self, key: &str, value: f64) -> Result<(), RecipeError> {
        self.holds(key, value >= 0.0 && value.is_finite(), "must be 0 or more")
    }

    fn share_below_one(&self, key: &str, value: f64) -> Result<(), RecipeError> {
        self.holds(key, (0.0..1.0).contains(&value), "must be at least 0 and below 1")
    }
}
