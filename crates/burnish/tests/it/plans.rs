//! Rollout plans in whole runs: what is sampled, what is trained on, and that a plan without effect changes nothing.

use std::sync::Arc;

use crate::common::{CHAINS, Scratch, as_before, timeless_metrics};
use burnish_core::{Episode, Source, StopReason, Task, Told, Trace};
use burnish_model::Loading;
use burnish_rl::LossConfig;
use burnish_run::LoadedPolicy;
use burnish_rundir::journal::{EpisodeKind, EpisodeRow, Journal, StoredEpisode};
use burnish_train::adamw::{AdamwConfig, Moments};
use burnish_train::checkpoint::Checkpoint;
use burnish_train::{PassConfig, Sample, Trainer, TrainerConfig, accumulate, totals};
use serde_json::Value;

const GROUP: usize = 4;

/// Trains the policy that has seen chains with `overrides`, and returns the metrics without times.
fn run(scratch: &Scratch, name: &str, overrides: &[&str]) -> Vec<String> {
    let dir = format!("run.dir=runs/{name}");
    let fixed = [
        "policy.path=tiny/checkpoints/step_40",
        "reward.overlong_buffer.length=44",
        "train.max_steps=3",
        "loss.beta=0",
        &dir,
        CHAINS,
    ];
    scratch.burnish(&[&["train", "grpo.toml"], &fixed[..], overrides].concat()).succeeds();
    timeless_metrics(&scratch.path(&format!("runs/{name}/metrics.jsonl")))
}

fn stored(scratch: &Scratch, name: &str, step: u64, kind: EpisodeKind) -> Vec<StoredEpisode> {
    Journal::open(&scratch.path(&format!("runs/{name}/run.db"))).unwrap().episodes(step, kind).unwrap()
}

/// Number of an episode's tokens from a source.
fn tokens_of(episode: &Episode, source: Source) -> usize {
    let nodes = episode.traces.iter().flat_map(|trace| trace.nodes());
    nodes.flat_map(|node| &node.sources).filter(|&&of| of == source).count()
}

#[test]
fn a_plan_that_does_nothing_changes_no_bit() {
    let scratch = Scratch::with_policy_of_chains();
    let plain = run(&scratch, "plain", &[]);
    let weights = |name: &str| scratch.read(&format!("runs/{name}/checkpoints/step_3/model.safetensors"));
    for (name, overrides) in [
        ("lang", vec!["plan={plan=\"lang\", config={decay=\"off\"}}"]),
        ("skpo", vec!["plan={plan=\"skpo\", config={draft_tokens=0}}", "advantage.estimator=skpo"]),
        ("dgpo", vec!["plan={plan=\"dgpo\", config={reverse=false, cycle=false}}"]),
        ("heavyskill", vec!["plan={plan=\"heavyskill\", config={drafts=0}}"]),
        ("demonstrations", vec!["plan={plan=\"demonstrations\", config={count=0}}"]),
        (
            "vl_rethinker",
            vec![
                "plan={plan=\"vl_rethinker\", config={share=0.0}}",
                "replay={replay=\"ssr\", config={buffer=0.0}}",
            ],
        ),
    ] {
        let with = run(&scratch, name, &overrides);
        assert!(weights(name) == weights("plain"), "{name}");
        let samples = |name: &str| -> Vec<Episode> {
            let steps = 1..=3;
            let all = steps.flat_map(|step| stored(&scratch, name, step, EpisodeKind::Train));
            all.map(|stored| stored.episode).collect()
        };
        assert!(samples(name) == samples("plain"), "{name}");
        assert_eq!(with.len(), plain.len());
    }
}

#[test]
fn a_right_answer_that_nobody_sampled_joins_a_group_that_fails_and_is_learned_from() {
    let scratch = Scratch::with_policy_of_chains();
    let plan = |config: &str| format!("plan={{plan=\"demonstrations\", config={config}}}");
    let always = plan("{successes_max=4}");
    let metrics = run(&scratch, "always", &[&always, "checkpoint.every=1"]);
    let last: Value =
        serde_json::from_str(metrics.iter().rfind(|row| row.contains("plan/")).unwrap()).unwrap();
    assert_eq!(last["plan/demonstrated"], 1.0);
    // What was given is as likely to the loss as the policy makes it before the first update.
    assert!(last["sampling/sampling_logp_difference/max"].as_f64().unwrap() < 1e-3, "{last}");
    for step in 1..=3 {
        let group = stored(&scratch, "always", step, EpisodeKind::Train);
        for members in group.chunks(GROUP) {
            let (sampled, given) = members.split_at(GROUP - 1);
            let given = &given[0].episode;
            assert!(given.verdict.success && tokens_of(given, Source::Policy) == 0);
            assert!(tokens_of(given, Source::Demonstration) > 0);
            assert!(sampled.iter().all(|own| tokens_of(&own.episode, Source::Policy) > 0));
            let rollouts: Vec<usize> = members.iter().map(|own| own.episode.rollout).collect();
            assert_eq!(rollouts, (0..GROUP).collect::<Vec<_>>());
            // Its advantage is that of its reward among the others of the group.
            let sum: f64 = members.iter().filter_map(|own| own.advantage).sum();
            assert!(sum.abs() < 1e-6, "{sum}");
        }
    }
    // The policy's own successes alone are in the numbers of the run.
    let successes = |step| {
        let all = stored(&scratch, "always", step, EpisodeKind::Train);
        let own = all.iter().filter(|own| tokens_of(&own.episode, Source::Policy) > 0);
        own.filter(|own| own.episode.verdict.success).count()
    };
    assert_eq!(last["success"].as_f64().unwrap(), successes(3) as f64 / (4.0 * (GROUP - 1) as f64));

    // Without weight nothing is learned from it; what is given by a resumed run is the same.
    let weights = |name: &str| scratch.read(&format!("runs/{name}/checkpoints/step_3/model.safetensors"));
    run(&scratch, "idle", &[&plan("{successes_max=4, weight=0.0}")]);
    assert!(weights("idle") != weights("always"));
    let whole = weights("always");
    std::fs::remove_dir_all(scratch.path("runs/always/checkpoints/step_3")).unwrap();
    scratch.burnish(&["train", "--resume", "runs/always"]).succeeds();
    assert!(weights("always") == whole);
    // Where some succeed, the policy samples all.
    let gated = run(&scratch, "gated", &[&plan("{successes_max=0}")]);
    assert_eq!(gated.len(), metrics.len());
    for step in 1..=3 {
        for members in stored(&scratch, "gated", step, EpisodeKind::Train).chunks(GROUP) {
            let first = members[..GROUP - 1].iter().any(|own| own.episode.verdict.success);
            let given = tokens_of(&members[GROUP - 1].episode, Source::Demonstration) > 0;
            assert!(first != given, "step {step}");
        }
    }
    // Episodes that were sampled can be played again; the given ones have no record.
    let said = scratch.burnish(&["rollout", "--from", "runs/always", "--step", "1", "--replay"]).succeeds();
    assert!(said.stdout().contains("12 episodes"));
}

