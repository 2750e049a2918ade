//! BFCL's real rows: gold is right everywhere, and verdicts on changed answers are those of PyPI's `bfcl-eval`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

use burnish_core::{
    Abilities, Answered, Ending, FunctionCall, Message, Policy, Role, Sampling, StopReason, Task, ToolCall,
    Turn, TurnId, TurnOutput, Verdict,
};
use burnish_env::bfcl::{Bfcl, Category, Config};
use burnish_env::rollout::{self, Overlong, RolloutSpec, SeedPlace, Spawn};
use burnish_env::{Environment, Generator, Step, build};
use serde_json::{Value, json};

fn real() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/bfcl_v4");
    if !folder.is_dir() {
        println!("skipped: there is no {}", folder.display());
        return None;
    }
    Some(folder)
}

/// All rows, which are read once.
fn all() -> Option<&'static Bfcl> {
    static ALL: OnceLock<Option<Bfcl>> = OnceLock::new();
    let read = || {
        let path = real()?.display().to_string();
        Some(Bfcl::new(Config { path, ..Config::default() }).unwrap())
    };
    ALL.get_or_init(read).as_ref()
}

fn golden() -> Value {
    serde_json::from_str(include_str!("../golden/bfcl.json")).unwrap()
}

/// Says these answers one after the other until the episode is over.
fn play(environment: &mut dyn Environment, task: &Task, answers: &[Message]) -> Verdict {
    environment.reset(task, 0).unwrap();
    let Step::Turn(_) = environment.begin().unwrap() else { panic!("no turn") };
    for answer in answers {
        if let Step::Done = environment.step(answer).unwrap() {
            break;
        }
    }
    environment.verify().unwrap()
}

fn says(calls: &[Value]) -> Message {
    let call = |call: &Value| {
        let name = call[0].as_str().unwrap().replace('.', "_");
        ToolCall { id: None, function: FunctionCall { name, arguments: call[1].clone() } }
    };
    Message { tool_calls: calls.iter().map(call).collect(), ..Message::assistant("") }
}

fn answers_of(episode: &[Message]) -> Vec<Message> {
    episode.iter().filter(|message| message.role == Role::Assistant).cloned().collect()
}

#[test]
fn gold_is_right_on_every_row_of_every_category() {
    let Some(bfcl) = all() else { return };
    let mut environment = bfcl.environment();
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for task in bfcl.in_order() {
        let count = counts.entry(task.labels["category"].clone()).or_default();
        count.0 += 1;
        // Rows of relevance have no gold: any call is right.
        let Some(episode) = bfcl.demonstrations().unwrap().demonstrate_episode(&task) else {
            println!("no gold: {}", task.id);
            continue;
        };
        let verdict = play(&mut *environment, &task, &answers_of(&episode));
        if !verdict.success {
            println!("{}: {:?}", task.id, verdict.feedback);
        }
        count.1 += usize::from(verdict.success && verdict.rewards["score"] == 1.0);
    }
    let rows = |name: &str| counts[name].0;
    assert_eq!(counts.len(), 12);
    for (name, (count, right)) in &counts {
        println!("{name}: {right} of {count}");
        assert_eq!(*right, if name == "live_relevance" { 0 } else { *count }, "{name}");
    }
    assert_eq!((rows("simple_python"), rows("live_simple"), rows("multi_turn_base")), (400, 258, 200));
    assert_eq!(counts.values().map(|(count, _)| count).sum::<usize>(), 2154);
}

#[test]
fn to_do_nothing_is_wrong_except_where_no_function_fits() {
    let Some(bfcl) = all() else { return };
    let mut environment = bfcl.environment();
    for task in bfcl.in_order() {
        let is_irrelevant = task.labels["category"] == "irrelevance";
        let silent = vec![Message::assistant("I can't help."); 20];
        let verdict = play(&mut *environment, &task, &silent);
        assert_eq!(verdict.success, is_irrelevant, "{}", task.id);
        if !task.labels["category"].starts_with("multi_turn") {
            let tool = environment.tools().remove(0);
            let verdict = play(&mut *environment, &task, &[says(&[json!([tool.name, {"nonsense": 1}])])]);
            assert_eq!(verdict.success, task.labels["category"] == "live_relevance", "{}", task.id);
        }
    }
}

