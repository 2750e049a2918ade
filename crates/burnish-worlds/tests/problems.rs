//! Problems over the worlds that come with burnish: what holds of all of them.
#![expect(clippy::unwrap_used, reason = "a test says what is right")]

mod common;

use burnish_core::rng::Stream;
use burnish_worlds::chain::{Origin, SERVERS_MAX, Sampler, carry_out, chain};
use burnish_worlds::graph::{Graph, LIKENESS};
use burnish_worlds::query::{Refinement, words};
use burnish_worlds::{Options, Problem, Source, State, World, problems};
use common::all;
use serde_json::{Map, Value};

const OPTIONS: Options =
    Options { sampler: Sampler::Topology, calls: [2, 5], turn: 3, refinement: Refinement::NONE };

/// None, all of them, and each alone.
fn refinements() -> [Refinement; 6] {
    [
        Refinement::NONE,
        Refinement::default(),
        Refinement { implicit: true, ..Refinement::NONE },
        Refinement { compressed: true, ..Refinement::NONE },
        Refinement { ambiguous: true, ..Refinement::NONE },
        Refinement { goal: true, ..Refinement::NONE },
    ]
}

fn tool<'a>(worlds: &'a [World], problem: &Problem, name: &str) -> (usize, &'a World) {
    let place = problem.worlds.iter().position(|&world| worlds[world].tool(name).is_some()).unwrap();
    (place, &worlds[problem.worlds[place]])
}

#[test]
fn gold_calls_lead_from_the_first_state_to_the_last_and_only_there() {
    let worlds = all();
    let graph = Graph::new(&worlds, LIKENESS);
    let made = problems(&worlds, &graph, &OPTIONS, 7, 60).unwrap();
    for problem in &made.problems {
        let mut states = problem.start.clone();
        let calls: Vec<_> = problem.turns.iter().flat_map(|turn| &turn.calls).collect();
        assert!((2..=5).contains(&calls.len()));
        for call in calls {
            let (place, world) = tool(&worlds, problem, &call.name);
            let tool = world.tool(&call.name).unwrap();
            tool.call(world, &mut states[place], &call.arguments).unwrap();
        }
        assert_eq!(states, problem.end);
        assert_ne!(problem.start, problem.end);
        assert!(problem.turns.iter().all(|turn| (1..=3).contains(&turn.calls.len())));
    }
}

#[test]
fn the_same_seed_gives_the_same_problems_and_another_seed_others() {
    let worlds = all();
    let graph = Graph::new(&worlds, LIKENESS);
    let some = |seed| problems(&worlds, &graph, &OPTIONS, seed, 20).unwrap();
    assert_eq!(some(1), some(1));
    assert_ne!(some(1).problems, some(2).problems);
    // The first problems do not depend on how many there are.
    assert_eq!(problems(&worlds, &graph, &OPTIONS, 1, 5).unwrap().problems, some(1).problems[..5]);
}

/// What is wrong with a chain by the definition, without the code that draws and filters chains: a tool comes twice; a
/// parameter that a tool requires is neither said by a user nor linked to what an earlier tool returns; there are tools of
/// more than three worlds.
fn fault(graph: &Graph<'_>, chain: &[usize]) -> Option<String> {
    for (place, &tool) in chain.iter().enumerate() {
        let (node, earlier) = (graph.nodes()[tool], &chain[..place]);
        if earlier.contains(&tool) {
            return Some(format!("`{}` comes twice", node.tool.name));
        }
        for (at, parameter) in node.tool.parameters.iter().enumerate() {
            let is_external = parameter.source != Source::Internal;
            let mut links = graph.producers(tool, at).iter();
            let is_had = is_external || links.any(|output| earlier.contains(&output.tool));
            if !parameter.optional && !is_had {
                return Some(format!("nobody gives `{}` of `{}`", parameter.name, node.tool.name));
            }
        }
    }
    let mut worlds: Vec<&str> = chain.iter().map(|&tool| graph.nodes()[tool].world.name.as_str()).collect();
    worlds.sort_unstable();
    worlds.dedup();
    (worlds.len() > 3).then(|| format!("it is of {worlds:?}"))
}