#[test]
fn a_group_deliberates_over_drafts_and_only_its_answers_are_kept() {
    let scratch = Scratch::with_policy_of_chains();
    let config = "{drafts=3, draft_tokens=12, template=\"{prompt}~{drafts}~{prompt}\", draft=\"({draft})\"}";
    let plan = format!("plan={{plan=\"heavyskill\", config={config}}}");
    let fixed = [&*plan, "eval.every=1", "eval.draft=true", "eval.temperature=1.0"];
    let metrics = run(&scratch, "heavyskill", &fixed);
    assert!(
        metrics.iter().any(|line| line.contains("drafts/success") && line.contains("drafts/mean_length"))
    );
    for step in 1..=3 {
        let episodes = stored(&scratch, "heavyskill", step, EpisodeKind::Train);
        for group in episodes.chunks(GROUP) {
            let read = |stored: &StoredEpisode| -> String {
                let nodes = stored.episode.traces[0].nodes().iter();
                nodes.filter(|node| node.sampled.is_none()).map(|node| &*node.text).collect()
            };
            // One prompt for the group, with drafts.
            assert!(group.iter().all(|stored| read(stored) == read(&group[0])));
            let prompt = read(&group[0]);
            let shown = prompt.split('~').nth(1).unwrap();
            assert!(shown.starts_with('(') && shown.ends_with(')'), "{prompt}");
            assert!(group.iter().all(|stored| stored.episode.traces.len() == 1));
            // Nothing that was shown is trained on: it is the user's words.
            let of_policy = |stored: &StoredEpisode| tokens_of(&stored.episode, Source::Policy);
            assert!(group.iter().all(|stored| of_policy(stored) > 0));
        }
        assert_eq!(episodes.len() % GROUP, 0);
    }
    // An evaluation counts the drafts' tokens for the answer that read them.
    let held_out = stored(&scratch, "heavyskill", 3, EpisodeKind::Eval);
    assert!(held_out.iter().all(|stored| stored.episode.traces.len() == 4));
    // The same run again is the same, to the bit.
    assert_eq!(run(&scratch, "again", &fixed), metrics);
    let refused = |config: &str, part: &str| {
        let plan = format!("plan={{plan=\"heavyskill\", config={config}}}");
        let arguments = ["train", "grpo.toml", "policy.path=tiny/checkpoints/step_40", CHAINS, &plan];
        scratch.burnish(&arguments).fails_with(&[part]);
    };
    refused("{drafts=999}", "plan.config.drafts");
    refused("{template=\"{prompt}\"}", "{drafts}");
    refused("{draft=\"x\"}", "{draft}");
}

/// Writes another text in place of the prompt that the first episode's record says was shown, and returns whether there
/// was one.
fn show_something_else(scratch: &Scratch, name: &str, step: u64, kind: &EpisodeKind) -> bool {
    let mut journal = Journal::open(&scratch.path(&format!("runs/{name}/run.db"))).unwrap();
    let mut kept = journal.episodes(step, kind.clone()).unwrap();
    let shown = kept[0].episode.record.contacts.iter_mut().find_map(|contact| match &mut contact.answer {
        Some(Told::Value(begun)) => begun.get_mut("messages").and_then(|messages| messages.get_mut(0)),
        _ => None,
    });
    let Some(message) = shown else { return false };
    message["content"] = Value::from(format!("{} 1", message["content"].as_str().unwrap()));
    let mut tasks: Vec<Task> = Vec::new();
    for stored in &kept {
        if !tasks.iter().any(|task| task.id == stored.task.id) {
            tasks.push(stored.task.clone());
        }
    }
    let rows: Vec<EpisodeRow<'_>> = kept
        .iter()
        .map(|StoredEpisode { task_index, episode, reward, advantage, .. }| EpisodeRow {
            task_index: *task_index,
            episode,
            reward: *reward,
            advantage: *advantage,
        })
        .collect();
    journal.truncate_after(step - 1).unwrap();
    journal.record_step(step, kind.clone(), &tasks, &rows).unwrap();
    true
}

