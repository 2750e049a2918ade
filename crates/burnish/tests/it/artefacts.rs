//! Artefacts: runs that make rows, pairs, tasks, strategies and notes for others, and rounds of them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use crate::common::{Scratch, TINY_GRPO, TINY_SFT, interrupt, timeless_metrics, wait_until};

const PLAY: &str = "method = \"none\"\nmax_steps = 3\n";

/// `sft.toml` makes a policy; `rows.toml`, `pairs.toml` and `tasks.toml` let it play and make something of its episodes;
/// `imitate.toml`, `prefer.toml` and `grpo.toml` learn from that.
fn scratch() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("sft.toml", TINY_SFT);
    let grpo = TINY_GRPO.replace("path = \"tiny/checkpoints/step_120\"", "from = \"sft.toml\"");
    let learned = "method = \"grpo\"\nmax_steps = 6\nepochs = 2\nminibatches = 2\n";
    assert!(grpo.contains(learned));
    let plays = grpo.replace(learned, PLAY).replace("beta = 0.01", "beta = 0.0");
    for (name, make) in [
        ("rows.toml", "kind = \"rows\"\nkeep = \"all\"\nmax_per_task = 2\n"),
        ("pairs.toml", "kind = \"pairs\"\n"),
        ("tasks.toml", "kind = \"tasks\"\n"),
    ] {
        // Enough for some answers that succeed.
        let more = plays.replace("group_size = 4", "group_size = 24\ntemperature = 0.7");
        let plays = if name == "rows.toml" { &plays } else { &more };
        scratch.write(name, format!("{plays}\n[make]\n{make}"));
    }
    let sft = TINY_SFT.split("[policy.new]").next().unwrap().to_owned();
    let learns = |from: &str, train: &str| {
        format!(
            "{sft}[policy]\nfrom = \"sft.toml\"\n[env]\nid = \"mapf-frozenlake\"\n[env.config]\nagents = 2\n\
             [env.config.sizes]\n2 = {{ share = 1.0, hole_ratio = 0.0, wait_ratio = 0.0 }}\n\
             [data]\nfrom = \"{from}\"\n[train]\n{train}\nsequences_per_step = 4\n[eval]\nevery = 0\n\
             tasks = 4\n[rollout]\ntokens_max = 48\n"
        )
    };
    scratch.write("imitate.toml", learns("rows.toml", "method = \"sft\"\nmax_steps = 4"));
    scratch.write(
        "prefer.toml",
        learns("pairs.toml", "method = \"preference\"\nmax_steps = 2") + "[loss]\nobjective = \"dpo\"\n",
    );
    let few = grpo.replace("tasks = 40", "tasks = { from = \"tasks.toml\" }");
    scratch.write("grpo.toml", few.replace("max_steps = 6", "max_steps = 2"));
    scratch
}

/// Run directories of stages called `name`, in the order of their hashes.
fn stages(scratch: &Scratch, name: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(scratch.path("runs/cache")).unwrap();
    let of_name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(name);
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(of_name).collect();
    found.sort();
    found
}