#[test]
fn every_chain_is_valid_by_the_definition_however_long_it_is() {
    let worlds = all();
    let graph = Graph::new(&worlds, LIKENESS);
    let mut longest = 0;
    for seed in 0..500 {
        for sampler in [Sampler::Topology, Sampler::Walk] {
            for length in [1, 2, 5, 8] {
                let Some(chain) = chain(&graph, sampler, length, &mut Stream::new(seed)) else { continue };
                assert_eq!(fault(&graph, &chain), None, "{sampler:?}, seed {seed}: {chain:?}");
                assert!(chain.len() >= length, "{sampler:?}, seed {seed}: {chain:?}");
                longest = longest.max(chain.len());
            }
        }
    }
    assert!(longest >= 8, "{longest}");
}

#[test]
fn tools_in_any_order_are_a_chain_where_the_definition_says_so() {
    let worlds = all();
    let graph = Graph::new(&worlds, LIKENESS);
    let (mut valid, mut linked) = (0, 0);
    for seed in 0..5000 {
        let mut stream = Stream::new(seed);
        // Of few worlds, so that some need what others return.
        let some = 1 + stream.index(worlds.len());
        let mut tools: Vec<usize> =
            (0..graph.nodes().len()).filter(|&tool| graph.nodes()[tool].server < some).collect();
        stream.shuffle(&mut tools);
        tools.truncate(1 + stream.index(4));
        let is_valid = graph.is_valid_chain(&tools) && graph.servers(&tools) <= SERVERS_MAX;
        let fault = fault(&graph, &tools);
        assert_eq!(is_valid, fault.is_none(), "{tools:?}: {fault:?}");
        let needs = |&tool: &usize| {
            let mut parameters = graph.nodes()[tool].tool.parameters.iter();
            parameters.any(|it| !it.optional && it.source == Source::Internal)
        };
        valid += usize::from(is_valid);
        linked += usize::from(is_valid && tools.iter().any(needs));
    }
    assert!(linked > 0 && linked < valid && valid < 5000, "{linked} of {valid}");
}

#[test]
fn the_topology_sampler_finds_more_valid_chains_than_a_walk() {
    let worlds = all();
    let graph = Graph::new(&worlds, LIKENESS);
    let mut valid = [0, 0];
    for (count, sampler) in valid.iter_mut().zip([Sampler::Topology, Sampler::Walk]) {
        for seed in 0..2000 {
            let Some(chain) = chain(&graph, sampler, 3, &mut Stream::new(seed)) else { continue };
            *count += 1;
            assert_eq!(fault(&graph, &chain), None, "{sampler:?}, seed {seed}: {chain:?}");
        }
    }
    let [topology, walk] = valid;
    println!("valid chains of 2000: topology {topology}, walk {walk}");
    assert!(topology > walk, "topology {topology}, walk {walk}");
}

#[test]
fn a_higher_threshold_never_links_more() {
    let worlds = all();
    let mut last = usize::MAX;
    for threshold in [0.0, 0.3, 0.5, 0.7, LIKENESS, 0.95, 1.01] {
        let edges = Graph::new(&worlds, threshold).edges();
        assert!(edges <= last, "{threshold}");
        last = edges;
    }
    assert_eq!(last, 0);
    assert!(Graph::new(&worlds, LIKENESS).edges() > 0);
}

#[test]
fn refinements_change_words_and_nothing_else_of_a_problem() {
    let worlds = all();
    let graph = Graph::new(&worlds, LIKENESS);
    let mut reworded = 0;
    for seed in 0..20 {
        let made = |refinement: Refinement| {
            problems(&worlds, &graph, &Options { refinement, ..OPTIONS }, seed, 5).unwrap()
        };
        let plain = made(Refinement::NONE);
        for refinement in refinements() {
            let mut refined = made(refinement);
            for (problem, plain) in refined.problems.iter_mut().zip(&plain.problems) {
                for (turn, plain) in problem.turns.iter_mut().zip(&plain.turns) {
                    reworded += usize::from(turn.words != plain.words);
                    turn.words.clone_from(&plain.words);
                }
            }
            // Calls, how they are cut into turns, states, and what was dropped.
            assert_eq!(refined, plain, "seed {seed}: {refinement:?}");
        }
    }
    assert!(reworded > 0);
}