#[test]
fn episodes_whose_prompts_show_drafts_are_played_again_on_their_records() {
    let scratch = Scratch::with_policy_of_chains();
    let heavyskill = "plan={plan=\"heavyskill\", config={drafts=3, draft_tokens=12, \
                      template=\"{prompt}~{drafts}~{prompt}\", draft=\"({draft})\"}}";
    let skpo = "plan={plan=\"skpo\", config={draft_tokens=5}}";
    for (name, plan, credit) in
        [("heavyskill", heavyskill, None), ("skpo", skpo, Some("advantage.estimator=skpo"))]
    {
        let fixed = [plan, "train.max_steps=2", "eval.every=1", "eval.draft=true", "eval.temperature=1.0"];
        run(&scratch, name, &[&fixed[..], credit.as_slice()].concat());
        let dir = format!("runs/{name}");
        let of = |kind: &EpisodeKind| {
            let eval: &[&str] = if *kind == EpisodeKind::Eval { &["--eval"] } else { &[] };
            scratch.burnish(&[&["rollout", "--from", &dir, "--step", "2", "--replay"], eval].concat())
        };
        for kind in [EpisodeKind::Train, EpisodeKind::Eval] {
            let episodes = stored(&scratch, name, 2, kind.clone());
            let again = of(&kind).succeeds().stdout();
            assert!(again.contains(&format!("{} episodes played again", episodes.len())), "{name}: {again}");
        }
        for kind in [EpisodeKind::Eval, EpisodeKind::Train] {
            std::fs::copy(scratch.path(&format!("{dir}/run.db")), scratch.path("kept.db")).unwrap();
            assert!(show_something_else(&scratch, name, 2, &kind), "{name}: no prompt is on record");
            of(&kind).fails_with(&["the record does not fit the episode", "something else was asked"]);
            std::fs::copy(scratch.path("kept.db"), scratch.path(&format!("{dir}/run.db"))).unwrap();
        }
    }
}

#[test]
fn hints_are_read_at_first_withdrawn_over_the_run_and_never_evaluated_or_trained_on() {
    let scratch = Scratch::with_policy_of_chains();
    run(&scratch, "lang", &["plan.plan=lang", "train.max_steps=4", "eval.every=1"]);
    let mut hinted = Vec::new();
    for step in 1..=4 {
        let episodes = stored(&scratch, "lang", step, EpisodeKind::Train);
        hinted.push(episodes.iter().map(|stored| tokens_of(&stored.episode, Source::Hint)).sum::<usize>());
        for StoredEpisode { episode, .. } in &episodes {
            for branch in episode.traces.iter().flat_map(|trace| trace.branches()) {
                let is_hint = branch.sources.iter().map(|source| *source == Source::Hint);
                assert!(is_hint.zip(&branch.sampled_mask).all(|(is_hint, sampled)| !(is_hint && *sampled)));
            }
            // The judged answer begins with the hint, which is the reasoning without the final answer.
            let hint: String = episode.traces[0]
                .nodes()
                .iter()
                .filter(|node| node.sources.first() == Some(&Source::Hint))
                .map(|node| node.text.as_str())
                .collect();
            assert!(episode.answers[0].content.starts_with(&hint) && !hint.contains('>'), "{hint}");
        }
        let evaluated = stored(&scratch, "lang", step, EpisodeKind::Eval);
        assert!(evaluated.iter().all(|stored| tokens_of(&stored.episode, Source::Hint) == 0));
        assert!(!evaluated.is_empty());
    }
    assert!(hinted[0] > 0 && hinted.is_sorted_by(|before, after| before >= after), "{hinted:?}");
    assert!(hinted[3] < hinted[0] / 2, "{hinted:?}");
}

/// Groups are switched off by what they do in a step, so the first step of a run has hints. For its second step to begin
/// where a run without a plan is then, it gets that run's weights, and its groups are switched off by hand.
#[test]
fn a_run_with_all_groups_of_languages_off_goes_on_as_grpo_to_the_bit() {
    let scratch = Scratch::with_policy_of_chains();
    let steps = ["train.max_steps=1", "checkpoint.every=1", "eval.tasks=0", "optimizer.schedule=constant"];
    run(&scratch, "grpo", &steps);
    run(&scratch, "off", &[&steps[..], &["plan={plan=\"lang\", config={decay=\"constant\"}}"]].concat());
    let hinted = |step: u64| {
        let episodes = stored(&scratch, "off", step, EpisodeKind::Train);
        episodes.iter().map(|stored| tokens_of(&stored.episode, Source::Hint)).sum::<usize>()
    };
    assert!(hinted(1) > 0, "a plan that never hints proves nothing");

    let file = |name: &str, step: u64, file: &str| format!("runs/{name}/checkpoints/step_{step}/{file}");
    // The earlier form, whose files can be exchanged.
    ["grpo", "off"].iter().for_each(|name| as_before(&scratch.path(&file(name, 1, ""))));
    for tensors in ["model.safetensors", "trainer.safetensors"] {
        scratch.write(&file("off", 1, tensors), scratch.read(&file("grpo", 1, tensors)));
    }
    let record = file("off", 1, "trainer.json");
    let mut saved: Value = serde_json::from_slice(&scratch.read(&record)).unwrap();
    let groups = saved["state"]["stage"]["plan"].as_object_mut().unwrap();
    assert!(!groups.is_empty());
    groups.values_mut().for_each(|known| known["is_off"] = true.into());
    scratch.write(&record, serde_json::to_vec(&saved).unwrap());

    for name in ["grpo", "off"] {
        scratch.burnish(&["train", "--resume", &format!("runs/{name}"), "train.max_steps=3"]).succeeds();
    }
    assert_eq!((hinted(2), hinted(3)), (0, 0));
    for step in [2, 3] {
        let of = |name: &str| -> Vec<_> {
            let episodes = stored(&scratch, name, step, EpisodeKind::Train).into_iter();
            episodes.map(|stored| (stored.episode, stored.reward, stored.advantage)).collect()
        };
        assert!(of("off") == of("grpo"), "step {step}");
    }
    for tensors in ["model.safetensors", "trainer/trainer.safetensors"] {
        let [off, grpo] = ["off", "grpo"].map(|name| scratch.read(&file(name, 3, tensors)));
        assert!(off == grpo, "{tensors}");
    }
}