/// Cases on which the verdict differs from that of `bfcl-eval`, by their places, with the reason.
const SINGLE_DIFFERS: [(usize, &str); 0] = [];
const TURNS_DIFFERS: [(usize, &str); 0] = [];

#[test]
fn verdicts_on_changed_answers_are_those_of_bfcl_eval() {
    let Some(bfcl) = all() else { return };
    let golden = golden();
    let tasks: BTreeMap<String, Task> =
        bfcl.in_order().into_iter().map(|task| (task.id.0.replace("bfcl/", ""), task)).collect();
    let mut environment = bfcl.environment();
    let mut compare = |kind: &str, known: &[(usize, &str)], answers: &dyn Fn(&Value) -> Vec<Message>| {
        let cases = golden[kind].as_array().unwrap();
        let mut differ = Vec::new();
        for (at, case) in cases.iter().enumerate() {
            let task = &tasks[case["row"].as_str().unwrap()];
            let verdict = play(&mut *environment, task, &answers(case));
            if json!(verdict.success) != case["valid"] {
                println!("{kind} {at}: {:?} {case}", verdict.feedback);
                differ.push(at);
            }
        }
        let right = cases.iter().filter(|case| case["valid"] == true).count();
        println!("{kind}: {} cases, {right} of them right, {} differ", cases.len(), differ.len());
        assert_eq!(differ, known.iter().map(|(at, _)| *at).collect::<Vec<_>>(), "{kind}");
        (cases.len(), right)
    };
    let (single, single_right) =
        compare("single", &SINGLE_DIFFERS, &|case| vec![says(case["calls"].as_array().unwrap())]);
    let (turns, turns_right) = compare("turns", &TURNS_DIFFERS, &|case| {
        let turn = |calls: &Value| {
            let mut said: Vec<Message> =
                calls.as_array().unwrap().iter().map(|call| says(std::slice::from_ref(call))).collect();
            said.push(Message::assistant("Done."));
            said
        };
        case["turns"].as_array().unwrap().iter().flat_map(turn).collect()
    });
    assert_eq!(single + turns, 200);
    assert!(single_right > 20 && turns_right > 10, "the cases should not all be wrong");
}