fn lines(path: &std::path::Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn weights(scratch: &Scratch, dir: &str, step: u64) -> Vec<u8> {
    scratch.read(&format!("{dir}/checkpoints/step_{step}/model.safetensors"))
}

#[test]
fn rows_are_made_of_episodes_and_imitated_and_kept_by_the_run() {
    let scratch = scratch();
    scratch.burnish(&["train", "imitate.toml", "run.dir=one"]).succeeds();
    let [stage] = &stages(&scratch, "rows-")[..] else { panic!("one stage") };
    let rows = lines(&stage.join("rows.jsonl"));
    let mut per_task = std::collections::BTreeMap::<String, Vec<f64>>::new();
    for row in &rows {
        let roles: Vec<&str> = row["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|message| message["role"].as_str().unwrap())
            .collect();
        assert_eq!(roles, ["user", "assistant"]);
        per_task.entry(row["task_id"].to_string()).or_default().push(row["reward"].as_f64().unwrap());
    }
    assert!(rows.len() > 6 && per_task.values().all(|rewards| rewards.len() <= 2), "{}", rows.len());
    let made: Value = serde_json::from_slice(&std::fs::read(stage.join("made.json")).unwrap()).unwrap();
    let hash = stage.file_name().unwrap().to_str().unwrap().strip_prefix("rows-").unwrap();
    assert_eq!((made["count"].as_u64(), made["recipe"].as_str()), (Some(rows.len() as u64), Some(hash)));
    assert_eq!((made["from"][0]["key"].as_str(), made["episodes"].as_u64()), (Some("policy.from"), Some(48)));

    // The episodes are on record, and were played without an update.
    scratch.burnish(&["rollout", "--from", stage.to_str().unwrap(), "--step", "2", "--replay"]).succeeds();
    let start = std::fs::read(stage.join("start/model.safetensors")).unwrap();
    assert!(start == std::fs::read(stage.join("checkpoints/step_3/model.safetensors")).unwrap());

    // Without the cache, the run goes on from its own copy.
    let whole = weights(&scratch, "one", 4);
    assert!(whole != scratch.read("one/start/model.safetensors"), "it has learnt");
    std::fs::remove_dir_all(scratch.path("runs/cache")).unwrap();
    std::fs::remove_dir_all(scratch.path("one/checkpoints/step_4")).unwrap();
    scratch.burnish(&["train", "--resume", "one"]).succeeds();
    assert!(weights(&scratch, "one", 4) == whole);
    assert!(!scratch.path("runs/cache").exists());
}

#[test]
fn pairs_and_tasks_are_made_of_episodes_too() {
    let scratch = scratch();
    scratch.burnish(&["train", "prefer.toml", "run.dir=preferred"]).succeeds();
    let pairs = lines(&stages(&scratch, "pairs-")[0].join("rows.jsonl"));
    assert!(!pairs.is_empty());
    for pair in &pairs {
        assert!(pair["chosen_reward"].as_f64() > pair["rejected_reward"].as_f64(), "{pair}");
        let texts =
            ["prompt", "chosen", "rejected"].map(|column| pair[column][0]["content"].as_str().unwrap());
        assert!(texts[1] != texts[2], "{pair}");
    }

    scratch.burnish(&["train", "grpo.toml", "run.dir=played"]).succeeds();
    let tasks = lines(&stages(&scratch, "tasks-")[0].join("tasks.jsonl"));
    let known: BTreeSet<&str> = tasks.iter().map(|task| task["id"].as_str().unwrap()).collect();
    assert_eq!(known.len(), tasks.len());
    let within = |least: f64, most: f64| {
        tasks.iter().filter(|task| (least..=most).contains(&task["success_rate"].as_f64().unwrap())).count()
    };
    let shown =
        scratch.burnish(&["rollout", "--from", "played", "--step", "1", "--json"]).succeeds().stdout();
    let mut played = 0;
    for line in shown.lines() {
        let episode: Value = serde_json::from_str(line).unwrap();
        assert!(known.contains(episode["task"].as_str().unwrap()), "{line}");
        played += 1;
    }
    assert_eq!(played, 16);

    // Only tasks within the bounds are kept.
    let bounds = "make.success_rate={min=0.1, max=0.9}";
    let said = scratch.burnish(&["train", "tasks.toml", "run.dir=some", bounds]);
    match within(0.1, 0.9) {
        0 => drop(said.fails_with(&["make: nothing is left", "outside the success rate"])),
        kept => {
            said.succeeds();
            assert_eq!(lines(&scratch.path("some/tasks.jsonl")).len(), kept);
        }
    }
    // A run that learns makes tasks of its episodes too.
    let learns = ["train", "grpo.toml", "run.dir=learned", "env.tasks=24", "make={kind=\"tasks\"}"];
    scratch.burnish(&learns).succeeds();
    assert_eq!(lines(&scratch.path("learned/tasks.jsonl")).len(), 8);
    scratch
        .burnish(&[&learns[..], &["run.dir=planned", "plan={plan=\"demonstrations\"}"]].concat())
        .fails_with(&["plan", "can't be combined with `[make]`"]);
    // A file of tasks of one's own.
    let mut text = scratch.read("played/start_tasks.jsonl");
    scratch.write("own.jsonl", &text);
    scratch.burnish(&["train", "grpo.toml", "run.dir=own", "env.tasks={path=\"own.jsonl\"}"]).succeeds();
    assert!(weights(&scratch, "own", 2) == weights(&scratch, "played", 2));
    text.extend(b"{\"id\": 3}\n");
    scratch.write("own.jsonl", &text);
    let line = format!("line {}", tasks.len() + 1);
    let given = ["train", "grpo.toml", "run.dir=wrong", "env.tasks={path=\"own.jsonl\"}"];
    scratch.burnish(&given).fails_with(&["env.tasks", "own.jsonl", &line]);
}

#[test]
fn a_function_makes_tasks_that_a_later_run_plays() {
    let scratch = scratch();
    let tasks = String::from_utf8(scratch.read("tasks.toml")).unwrap();
    let program = "program = \"from_failures\"\nconfig = { success_rate_max = 1.0, per_failure = 1, label = [\"size\"] }\n";
    scratch.write("more.toml", tasks + program);
    let from = "env.tasks={from=\"more.toml\"}";
    scratch.burnish(&["train", "grpo.toml", "run.dir=played", from]).succeeds();
    let [stage] = &stages(&scratch, "more-")[..] else { panic!("one stage") };
    let made = lines(&stage.join("tasks.jsonl"));
    let ids = |values: &[Value], key: &str| -> BTreeSet<String> {
        values.iter().map(|value| value[key].as_str().unwrap().to_owned()).collect()
    };
    let shown = |dir: &str, step: &str| -> Vec<Value> {
        let text = scratch.burnish(&["rollout", "--from", dir, "--step", step, "--json"]).succeeds().stdout();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let fresh = ids(&made, "id");
    assert!(!fresh.is_empty() && fresh.len() == made.len());
    let first = ids(&shown(stage.to_str().unwrap(), "1"), "task");
    assert!(fresh.is_disjoint(&first), "none that was played is made");
    assert!(ids(&shown("played", "1"), "task").is_subset(&fresh));

    let lineage: Value = serde_json::from_slice(&std::fs::read(stage.join("made.json")).unwrap()).unwrap();
    let program = &lineage["program"];
    assert_eq!(
        (program["id"].as_str(), program["config"]["draws"].as_u64()),
        (Some("from_failures"), Some(256))
    );
    let per_task: Vec<u64> =
        program["made"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).collect();
    assert_eq!(per_task.iter().sum::<u64>(), lineage["count"].as_u64().unwrap());
    let nothing = per_task.iter().filter(|count| **count == 0).count() as u64;
    assert_eq!((program["made_nothing"].as_u64(), per_task.len()), (Some(nothing), 12));
    assert!(!stage.join("making.jsonl").exists());

    // A run that was killed before it was written down makes the same again, and one that is over makes nothing more.
    scratch.burnish(&["train", "more.toml", "run.dir=own"]).succeeds();
    let text = scratch.read("own/tasks.jsonl");
    assert!(text == std::fs::read(stage.join("tasks.jsonl")).unwrap());
    std::fs::remove_file(scratch.path("own/made.json")).unwrap();
    std::fs::remove_file(scratch.path("own/tasks.jsonl")).unwrap();
    scratch.burnish(&["train", "--resume", "own"]).succeeds();
    assert!(scratch.read("own/tasks.jsonl") == text);

    let few = "make.success_rate={min=0.999, max=1.0}";
    scratch
        .burnish(&["train", "more.toml", "run.dir=none", few, "make.config.success_rate_max=0.5"])
        .fails_with(&["make.program", "`from_failures` made nothing", "make.success_rate"]);
    assert!(!scratch.path("none/tasks.jsonl").exists() && !scratch.path("none/made.json").exists());
    // What a function makes may be anything that its own recipe does not hold out.
    let fewer = "env.tasks={from={recipe=\"more.toml\", set=[\"eval.tasks=1\"]}}";
    scratch.burnish(&["train", "grpo.toml", "run.dir=leak", fewer]).fails_with(&[
        "more.toml",
        "makes tasks by a function",
        "does not hold out",
    ]);
    for (change, parts) in [
        (&["make.program=from_failure"][..], &["make.program", "did you mean `from_failures`?"][..]),
        (&["make.config.per_failure=0"], &["make.config.per_failure", "1 or more"]),
        (&["make.config.perfailure=1"], &["make.config.perfailure"]),
        (&["make.kind=rows"], &["make.kind", "must be \"tasks\"", "`from_failures`"]),
        (&["make.max_per_task=2"], &["make.max_per_task", "the function chooses"]),
        (&["make.min_reward=0.5"], &["make.min_reward", "the function chooses"]),
        (&["make.teacher={url=\"ftp://x\", model=\"m\"}"], &["make.teacher.url", "http://"]),
        (&["make.teacher={url=3}"], &["make.teacher", "a model directory, or a table"]),
        (&["make={kind=\"tasks\", teacher=\"models/x\"}"], &["make.teacher", "has no use"]),
        (&["make={kind=\"tasks\", config={draws=3}}"], &["make.config", "has no use"]),
    ] {
        scratch.burnish(&[&["train", "more.toml", "--dry-run"], change].concat()).fails_with(parts);
    }
    scratch
        .burnish(&["train", "more.toml", "run.dir=alone", "make.teacher=no/such"])
        .fails_with(&["make.teacher", "no/such"]);
    assert!(!scratch.path("alone").exists());
}

#[test]
fn tasks_that_a_function_makes_join_a_run_that_goes_on_and_resume_repeats_it() {
    let scratch = scratch();
    let learns = String::from_utf8(scratch.read("grpo.toml")).unwrap();
    let learns = learns.replace("{ from = \"tasks.toml\" }", "12").replace("max_steps = 2", "max_steps = 6");
    let program = "[make]\nkind = \"tasks\"\nevery = 2\nprogram = \"from_failures\"\n\
                   config = { success_rate_max = 1.0, per_failure = 1, label = [\"size\"] }\n";
    scratch.write("grows.toml", format!("{learns}\n{program}"));
    scratch.burnish(&["train", "grows.toml", "run.dir=whole"]).succeeds();
    let grown = lines(&scratch.path("whole/grown.jsonl"));
    let steps: Vec<u64> = grown.iter().map(|line| line["step"].as_u64().unwrap()).collect();
    assert_eq!(steps, [2, 4, 6]);
    let ids = |tasks: &[Value]| -> BTreeSet<String> {
        tasks.iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
    };
    let joined: Vec<Value> =
        grown.iter().flat_map(|line| line["tasks"].as_array().unwrap().clone()).collect();
    assert_eq!(lines(&scratch.path("whole/tasks.jsonl")), joined);
    assert_eq!(ids(&joined).len(), joined.len(), "none joins twice");
    let played = |step: &str| -> BTreeSet<String> {
        let shown =
            scratch.burnish(&["rollout", "--from", "whole", "--step", step, "--json"]).succeeds().stdout();
        let each = shown.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        each.map(|shown| shown["task"].as_str().unwrap().to_owned()).collect()
    };
    let first = ids(grown[0]["tasks"].as_array().unwrap());
    let before: BTreeSet<String> = ["1", "2"].iter().flat_map(|step| played(step)).collect();
    let after: BTreeSet<String> = ["3", "4"].iter().flat_map(|step| played(step)).collect();
    assert!(first.is_disjoint(&before) && !first.is_disjoint(&after), "{first:?} {before:?} {after:?}");

    // Killed after step 2: before tasks joined, and while later ones were written down.
    let (weights_of_all, file) = (weights(&scratch, "whole", 6), scratch.read("whole/grown.jsonl"));
    let torn = [&file[..file.len() - 9], &[0xE2]].concat();
    for left in [Vec::new(), torn] {
        for step in [4, 6] {
            std::fs::remove_dir_all(scratch.path(&format!("whole/checkpoints/step_{step}"))).unwrap();
        }
        scratch.write("whole/grown.jsonl", left);
        scratch.burnish(&["train", "--resume", "whole"]).succeeds();
        assert!(weights(&scratch, "whole", 6) == weights_of_all && scratch.read("whole/grown.jsonl") == file);
    }
    scratch
        .burnish(&["train", "grows.toml", "run.dir=still", "train={method=\"none\", max_steps=2}"])
        .fails_with(&["make.every", "plays no tasks that join it"]);
}

#[test]
fn a_function_makes_a_strategy_by_which_a_later_run_is_evaluated() {
    let scratch = scratch();
    let tasks = String::from_utf8(scratch.read("tasks.toml")).unwrap();
    let adas = "program = \"adas\"\n[make.config]\nby = \"chance\"\ngenerations = 2\ndebug_rounds = 1\n\
                seeds = [{ strategy = \"best_of_n\", config = { samples = 4 } }, { strategy = \"majority\" }]\n";
    scratch.write("search.toml", tasks.replace("kind = \"tasks\"\n", "kind = \"strategy\"\n") + adas);
    let looks = String::from_utf8(scratch.read("grpo.toml")).unwrap();
    let looks = looks.replace("tasks = { from = \"tasks.toml\" }", "tasks = 40");
    scratch.write("looks.toml", looks.replace("max_steps = 2", "max_steps = 1"));
    let by = ["eval.strategy.from=search.toml", "eval.temperature=1.0"];
    scratch.burnish(&[&["train", "looks.toml", "run.dir=found"], &by[..]].concat()).succeeds();
    let [stage] = &stages(&scratch, "search-")[..] else { panic!("one stage") };
    let text = std::fs::read(stage.join("strategy.toml")).unwrap();
    assert!(scratch.read("found/start_strategy.toml") == text);
    let lineage: Value = serde_json::from_slice(&std::fs::read(stage.join("made.json")).unwrap()).unwrap();
    let archive = lineage["program"]["reports"][0]["archive"].as_array().unwrap();
    let worth = |own: &Value| (own["solved"].as_u64().unwrap(), -own["tokens"].as_f64().unwrap());
    let better = |one: &&Value, other: &&Value| worth(one).partial_cmp(&worth(other)).unwrap();
    let best = archive.iter().rev().max_by(better).unwrap();
    assert!(archive.len() >= 2, "{archive:?}");
    let strategy = String::from_utf8(text.clone()).unwrap();
    assert!(strategy.contains(&format!("strategy = {}", best["strategy"])), "{strategy}");

    // The same strategy by its name, from its file, and plainly.
    let evaluations = |dir: &str| -> Vec<String> {
        let rows = timeless_metrics(&scratch.path(dir).join("metrics.jsonl"));
        rows.into_iter().filter(|row| row.contains("\"eval/")).collect()
    };
    let named =
        format!("eval.strategy={{strategy={}, config={}}}", best["strategy"], toml_of(&best["config"]));
    scratch.burnish(&["train", "looks.toml", "run.dir=named", "eval.temperature=1.0", &named]).succeeds();
    assert_eq!(evaluations("named"), evaluations("found"));
    scratch.burnish(&["train", "looks.toml", "run.dir=plain", "eval.temperature=1.0"]).succeeds();
    assert_eq!(weights(&scratch, "plain", 1), weights(&scratch, "found", 1), "it decides no weight");
    assert_eq!(evaluations("found").len(), evaluations("plain").len());
    assert_ne!(evaluations("found"), evaluations("plain"));
    let evaluated = scratch.burnish(&["eval", "found", "--json"]).succeeds().stdout();
    let evaluated: Value = serde_json::from_str(&evaluated).unwrap();
    let last: Value = serde_json::from_str(evaluations("found").last().unwrap()).unwrap();
    assert_eq!(evaluated["success"]["mean"], last["eval/success"], "{evaluated}");
    // The cache may be gone by now.
    let (cache, aside) = (scratch.path("runs/cache"), scratch.path("runs/aside"));
    std::fs::rename(&cache, &aside).unwrap();
    let again = scratch.burnish(&["eval", "found", "--json"]).succeeds().stdout();
    assert_eq!(serde_json::from_str::<Value>(&again).unwrap()["success"], evaluated["success"]);
    scratch.burnish(&["rollout", "--from", "found", "--replay", "--eval"]).succeeds();
    std::fs::rename(&aside, &cache).unwrap();
    let file = stage.join("strategy.toml");
    let given = ["eval", "found", "--strategy", file.to_str().unwrap(), "--json"];
    scratch.burnish(&given).succeeds();
    let other = "eval.strategy.from={recipe=\"search.toml\", set=[\"make.config.generations=5\"]}";
    scratch
        .burnish(&["eval", "looks.toml", "--policy", "found", other, "eval.temperature=1.0"])
        .fails_with(&["eval.strategy.from", "is not made yet"]);

    // A run that was killed before it was written down plays nothing again that it knows.
    std::fs::remove_file(stage.join("made.json")).unwrap();
    std::fs::remove_file(&file).unwrap();
    scratch.burnish(&["train", "--resume", stage.to_str().unwrap()]).succeeds();
    assert!(std::fs::read(&file).unwrap() == text && !stage.join("making.jsonl").exists());
}

#[test]
fn notes_that_a_function_makes_are_read_by_the_programs_of_later_runs() {
    let scratch = scratch();
    let tasks = String::from_utf8(scratch.read("tasks.toml")).unwrap();
    let cases = tasks.replace("kind = \"tasks\"\n", "kind = \"memory\"\nprogram = \"cases\"\n");
    scratch.write("cases.toml", cases);
    let reads = String::from_utf8(scratch.read("grpo.toml")).unwrap();
    let reads = reads.replace("tasks = { from = \"tasks.toml\" }", "tasks = 40");
    scratch.write("reads.toml", reads.replace("max_steps = 2", "max_steps = 1"));
    let how = "config={count=1, template=\"{notes}{prompt}\", note=\"{text}\\n\"}";
    let plan = format!("plan={{plan=\"recall\", {how}}}");
    let strategy = format!("eval.strategy={{strategy=\"recall\", {how}}}");
    scratch
        .burnish(&["train", "reads.toml", "run.dir=read", "memory.from=cases.toml", "eval.draft=true", &plan])
        .succeeds();
    let [stage] = &stages(&scratch, "cases-")[..] else { panic!("one stage") };
    let made = std::fs::read(stage.join("memory.jsonl")).unwrap();
    assert!(scratch.read("read/start_memory.jsonl") == made);
    let notes = lines(&stage.join("memory.jsonl"));
    let of: BTreeSet<&str> = notes.iter().map(|note| note["task"].as_str().unwrap()).collect();
    assert!(of.len() == notes.len() && !notes.is_empty(), "one note of a task: {notes:?}");
    scratch.burnish(&["rollout", "--from", "read", "--replay"]).succeeds();
    scratch.burnish(&["rollout", "--from", "read", "--replay", "--eval"]).succeeds();

    // Shown by the plan or by the strategy, evaluations are the same; notes about something else change nothing.
    let evaluation = |dir: &str, more: &[&str]| -> Value {
        let given = ["eval", dir, "--json"];
        let told = scratch.burnish(&[&given, more].concat()).succeeds().stdout();
        let told: Value = serde_json::from_str(&told).unwrap();
        serde_json::json!([told["completion_tokens_mean"], told["surprisal_mean"], told["reward"]])
    };
    let shown = evaluation("read", &[]);
    assert_eq!(evaluation("read", &["eval.draft=false", &strategy]), shown);
    let plain = evaluation("read", &["eval.draft=false"]);
    assert_ne!(plain, shown);
    scratch.write("else.jsonl", "{\"about\": \"xylophones\", \"text\": \"play\"}\n");
    let others = ["eval.draft=false", &strategy, "memory={path=\"else.jsonl\"}"];
    assert_eq!(evaluation("read", &others), plain);
    scratch
        .burnish(&["eval", "read", "eval.draft=false", "--strategy", "recall:count=1", "--json"])
        .succeeds();
    scratch
        .burnish(&["eval", "reads.toml", "--policy", "read", "--strategy", "recall:count=1"])
        .fails_with(&["strategy", "reads notes", "memory"]);
    scratch.burnish(&["train", "reads.toml", "run.dir=none", &plan]).fails_with(&[
        "`plan`",
        "reads notes",
        "memory",
    ]);
}

/// A value as an override writes it.
fn toml_of(value: &Value) -> String {
    match value {
        Value::Object(table) => {
            let each: Vec<String> =
                table.iter().map(|(key, value)| format!("{key}={}", toml_of(value))).collect();
            format!("{{{}}}", each.join(", "))
        }
        other => other.to_string(),
    }
}

#[test]
fn a_recipe_that_makes_something_else_is_refused() {
    let scratch = scratch();
    for (recipe, change, parts) in [
        ("imitate.toml", "data.from=sft.toml", &["sft.toml", "makes nothing", "`data.from`", "\"rows\""][..]),
        ("imitate.toml", "data.from=pairs.toml", &["pairs.toml", "its kind is \"pairs\"", "\"rows\""]),
        ("grpo.toml", "env.tasks={from=\"rows.toml\"}", &["rows.toml", "`env.tasks.from`", "\"tasks\""]),
        ("grpo.toml", "env.tasks={}", &["env.tasks", "must be a number, or name one file"]),
        ("grpo.toml", "env.tasks=-1", &["env.tasks", "1 or more"]),
        ("imitate.toml", "data.path=rows.jsonl", &["data.from", "excludes `data.path`"]),
        ("imitate.toml", "make={kind=\"rows\"}", &["make", "needs episodes"]),
        (
            "imitate.toml",
            "eval.strategy.from=rows.toml",
            &["rows.toml", "its kind is \"rows\"", "\"strategy\""],
        ),
        ("rows.toml", "make={kind=\"strategy\"}", &["make.program", "only a function"]),
        ("rows.toml", "make.kind=lines", &["make.kind", "lines"]),
        ("rows.toml", "plan={plan=\"demonstrations\"}", &["plan", "can't be combined with `[make]`"]),
        ("rows.toml", "make.max_per_task=0", &["make.max_per_task", "1 or more"]),
        ("rows.toml", "make.success_rate={min=0.5, max=0.2}", &["make.success_rate", "not above"]),
        ("tasks.toml", "make.keep=all", &["make.keep", "has no use"]),
        ("rows.toml", "rollout.tasks_per_step=0", &["rollout.tasks_per_step", "1 or more"]),
    ] {
        scratch.burnish(&["train", recipe, change, "--dry-run"]).fails_with(parts);
    }
}

const ROUNDS: &str = r#"
[rounds]
count = 2
use = { "policy.from" = "policy" }

[[rounds.stage]]
name = "rows"
recipe = "rows.toml"
use = { "policy.from" = "policy" }

[[rounds.stage]]
name = "policy"
recipe = "imitate.toml"
use = { "policy.from" = "policy", "data.from" = "rows" }
"#;

#[test]
fn rounds_give_each_stage_what_the_others_made_last() {
    let scratch = scratch();
    let still = TINY_GRPO.replace("[policy]\npath = \"tiny/checkpoints/step_120\"\n", "");
    let learned = "method = \"grpo\"\nmax_steps = 6\nepochs = 2\nminibatches = 2\n";
    scratch.write("rounds.toml", still.replace(learned, "method = \"none\"\n") + ROUNDS);
    let said = scratch.burnish(&["train", "rounds.toml", "run.dir=one"]).succeeds().stdout();
    let (rows, policies) = (stages(&scratch, "rows-"), stages(&scratch, "imitate-"));
    assert_eq!((rows.len(), policies.len()), (2, 2), "{said}");
    assert!(said.contains("round 2 of 2, policy"), "{said}");
    let hash = |of: &Value| of.as_str().unwrap().to_owned();
    let made = |dir: &PathBuf| -> Value {
        serde_json::from_slice(&std::fs::read(dir.join("made.json")).unwrap()).unwrap()
    };
    // The rows of the second round come from the policy that the first one made.
    let begins = |dir: &PathBuf| hash(&made(dir)["from"][0]["hash"]);
    let named =
        |dirs: &[PathBuf], hash: &str| dirs.iter().find(|dir| dir.to_str().unwrap().ends_with(hash)).cloned();
    let second = rows.iter().find(|dir| named(&policies, &begins(dir)).is_some()).expect("a second round");
    let first_policy = named(&policies, &begins(second)).unwrap();
    let last_policy = policies.iter().find(|dir| **dir != first_policy).unwrap();
    assert!(
        std::fs::read(second.join("start/model.safetensors")).unwrap()
            == std::fs::read(first_policy.join("checkpoints/step_4/model.safetensors")).unwrap()
    );
    assert!(
        std::fs::read(second.join("rows.jsonl")).unwrap()
            == std::fs::read(last_policy.join("start_rows.jsonl")).unwrap()
    );
    let last = std::fs::read(last_policy.join("checkpoints/step_4/model.safetensors")).unwrap();
    assert!(scratch.read("one/start/model.safetensors") == last);

    // What is there is used, and what is gone is made again to the same bits.
    let metrics = timeless_metrics(&last_policy.join("metrics.jsonl"));
    let said = scratch.burnish(&["train", "rounds.toml", "run.dir=two"]).succeeds().stdout();
    assert!(!said.contains("begins"), "{said}");
    std::fs::remove_dir_all(last_policy).unwrap();
    let mut child = scratch
        .command(&["train", "rounds.toml", "run.dir=three"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the last stage has begun", || last_policy.join("metrics.jsonl").is_file());
    interrupt(&child);
    child.wait().unwrap();
    scratch.burnish(&["train", "rounds.toml", "run.dir=four"]).succeeds();
    assert_eq!(timeless_metrics(&last_policy.join("metrics.jsonl")), metrics);
    assert!(scratch.read("four/start/model.safetensors") == last);

    for (change, parts) in [
        ("rounds.count=0", &["rounds.count", "1 or more"][..]),
        ("rounds.use={\"policy.from\"=\"polcy\"}", &["rounds.use", "`polcy`", "rows, policy"]),
        (
            "rounds.use={\"policy.from\"=\"policy\", \"env.tasks.from\"=\"rows\"}",
            &["rows.toml", "its kind is \"rows\""],
        ),
        ("rounds.use={\"policy.path\"=\"policy\"}", &["rounds.use", "`policy.path`", "data.from"]),
    ] {
        scratch.burnish(&["train", "rounds.toml", change, "--dry-run"]).fails_with(parts);
    }
}