/// Rows in four languages, with worked reasoning; three rows per language.
fn spoken_rows() -> String {
    let texts = [
        ("bn", "বই কয়টি?", "রিনার বই ছিল। তাই"),
        ("en", "How many books?", "She had some books. So"),
        ("sw", "Vitabu vingapi?", "Alikuwa na vitabu. Kwa hivyo"),
        ("zh", "有几本书？", "她有几本书。所以"),
    ];
    let row = |(at, (code, question, work)): (usize, (&str, &str, &str))| {
        let (a, b) = (at % 7 + 1, at % 5 + 2);
        let work = format!("{work} {a} + {b} = {}. #### {}", a + b, a + b);
        let question = format!("{question} {a} + {b}");
        serde_json::json!({"question": question, "answer": a + b, "language": code, "work": work}).to_string()
            + "\n"
    };
    texts.into_iter().cycle().take(12).enumerate().map(row).collect()
}

/// Two steps teach nothing; the test is whether the plan finds in rows all that it needs.
#[test]
fn rows_are_hinted_in_their_own_language_and_their_levels_are_told_apart() {
    let scratch = Scratch::with_policy_of_chains();
    scratch.write("rows.jsonl", spoken_rows());
    let env = "env={id=\"rows\", tasks=10, config={path=\"rows.jsonl\", columns={prompt=\"question\", answer=\"answer\"}, \
               verifier=\"number\", language_key=\"language\", reasoning_key=\"work\", rewards=[\"all\"]}}";
    let plan = "plan={plan=\"lang\", config={decay=\"linear\"}}";
    let fixed = [env, plan, "train.max_steps=2", "eval.tasks=2", "eval.every=1"];
    let metrics = run(&scratch, "rows", &[&fixed[..], &["rollout.tasks_per_step=10"]].concat());
    let mut hinted = Vec::new();
    for step in 1..=2 {
        let episodes = stored(&scratch, "rows", step, EpisodeKind::Train);
        let mut languages = std::collections::BTreeSet::new();
        for StoredEpisode { episode, task, .. } in &episodes {
            let nodes = episode.traces[0].nodes().iter();
            let is_hint = |source: Option<&Source>| source == Some(&Source::Hint);
            let hint: String =
                nodes.filter(|node| is_hint(node.sources.first())).map(|node| node.text.as_str()).collect();
            let work = task.truth["work"].as_str().unwrap().split("####").next().unwrap();
            assert!(work.starts_with(&hint), "{hint} of {work}");
            assert_eq!(hint == work, step == 1, "all of it at first");
            assert!(episode.answers[0].content.starts_with(&hint));
            assert_eq!(task.labels["language"], task.truth["language"].as_str().unwrap());
            let verdict = &episode.verdict;
            assert!(verdict.rewards.contains_key("all") && !verdict.rewards.contains_key("correct"));
            assert!(verdict.flags.contains_key("language"));
            languages.insert(task.labels["language"].clone());
        }
        assert_eq!(languages.len(), 4);
        hinted.push(episodes.iter().map(|stored| tokens_of(&stored.episode, Source::Hint)).sum::<usize>());
        let evaluated = stored(&scratch, "rows", step, EpisodeKind::Eval);
        assert!(evaluated.iter().all(|stored| tokens_of(&stored.episode, Source::Hint) == 0));
        assert!(!evaluated.is_empty());
    }
    assert!(0 < hinted[1] && hinted[1] < hinted[0], "{hinted:?}");
    for level in ["high", "mid", "low"] {
        assert!(
            metrics.iter().any(|line| line.contains(&format!("plan/useful/{level}"))),
            "{level}: {metrics:?}"
        );
    }
}

#[test]
fn a_draft_is_sampled_once_a_group_credited_by_itself_and_read_by_every_answer() {
    let scratch = Scratch::with_policy_of_chains();
    let template = "template=\"{prompt} {draft} {prompt}\"";
    for (name, config, is_shown) in [
        ("skip", format!("draft_tokens=5, {template}"), true),
        ("on", "draft_tokens=5, skip=false".into(), false),
    ] {
        let plan = format!("plan={{plan=\"skpo\", config={{{config}}}}}");
        run(
            &scratch,
            name,
            &[&plan, "advantage.estimator=skpo", "advantage.config.upstream_normalisation=identity"],
        );
        let episodes = stored(&scratch, name, 1, EpisodeKind::Train);
        let (answers, drafts) = episodes.split_at(4 * GROUP);
        assert_eq!(drafts.len(), 4);
        for (group, draft) in drafts.iter().enumerate() {
            let said = &draft.episode.answers[0].content;
            assert!((1..=5).contains(&draft.episode.sampled_tokens()));
            assert_eq!((draft.reward, draft.episode.rollout), (None, GROUP));
            let answers = &answers[group * GROUP..(group + 1) * GROUP];
            let rewards: Vec<f64> = answers.iter().map(|answer| answer.reward.unwrap()).collect();
            // Compared with the prior of one half: nothing was played before.
            let clamped = rewards.iter().map(|reward| reward.clamp(0.0, 1.0)).sum::<f64>() / GROUP as f64;
            assert!((draft.advantage.unwrap() - (clamped - 0.5)).abs() < 1e-12);
            for answer in answers {
                let trace = &answer.episode.traces[0];
                assert_eq!(trace.nodes()[0].text.contains(said.as_str()), is_shown || said.is_empty());
                assert_eq!(tokens_of(&answer.episode, Source::Hint) > 0, !is_shown && !said.is_empty());
                assert_eq!(
                    answer.episode.answers[0].content.starts_with(said.as_str()),
                    !is_shown || said.is_empty()
                );
                // The continuation of a draft has the draft's ids, not ids re-tokenised from its text.
                let hint: Vec<u32> = trace
                    .nodes()
                    .iter()
                    .filter(|node| node.sources.first() == Some(&Source::Hint))
                    .flat_map(|node| node.ids.clone())
                    .collect();
                let drafted =
                    draft.episode.traces[0].nodes().iter().find(|node| node.sampled.is_some()).unwrap();
                let is_ended = drafted.sampled.as_ref().unwrap().stop == StopReason::EndToken;
                let spliced = &drafted.ids[..drafted.ids.len() - usize::from(is_ended)];
                assert_eq!(hint, if is_shown { &[][..] } else { spliced });
            }
        }
    }
}