#[test]
fn everything_that_has_to_be_said_is_said_in_refined_words_too() {
    let worlds = all();
    let graph = Graph::new(&worlds, LIKENESS);
    let kinds = refinements();
    let mut different = [false; 6];
    for seed in 0..150 {
        let mut stream = Stream::new(seed);
        let Some(chain) = chain(&graph, Sampler::Topology, 3, &mut stream) else { continue };
        let mut states: Vec<State> = worlds.iter().map(|world| State::draw(world, &mut stream)).collect();
        let Some(calls) = carry_out(&graph, &chain, &mut states, &mut stream) else { continue };
        let plain = words(&graph, &calls, 0..calls.len(), Refinement::NONE, &mut Stream::new(seed));
        for (refinement, differs) in kinds.iter().zip(&mut different) {
            let text = words(&graph, &calls, 0..calls.len(), *refinement, &mut Stream::new(seed));
            assert_eq!(text, words(&graph, &calls, 0..calls.len(), *refinement, &mut Stream::new(seed)));
            *differs |= text != plain;
            assert!(!text.contains('{'), "{text}");
            for call in &calls {
                let world = graph.nodes()[call.tool].world;
                for (name, _) in call.origins.iter().filter(|(_, origin)| *origin == Origin::Said) {
                    let value = match &call.arguments[name] {
                        Value::String(text) => text.clone(),
                        value => value.to_string(),
                    };
                    let alias = world.aliases.get(&value).filter(|_| refinement.ambiguous);
                    let said = alias.unwrap_or(&value).to_lowercase();
                    assert!(text.to_lowercase().contains(&said), "`{said}` is not in: {text}");
                }
            }
        }
    }
    assert_eq!(different, [false, true, true, true, true, true]);
}

#[test]
fn a_lookup_is_only_left_out_where_its_noun_says_what_it_looks_up() {
    let said = |noun: &str| {
        let text = include_str!("small.toml").replace("noun = \"the account of {owner}\"", noun);
        let worlds = [World::parse(&text).unwrap()];
        let graph = Graph::new(&worlds, LIKENESS);
        let mut states = vec![worlds[0].fixture.clone()];
        let calls = carry_out(&graph, &[0, 1], &mut states, &mut Stream::new(0)).unwrap();
        let Value::String(owner) = &calls[0].arguments["owner"] else { unreachable!() };
        let refinement = Refinement { compressed: true, ..Refinement::NONE };
        let text = words(&graph, &calls, 0..2, refinement, &mut Stream::new(0));
        assert!(text.contains(owner.as_str()), "{text}");
        text.contains("ook up")
    };
    assert!(!said("noun = \"the account of {owner}\""));
    assert!(said("noun = \"that account\""));
    assert!(said(""));
}

#[test]
fn a_state_survives_json_and_a_refused_call() {
    for world in all() {
        for seed in 0..20 {
            let state = State::draw(&world, &mut Stream::new(seed));
            let json = state.to_json(&world);
            let again = State::from_json(&json, &world).unwrap();
            assert_eq!(again, state);
            assert_eq!(again.to_json(&world).to_string(), json.to_string());

            for tool in &world.tools {
                let mut session = state.clone();
                // Nothing, and identifiers that are not there.
                let nowhere: Map<String, Value> =
                    tool.parameters.iter().map(|it| (it.name.clone(), Value::from("nowhere"))).collect();
                for arguments in [Map::new(), nowhere] {
                    if tool.call(&world, &mut session, &arguments).is_err() {
                        assert_eq!(session, state, "{}", tool.name);
                    }
                    session = state.clone();
                }
            }
        }
    }
}