/// FNV-1a of 64 bits.
fn fnv(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[test]
fn the_apis_return_what_bfcl_evals_return() {
    let Some(bfcl) = all() else { return };
    let golden = golden();
    let (mut compared, mut differ) = (0, Vec::new());
    for task in bfcl.in_order().iter().filter(|task| task.labels["category"] == "multi_turn_base") {
        let episode = bfcl.demonstrations().unwrap().demonstrate_episode(task).unwrap();
        let results: Vec<&str> = episode
            .iter()
            .filter(|message| message.role == Role::Tool)
            .map(|message| message.content.as_str())
            .collect();
        let row = task.id.0.replace("bfcl/", "");
        compared += 1;
        if golden["results"][&row] != fnv(&results.join("\n")) {
            println!("{row}: {results:#?}");
            differ.push(row);
        }
    }
    // `logarithm` there returns a number of any precision, which is written as Python's `mpf`.
    assert_eq!(compared, 200);
    assert_eq!(differ, RESULTS_DIFFER);
}

const RESULTS_DIFFER: [&str; 4] =
    ["multi_turn_base_32", "multi_turn_base_49", "multi_turn_base_57", "multi_turn_base_59"];

#[test]
fn functions_that_are_held_back_are_offered_later() {
    let Some(folder) = real() else { return };
    let config = json!({"path": folder, "category": ["multi_turn_miss_func"]});
    let bfcl = build("bfcl", &config).unwrap();
    assert!(bfcl.evaluation_only().is_some() && bfcl.components() == Some(vec!["score".to_owned()]));
    let task =
        bfcl.tasks(0, 200).unwrap().tasks.into_iter().find(|task| task.id.0 == "bfcl/multi_turn_miss_func_0");
    let task = task.unwrap();
    let mut environment = bfcl.environment();
    environment.reset(&task, 0).unwrap();
    let has = |step: Step, name: &str| {
        let Step::Turn(posed) = step else { panic!("no turn") };
        posed.tools.iter().any(|tool| tool.name == name)
    };
    assert!(!has(environment.begin().unwrap(), "sort"));
    let episode = bfcl.demonstrations().unwrap().demonstrate_episode(&task).unwrap();
    let mut offered = Vec::new();
    for answer in answers_of(&episode) {
        match environment.step(&answer).unwrap() {
            Step::Done => break,
            step => offered.push(has(step, "sort")),
        }
    }
    // After the third request.
    let first = offered.iter().position(|has| *has).unwrap();
    assert!(offered[first..].iter().all(|has| *has) && first > 5, "{offered:?}");
    let told = episode.iter().filter(|message| message.content.contains("updated some more functions"));
    assert_eq!(told.count(), 1);
    assert!(environment.verify().unwrap().success);
}

/// Says the given answers.
struct Says {
    answers: std::vec::IntoIter<Message>,
    turns: u64,
    over: Vec<Answered>,
}

impl Policy for Says {
    fn abilities(&self) -> Abilities {
        Abilities { tools: true, ..Abilities::TEXT }
    }

    fn version(&self) -> u64 {
        0
    }

    fn submit(&mut self, turn: Turn) -> TurnId {
        let id = TurnId(self.turns);
        self.turns += 1;
        let message = self.answers.next().unwrap();
        let output = TurnOutput::new(message, StopReason::EndToken);
        self.over.push(Answered { id, trace: turn.trace, result: Ok(output) });
        id
    }

    fn poll(&mut self) -> Vec<Answered> {
        std::mem::take(&mut self.over)
    }

    fn wait(&mut self) -> Vec<Answered> {
        self.poll()
    }

    fn cancel(&mut self, _: TurnId) -> bool {
        false
    }
}

#[test]
fn a_row_is_played_by_a_policy_in_a_rollout() {
    let Some(bfcl) = all() else { return };
    let wanted = ["multi_turn_base_0", "parallel_multiple_3", "irrelevance_1", "multi_turn_miss_func_60"];
    for task in bfcl.in_order().iter().filter(|task| wanted.contains(&task.id.0.trim_start_matches("bfcl/")))
    {
        let shown = bfcl.demonstrations().unwrap().demonstrate_episode(task).unwrap();
        let answers = answers_of(&shown);
        let count = answers.len();
        let tasks = [task.clone()];
        let places = SeedPlace { run: 1, stage: 0, step: 0, task_offset: 0 };
        let spawns = Spawn::of_tasks(&tasks, 1, &Sampling::greedy(16), places);
        let play = |turns_max: usize| {
            let spec = RolloutSpec {
                generator: bfcl,
                partners: None,
                spawns: &spawns,
                turns_max,
                overlong: Overlong::Refuse,
            };
            let mut policy = Says { answers: answers.clone().into_iter(), turns: 0, over: Vec::new() };
            rollout::play(&mut policy, &spec).unwrap().remove(0)
        };
        let episode = play(200);
        assert!(episode.verdict.success && episode.ending == Ending::Completed, "{}", task.id);
        assert_eq!(episode.answers.len(), count);
        if count > 1 {
            let cut = play(count - 1);
            assert!(
                !cut.verdict.success && cut.verdict.flags["unfinished"] && cut.ending == Ending::TurnsMax
            );
        }
    }
}

#[test]
fn answers_that_cannot_be_read_are_wrong_and_too_many_steps_end_a_row() {
    let Some(bfcl) = all() else { return };
    let tasks = bfcl.in_order();
    let first = |category: &str| tasks.iter().find(|task| task.labels["category"] == category).unwrap();
    let mut environment = bfcl.environment();
    let malformed = |message: Message| TurnOutput {
        malformed: vec!["no JSON".to_owned()],
        ..TurnOutput::new(message, StopReason::EndToken)
    };
    for (category, should) in [("simple_python", false), ("irrelevance", true), ("live_relevance", false)] {
        environment.reset(first(category), 0).unwrap();
        environment.begin().unwrap();
        assert_eq!(environment.answer(&malformed(Message::assistant("<tool_call>{"))).unwrap(), Step::Done);
        let verdict = environment.verify().unwrap();
        assert_eq!((verdict.success, verdict.flags["malformed"]), (should, true), "{category}");
    }
    let looks = vec![says(&[json!(["pwd", {}])]); 30];
    let verdict = play(&mut *environment, first("multi_turn_base"), &looks);
    assert!(!verdict.success && verdict.metrics["calls"] == 21.0, "{verdict:?}");
    assert!(verdict.feedback.unwrap().contains("more than 20"));
}

#[test]
fn files_are_read_strictly() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let refusal = || {
        let category = vec![Category::SimplePython.name().to_owned()];
        let config = Config { path: folder.path().display().to_string(), category };
        Bfcl::new(config).unwrap_err().to_string()
    };
    let (rows, answers) = ("BFCL_v4_simple_python.json", "possible_answer/BFCL_v4_simple_python.json");
    assert!(refusal().contains("BFCL_v4_simple_python.jsonl: is not there"));
    let row = |extra: &str, of: &str| {
        format!(
            "{{\"id\": \"simple_python_0\", \"question\": [[{{\"role\": \"user\", \"content\": \"?\"}}]], {extra} \"function\": \
             [{{\"name\": \"f\", \"description\": \"\", \"parameters\": {{\"type\": \"dict\", \"required\": [\"x\"], \
             \"properties\": {{\"x\": {{\"type\": \"{of}\"}}}}}}}}]}}\n"
        )
    };
    write(rows, &row("", "integer"));
    assert!(refusal().contains("possible_answer/BFCL_v4_simple_python.jsonl: is not there"));
    for (answer, complaint) in [
        ("{\"id\": \"simple_python_1\", \"ground_truth\": []}", "line 1: id: is `simple_python_1`"),
        ("{\"id\": \"simple_python_0\", \"ground_truth\": []}", "has no call"),
        ("{\"id\": \"simple_python_0\", \"ground_truth\": [{\"g\": {}}]}", "no function `g`"),
        ("{\"id\": \"simple_python_0\", \"ground_truth\": [{\"f\": {\"x\": 1}}]}", "line 1: invalid type"),
        ("{\"id\": \"simple_python_0\"}\n{}", "missing field `ground_truth`"),
    ] {
        write(answers, answer);
        let said = refusal();
        assert!(said.contains(complaint) && said.contains("possible_answer"), "{said}");
    }
    write(answers, "{\"id\": \"simple_python_0\", \"ground_truth\": [{\"f\": {\"x\": [1]}}]}");
    write(rows, &row("\"extra\": 1,", "integer"));
    assert!(refusal().contains("line 1: unknown field `extra`"));
    write(rows, &row("", "number"));
    assert!(refusal().contains("line 1: function `f`: parameters.properties.x.type: is unknown"));
    write(rows, &row("", "float"));
    let config = json!({"path": folder.path(), "category": ["simple_python"]});
    let bfcl = build("bfcl", &config).unwrap();
    assert_eq!((bfcl.files().len(), bfcl.config()), (2, config));
    let task = bfcl.tasks(0, 3).unwrap().tasks.remove(2);
    assert!(bfcl.draw(&task, None).contains("allowed:"));
    assert!(play(&mut *bfcl.environment(), &task, &[says(&[json!(["f", {"x": 1}])])]).success);
}