/// The traces of all drafts of two steps; in evaluations a draft is with the answer that read it.
fn drafted(scratch: &Scratch, name: &str) -> Vec<Trace> {
    let mut drafts = Vec::new();
    for step in [1, 2] {
        let trained = stored(scratch, name, step, EpisodeKind::Train).into_iter();
        let upstream = trained.filter(|stored| stored.episode.rollout == GROUP);
        drafts.extend(upstream.map(|mut draft| draft.episode.traces.remove(0)));
        let evaluated = stored(scratch, name, step, EpisodeKind::Eval).into_iter();
        drafts.extend(evaluated.map(|mut stored| stored.episode.traces.remove(1)));
    }
    drafts
}

#[test]
fn a_draft_has_no_more_tokens_than_it_may_have_and_no_more_than_an_answer_has() {
    const HOUSEHOLD: &str = "env={id=\"household\", tasks=40}";
    let scratch = Scratch::with_policy_of_chains();
    for (env, draft_tokens, tokens_max) in
        [(CHAINS, 1, 8), (CHAINS, 4, 8), (CHAINS, 999, 8), (HOUSEHOLD, 20, 24)]
    {
        let plan = format!("plan={{plan=\"skpo\", config={{draft_tokens={draft_tokens}}}}}");
        let answers = format!("rollout.tokens_max={tokens_max}");
        let name = format!("{draft_tokens}");
        let fixed = ["rollout.turns_max=3", "reward.overlong_buffer.length=0", "advantage.estimator=skpo"];
        let more = [&*plan, &answers, "train.max_steps=2", "eval.every=1", "eval.draft=true", env];
        run(&scratch, &name, &[&fixed[..], &more].concat());
        let drafts = drafted(&scratch, &name);
        assert_eq!(drafts.len(), 2 * (4 + 8), "a draft for each task");
        let lengths: Vec<usize> = drafts.iter().map(Trace::sampled_tokens).collect();
        assert_eq!(lengths.iter().max(), Some(&draft_tokens.min(tokens_max)), "{env}: {lengths:?}");
        // Where an episode has several answers, a draft is one of them, even if it ended before its bound.
        let turns = |draft: &Trace| -> Vec<StopReason> {
            draft.nodes().iter().filter_map(|node| node.sampled.as_ref()).map(|own| own.stop).collect()
        };
        assert!(drafts.iter().all(|draft| turns(draft).len() == 1), "{env}");
        assert!(
            draft_tokens == 1 || drafts.iter().any(|draft| turns(draft) == [StopReason::EndToken]),
            "{env}"
        );
        let trained = stored(&scratch, &name, 1, EpisodeKind::Train);
        let answers = trained.iter().filter(|stored| stored.episode.rollout < GROUP);
        let longest = answers.map(|stored| stored.episode.sampled_tokens()).max();
        assert!(longest >= Some(tokens_max), "answers are not bound by it: {longest:?}");
    }
}

#[test]
fn drafts_are_measured_every_so_many_steps_and_nothing_else_changes() {
    let scratch = Scratch::with_policy_of_chains();
    for (name, config) in [("skip", "draft_tokens=5"), ("on", "draft_tokens=5, skip=false")] {
        let plan = format!("plan={{plan=\"skpo\", config={{{config}}}}}");
        let skpo = |settings: &str| format!("advantage={{estimator=\"skpo\", config={{{settings}}}}}");
        let bare = ["reward.overlong_buffer.length=0", &*plan, "eval.tasks=0"];
        let of = |kind: &str, settings: &str| {
            let rows = run(&scratch, &format!("{name}-{kind}"), &[&bare[..], &[&skpo(settings)]].concat());
            rows.iter().map(|row| serde_json::from_str(row).unwrap()).collect::<Vec<Value>>()
        };
        let (plain, measured) = (of("plain", ""), of("measured", "measure_every=2, measure_answers=16"));
        for (step, (plain, measured)) in (1..).zip(plain.iter().zip(&measured)) {
            let mut without = measured.clone();
            let row = without.as_object_mut().unwrap();
            let told: Vec<(String, f64)> = row
                .iter()
                .filter(|(metric, _)| metric.starts_with("upstream/"))
                .map(|(metric, value)| (metric.clone(), value.as_f64().unwrap()))
                .collect();
            row.retain(|metric, _| !metric.starts_with("upstream/"));
            assert_eq!(&without, plain, "{name}, step {step}");
            // The share that the task explains is an estimate from few drafts, so it may be beyond 0 and 1.
            assert_eq!(!told.is_empty(), step == 2, "{told:?}");
            let shares = told.iter().filter(|(metric, _)| metric != "upstream/from_task");
            assert!(shares.clone().all(|(_, share)| (0.0..=1.0).contains(share)), "{told:?}");
        }
        let weights =
            |kind: &str| scratch.read(&format!("runs/{name}-{kind}/checkpoints/step_3/model.safetensors"));
        assert!(weights("plain") == weights("measured"), "{name}");
    }
    let train = ["train", "grpo.toml", "--dry-run", "policy.path=tiny/checkpoints/step_40", CHAINS];
    let buffered =
        ["advantage.estimator=skpo", "advantage.config.measure_every=2", "reward.overlong_buffer.length=8"];
    scratch.burnish(&[&train[..], &buffered].concat()).fails_with(&["reward.overlong_buffer", "skpo"]);
}

/// Adam's first moment after its first update is a tenth of the gradient.
fn gradient_of_first_update(scratch: &Scratch, name: &str) -> Vec<f32> {
    let checkpoint = Checkpoint::open(&scratch.path(&format!("runs/{name}/checkpoints/step_1"))).unwrap();
    let mut model = LoadedPolicy::load(checkpoint.path(), &Loading::default()).unwrap();
    let model = Arc::make_mut(&mut model.model);
    let adamw = AdamwConfig::default();
    let mut trainer =
        Trainer::new(model, TrainerConfig { adamw, grad_norm_max: None, pass: PassConfig::new(8192) });
    checkpoint.restore(model, &mut trainer).unwrap();
    assert_eq!(trainer.updates(), 1);
    let Moments::F32([moment, _]) = trainer.adamw().moments() else { panic!("moments in f32") };
    let moment = moment.to_host().unwrap();
    moment.iter().map(|value| value / (1.0 - adamw.beta1) as f32).collect()
}

/// What a trace of one answer teaches if the tokens of the answer have this advantage, and those before it none.
fn lesson(trace: &Trace, advantage: f64) -> Sample {
    let branch = trace.branches().remove(0);
    let answer = trace.nodes().last().unwrap();
    let read = branch.ids.len() - answer.ids.len();
    Sample {
        loss_mask: (0..branch.ids.len()).map(|at| at >= read).collect(),
        advantages: vec![advantage as f32; branch.ids.len()],
        ids: branch.ids,
        model_logprobs: branch.model_logprobs,
        sampled_logprobs: branch.sampled_logprobs,
        temperatures: branch.temperatures,
        ..Sample::default()
    }
}

/// With `u` the draft of a task `x`, and `y` an answer: gradient goes to `u` after `x`, by what the draft is worth, and
/// to `y` after `x` and `u`, by what the answer is worth. The copy of `u` that an answer reads gets none.
#[test]
fn a_draft_learns_from_what_follows_an_answer_from_its_siblings_and_a_copy_of_a_draft_from_nothing() {
    let scratch = Scratch::with_policy_of_chains();
    let start = LoadedPolicy::load(&scratch.path("tiny/checkpoints/step_40"), &Loading::default()).unwrap();
    let gradient = |samples: &[Sample]| {
        let (objective, totals) =
            (LossConfig::default().build().unwrap(), totals(samples, samples, 1, 48, 0));
        let mut found = start.model.params.zeros_like();
        let pass = PassConfig::new(8192);
        accumulate(&start.model, samples, &*objective, &totals, pass, &mut found).unwrap();
        found
    };
    for (name, config) in [("skip", "draft_tokens=5"), ("on", "draft_tokens=5, skip=false")] {
        let plan = format!("plan={{plan=\"skpo\", config={{{config}}}}}");
        let credit = ["advantage.estimator=skpo", "advantage.config.upstream_normalisation=identity"];
        let once = ["train.epochs=1", "train.minibatches=1", "train.max_steps=1"];
        let more = [&*plan, "optimizer.max_grad_norm=0", "eval.tasks=0"];
        run(&scratch, name, &[&more[..], &credit, &once].concat());
        let episodes = stored(&scratch, name, 1, EpisodeKind::Train);
        let (answers, drafts) = episodes.split_at(4 * GROUP);
        let mut lessons = Vec::new();
        for (answers, draft) in answers.chunks(GROUP).zip(drafts) {
            let rewards: Vec<f64> = answers.iter().map(|answer| answer.reward.unwrap()).collect();
            let mean = |rewards: &[f64]| rewards.iter().sum::<f64>() / rewards.len() as f64;
            let from_mean: Vec<f64> = rewards.iter().map(|reward| reward - mean(&rewards)).collect();
            let squares: f64 = from_mean.iter().map(|distance| distance * distance).sum();
            let std = (squares / (GROUP - 1) as f64).sqrt();
            for (answer, distance) in answers.iter().zip(from_mean) {
                lessons.push(lesson(&answer.episode.traces[0], distance / (std + 1e-4)));
            }
            // Nothing was played before, so the draft is compared with the prior of one half.
            let clamped: Vec<f64> = rewards.iter().map(|reward| reward.clamp(0.0, 1.0)).collect();
            lessons.push(lesson(&draft.episode.traces[0], mean(&clamped) - 0.5));
        }
        let found = gradient_of_first_update(&scratch, name);
        let apart = |samples: &[Sample]| {
            let expected = gradient(samples);
            let squares = |values: &mut dyn Iterator<Item = f32>| values.map(|own| own * own).sum::<f32>();
            let distance = squares(&mut expected.iter().zip(&found).map(|(own, found)| own - found));
            (distance / squares(&mut expected.iter().copied())).sqrt()
        };
        assert!(apart(&lessons) < 1e-5, "{name}: {}", apart(&lessons));
        // Both parts are felt: without one of them, the gradient is another.
        for is_draft in [true, false] {
            let mut without = lessons.clone();
            let group = without.chunks_mut(GROUP + 1);
            let (answers, drafts): (Vec<_>, Vec<_>) = group.map(|group| group.split_at_mut(GROUP)).unzip();
            let silent = if is_draft { drafts } else { answers };
            silent.into_iter().flatten().for_each(|lesson| lesson.advantages.fill(0.0));
            assert!(apart(&without) > 0.03, "{name}, {is_draft}: {}", apart(&without));
        }
    }
}

#[test]
fn a_task_is_played_in_both_directions_and_both_are_one_group() {
    let scratch = Scratch::with_policy_of_chains();
    // One step and small numbers, so that some answers are right. The reference is needed.
    let easy = "env={id=\"chains\", tasks=40, config={steps={min=1,max=1}, values={min=1,max=3}}}";
    let fixed = [easy, "eval.tasks=0", "reward.overlong_buffer.length=0", "train.max_steps=2"];
    let loss = "loss={objective=\"dgpo\", config={score=\"log_ratio\"}}";
    run(&scratch, "plain", &fixed);
    let metrics = run(&scratch, "both", &[&fixed[..], &["plan.plan=dgpo", loss]].concat());
    let plain = stored(&scratch, "plain", 1, EpisodeKind::Train);
    let both = stored(&scratch, "both", 1, EpisodeKind::Train);
    assert_eq!((plain.len(), both.len()), (4 * GROUP, 2 * 4 * GROUP));
    for (group, episodes) in both.chunks(2 * GROUP).enumerate() {
        let (forward, reverse) = episodes.split_at(GROUP);
        for (own, plain) in forward.iter().zip(&plain[group * GROUP..]) {
            assert_eq!((&own.task, own.task_index), (&plain.task, group));
            assert!(own.episode.traces == plain.episode.traces, "forward rollouts are those without a plan");
        }
        for own in reverse {
            assert_eq!(own.task_index, 4 + group);
            assert_eq!(own.task.labels["direction"], "reverse");
            assert_eq!(own.task, reverse[0].task);
        }
        let mut sum = 0.0;
        for StoredEpisode { episode, reward, advantage, .. } in episodes {
            let verdict = &episode.verdict;
            let coherent = verdict.success && verdict.flags["cycle"];
            assert_eq!(*reward, Some(f64::from(coherent)));
            assert!(verdict.rewards.keys().eq(["coherent"]));
            sum += advantage.unwrap();
        }
        assert!(sum.abs() < 1e-6, "they are compared with each other: {sum}");
    }
    let sampled: usize = both.iter().map(|stored| stored.episode.sampled_tokens()).sum();
    let first: serde_json::Value = serde_json::from_str(
        metrics.iter().find(|row| row.contains("plan/coherent")).map(String::as_str).unwrap(),
    )
    .unwrap();
    let metric = |name: &str| {
        let found = [&first[name], &first["values"][name]].into_iter().find_map(|value| value.as_f64());
        found.unwrap_or(f64::NAN)
    };
    let successes = both.iter().filter(|stored| stored.episode.verdict.success).count();
    // Follow-ups are sampled tokens too.
    assert_eq!(metric("tokens/sampled") > sampled as f64, successes > 0);
    assert_eq!(metric("episodes"), 32.0);
    assert_eq!(metric("plan/cycle_consistency").is_nan(), successes == 0);
    let coherent = both.iter().filter(|stored| stored.reward == Some(1.0)).count();
    assert!((metric("plan/coherent") - coherent as f64 / 32.0).abs() < 1e-12);
    assert!(metric("dgpo/opposed").is_finite());
}

#[test]
fn both_directions_are_refused_where_there_is_no_other() {
    let scratch = Scratch::with_policy_of_chains();
    let plan = "plan.plan=dgpo";
    let train = ["train", "grpo.toml", "policy.path=tiny/checkpoints/step_40", plan];
    scratch.burnish(&train).fails_with(&["plan", "mapf-frozenlake", "turned round"]);
    let greedy = [&train[..], &[CHAINS, "advantage.estimator=remax"]].concat();
    scratch.burnish(&greedy).fails_with(&["plan", "remax", "greedy answer"]);
}

#[test]
fn an_evaluation_says_which_right_answers_lead_back() {
    let scratch = Scratch::with_policy_of_chains();
    let easy = "env={id=\"chains\", tasks=40, config={steps={min=1,max=1}, values={min=1,max=3}}}";
    let more = "eval.extra=[{name=\"boards\", env=\"mapf-frozenlake\", config={agents=2, sizes={2={share=1.0, hole_ratio=0.0, \
                wait_ratio=0.0}}}, tasks=2}]";
    let fixed = [easy, "eval.tasks=6", "reward.overlong_buffer.length=0", "train.max_steps=1", more];
    let plain = run(&scratch, "plain", &fixed);
    let with = run(&scratch, "cycle", &[&fixed[..], &["eval.cycle=true"]].concat());
    let evaluated = stored(&scratch, "cycle", 1, EpisodeKind::Eval);
    let before = stored(&scratch, "plain", 1, EpisodeKind::Eval);
    for (own, plain) in evaluated.iter().zip(&before) {
        let closes = own.episode.verdict.flags["cycle"];
        assert!(own.episode.verdict.success || !closes);
        assert_eq!((own.reward, &own.episode.traces), (plain.reward, &plain.episode.traces));
    }
    assert!(
        stored(&scratch, "cycle", 1, EpisodeKind::Extra("boards".into())).iter().all(|stored| !stored
            .episode
            .verdict
            .flags
            .contains_key("cycle"))
    );
    // Nothing else changes.
    let bare = |lines: &[String]| -> Vec<serde_json::Value> {
        let row = |line: &String| {
            let mut row: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
            row.retain(|name, _| !name.ends_with("/cycle"));
            row.into()
        };
        lines.iter().map(row).collect()
    };
    assert!(with.iter().any(|line| line.contains("eval/flags/cycle")) && bare(&with) == bare(&plain));
    let train = ["train", "grpo.toml", "policy.path=tiny/checkpoints/step_40", "eval.cycle=true"];
    scratch.burnish(&train).fails_with(&["eval.cycle", "mapf-frozenlake", "`chains`"]);
}

#[test]
fn dense_credit_goes_on_from_every_cut_of_every_answer() {
    let scratch = Scratch::with_policy_of_chains();
    let easy = "env={id=\"chains\", tasks=40, config={steps={min=1,max=1}, values={min=1,max=3}}}";
    let fixed = [easy, "eval.tasks=0", "reward.overlong_buffer.length=0", "train.max_steps=2"];
    let with = |name: &str, advantage: &str| run(&scratch, name, &[&fixed[..], &[advantage]].concat());
    let metrics = with("dense", "advantage={estimator=\"vineppo\", config={every=4, rollouts=3}}");
    let first: serde_json::Value = serde_json::from_str(
        metrics.iter().find(|row| row.contains("continuations/answers")).map(String::as_str).unwrap(),
    )
    .unwrap();
    let played = stored(&scratch, "dense", 1, EpisodeKind::Train);
    let lengths: Vec<usize> = played.iter().map(|stored| stored.episode.sampled_tokens()).collect();
    let cuts: usize = lengths.iter().map(|tokens| (tokens - 1) / 4).sum();
    assert!(cuts > 0 && first["continuations/answers"].as_f64() == Some((3 * cuts) as f64), "{first}");
    // Each has at least one token.
    let sampled = lengths.iter().sum::<usize>() as f64;
    assert!(first["tokens/sampled"].as_f64().unwrap() >= sampled + (3 * cuts) as f64);
    // No answer is long enough to be cut.
    with("whole", "advantage={estimator=\"vineppo\", config={every=1000, whiten=\"none\"}}");
    with("grpo", "advantage={estimator=\"grpo\", config={scale=\"none\"}}");
    let weights = |name: &str| scratch.read(&format!("runs/{name}/checkpoints/step_2/model.safetensors"));
    assert!(weights("whole") == weights("grpo") && weights("whole") != weights("dense"));
}

#[test]
fn dense_credit_is_refused_where_an_answer_is_not_bare() {
    let scratch = Scratch::with_policy_of_chains();
    let train = [
        "train",
        "grpo.toml",
        "policy.path=tiny/checkpoints/step_40",
        "reward.overlong_buffer.length=0",
        "advantage.estimator=vineppo",
        CHAINS,
    ];
    for (key, value) in
        [("plan", "plan.plan=skpo"), ("reward.overlong_buffer", "reward.overlong_buffer.length=8")]
    {
        scratch.burnish(&[&train[..], &[value]].concat()).fails_with(&[key, "vineppo", "bare answers"]);
    }
}

#[test]
fn what_is_rethought_goes_on_with_the_ids_that_were_sampled_and_both_stretches_are_trained() {
    let scratch = Scratch::with_policy_of_chains();
    run(&scratch, "plain", &["train.max_steps=1"]);
    run(
        &scratch,
        "again",
        &["train.max_steps=1", "plan={plan=\"vl_rethinker\", config={share=1.0, trigger=\"\\n\"}}"],
    );
    let [parents, children] = ["plain", "again"].map(|name| stored(&scratch, name, 1, EpisodeKind::Train));
    assert_eq!(parents.len(), children.len());
    for (parent, child) in parents.iter().zip(&children) {
        assert_eq!((&parent.task, parent.episode.rollout), (&child.task, child.episode.rollout));
        let branch = |stored: &StoredEpisode| stored.episode.traces[0].branches().remove(0);
        let (own, whole) = (branch(parent), branch(child));
        let answer = parent.episode.traces[0].nodes().iter().find_map(|node| node.sampled.as_ref()).unwrap();
        let kept = own.ids.len() - usize::from(answer.stop == StopReason::EndToken);
        assert_eq!(whole.ids[..kept], own.ids[..kept]);
        assert_eq!(whole.sources[..kept], own.sources[..kept]);
        assert_eq!(whole.sampled_mask[..kept], own.sampled_mask[..kept]);
        assert_eq!(whole.model_logprobs[..kept], own.model_logprobs[..kept]);
        // Then the trigger, which nobody sampled, and the policy's continuation.
        assert_eq!(whole.sources[kept], Source::Hint);
        let behind = whole.sources[kept..].iter().position(|source| *source == Source::Policy);
        assert!(behind.is_some_and(|at| whole.sampled_mask[kept + at]));
        assert!(child.episode.answers[0].content.starts_with(&parent.episode.answers[0].content));
    }
}

#[test]
fn members_that_taught_something_are_trained_on_again_and_a_resumed_run_has_them() {
    let scratch = Scratch::with_policy_of_chains();
    let replay = "replay={replay=\"ssr\", config={buffer=1.0}}";
    // The learning rate must not depend on the length of the run.
    let every = ["checkpoint.every=2", "checkpoint.keep=3", "optimizer.schedule=constant"];
    let whole = run(&scratch, "whole", &[&[replay, "train.max_steps=4"][..], &every].concat());
    let number = |row: &str, name: &str| {
        let row: serde_json::Value = serde_json::from_str(row).unwrap();
        row[name].as_f64()
    };
    let rows: Vec<&String> = whole.iter().filter(|row| row.contains("replay/kept")).collect();
    assert_eq!(rows.len(), 4);
    let shares: Vec<f64> = rows.iter().map(|row| number(row, "replay/share").unwrap()).collect();
    // Nothing is kept before the first step; later steps have members that tie.
    assert_eq!(shares[0], 0.0);
    for (at, row) in rows.iter().enumerate().skip(1) {
        let (before, vanished) =
            (number(rows[at - 1], "replay/kept"), number(row, "replay/vanished").unwrap());
        let expected = if before == Some(0.0) { 0.0 } else { vanished };
        assert!((shares[at] - expected).abs() < 1e-12, "step {at}: {} for {expected}", shares[at]);
    }
    run(&scratch, "part", &[&[replay, "train.max_steps=2"][..], &every].concat());
    scratch.burnish(&["train", "--resume", "runs/part", "train.max_steps=4"]).succeeds();
    let weights = |name: &str| scratch.read(&format!("runs/{name}/checkpoints/step_4/model.safetensors"));
    assert!(weights("part") == weights("whole"));
    let refused =
        ["train", "grpo.toml", "policy.path=tiny/checkpoints/step_40", CHAINS, replay, "run.dir=no"];
    let pairs = [&refused[..], &["loss={objective=\"dpo\"}"]].concat();
    scratch.burnish(&pairs).fails_with(&["replay", "dpo", "members of one step"]);
}
