//! Taps: what they see agrees with transformers, looking changes no bit, and what they change goes on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burnish_model::{Marked, Model, Packed, Tap};
use burnish_tensor::{Layout, Param, Segment, Tape, Var};
use serde::Deserialize;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Made by `golden/make_taps.py`, for the longest prompt.
#[derive(Deserialize)]
struct Expected {
    marked: Vec<usize>,
    attention: Vec<Option<Vec<f32>>>,
    exits: Vec<Vec<f32>>,
}

fn expected() -> BTreeMap<String, Expected> {
    serde_json::from_str(&std::fs::read_to_string(golden("taps.json")).unwrap()).unwrap()
}

fn prompt(name: &str) -> Vec<u32> {
    #[derive(Deserialize)]
    struct Prompts {
        prompts: Vec<Vec<u32>>,
    }
    let text = std::fs::read_to_string(golden(name).join("expected.json")).unwrap();
    let Prompts { prompts } = serde_json::from_str(&text).unwrap();
    prompts.into_iter().max_by_key(Vec::len).unwrap()
}

/// Keeps everything that it is shown.
#[derive(Default)]
struct Witness {
    marked: Marked,
    attention: BTreeMap<usize, Vec<f32>>,
    hidden: Vec<Var>,
}

impl Tap for Witness {
    fn hidden(&mut self, _tape: &mut Tape<'_>, layer: usize, hidden: Var) -> Var {
        assert_eq!(layer, self.hidden.len());
        self.hidden.push(hidden.clone());
        hidden
    }

    fn marked(&self) -> &[Marked] {
        std::slice::from_ref(&self.marked)
    }

    fn attention(&mut self, _tape: &mut Tape<'_>, layer: usize, _set: usize, share: Var) {
        self.attention.insert(layer, share.data().to_vec());
    }
}

fn packed(model: &Model, lens: &[usize]) -> (Arc<[u32]>, Packed) {
    let positions = lens.iter().flat_map(|&len| 0..len as u32).collect();
    (positions, Packed { layout: Arc::new(Layout::causal(lens)), shape: model.head_shape() })
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn what_is_seen_agrees_with_transformers_and_looking_changes_no_bit() {
    for (name, expected) in expected() {
        let model = Model::load(&golden(&name)).unwrap();
        let ids = prompt(&name);
        let (positions, mixer) = packed(&model, &[ids.len()]);
        let mut flags = vec![false; ids.len()];
        expected.marked.iter().for_each(|&at| flags[at] = true);
        let mut witness = Witness { marked: Marked(vec![Arc::from(flags)]), ..Witness::default() };
        let mut tape = Tape::inference(&model.params);
        let seen = model.forward_tapped(&mut tape, &ids, &positions, &mut mixer.clone(), &mut witness);
        let unseen = model.forward(&mut tape, &ids, &positions, &mut mixer.clone());
        assert_eq!(seen.data(), unseen.data(), "{name}");

        assert_eq!(
            witness.hidden.len(),
            expected.exits.len() + 1,
            "the embedding, and what leaves each layer"
        );
        for (layer, theirs) in expected.attention.iter().enumerate() {
            match (witness.attention.get(&layer), theirs) {
                (Some(ours), Some(theirs)) => {
                    assert!(largest_difference(ours, theirs) < 1e-5, "{name} {layer}")
                }
                (ours, theirs) => assert_eq!(ours.is_some(), theirs.is_some(), "{name} {layer}"),
            }
        }
        for (hidden, theirs) in witness.hidden[1..].iter().zip(&expected.exits) {
            let last = tape.gather(hidden, &[ids.len() as u32 - 1]);
            let ours = model.exit_logits(&mut tape, &last);
            let difference = largest_difference(ours.data(), theirs);
            assert!(difference < 1e-4, "{name}: {difference}");
        }
    }
}

/// Keeps the shares of every set at every layer.
struct Sets {
    marked: Vec<Marked>,
    shares: BTreeMap<(usize, usize), Vec<f32>>,
}

impl Tap for Sets {
    fn marked(&self) -> &[Marked] {
        &self.marked
    }

    fn attention(&mut self, _tape: &mut Tape<'_>, layer: usize, set: usize, share: Var) {
        self.shares.insert((layer, set), share.data().to_vec());
    }
}

#[test]
fn any_number_of_sets_is_told_apart_and_all_tokens_have_all_of_the_attention() {
    for name in ["qwen3", "qwen3-masked"] {
        let model = Model::load(&golden(name)).unwrap();
        let ids: Vec<u32> = (0..31).map(|at| (at * at + 3) % 66).collect();
        let sets = |marked: &[Vec<usize>]| {
            let flags = |marked: &Vec<usize>| (0..ids.len()).map(|at| marked.contains(&at)).collect();
            let marked = marked.iter().map(|marked| Marked(vec![flags(marked)])).collect();
            let mut tap = Sets { marked, shares: BTreeMap::new() };
            let layout = Arc::new(Layout::roots(&[ids.len()], model.visibility()));
            let mut mixer = Packed { layout, shape: model.head_shape() };
            let positions: Arc<[u32]> = (0..ids.len() as u32).collect();
            let mut tape = Tape::inference(&model.params);
            model.forward_tapped(&mut tape, &ids, &positions, &mut mixer, &mut tap);
            tap.shares
        };
        // More sets than a head has columns, which are 12.
        let each = sets(&(0..ids.len()).map(|at| vec![at]).collect::<Vec<_>>());
        let some = sets(&[vec![0, 5, 30]]);
        for layer in 0..model.config.num_hidden_layers {
            let sum = |of: &[usize]| -> Vec<f32> {
                let mut sum = vec![0.0; some[&(layer, 0)].len()];
                for at in of {
                    sum.iter_mut().zip(&each[&(layer, *at)]).for_each(|(sum, share)| *sum += share);
                }
                sum
            };
            let all: Vec<usize> = (0..ids.len()).collect();
            assert!(sum(&all).iter().all(|sum| (sum - 1.0).abs() < 1e-5), "{name} {layer}");
            assert!(largest_difference(&sum(&[0, 5, 30]), &some[&(layer, 0)]) < 1e-6, "{name} {layer}");
        }
        // Only from left to right has a later token nothing of an earlier one's attention.
        let heads = model.head_shape().heads;
        let first_row_on_last: f32 = each[&(0, 30)][..heads].iter().sum();
        assert_eq!(first_row_on_last > 0.0, name == "qwen3-masked");
    }
}

#[test]
fn segments_are_marked_row_by_row_where_they_share_a_beginning() {
    let model = Model::load(&golden("qwen3")).unwrap();
    let ids: Vec<u32> = vec![3, 1, 4, 1, 5, 9, 2, 6];
    let flags = |marked: &[usize]| (0..8).map(|at| marked.contains(&at)).collect::<Vec<bool>>();
    let alone = |ids: &[u32], marked: &[usize]| {
        let (positions, mut mixer) = packed(&model, &[ids.len()]);
        let marked = Marked(vec![Arc::from(flags(marked))]);
        let mut witness = Witness { marked, ..Witness::default() };
        let mut tape = Tape::inference(&model.params);
        model.forward_tapped(&mut tape, ids, &positions, &mut mixer, &mut witness);
        witness.attention
    };
    // Two continuations of the first four tokens: 5, 9 and 2, 6.
    let segments =
        vec![Segment::causal(0, 4, None), Segment::causal(4, 2, Some(0)), Segment::causal(6, 2, Some(0))];
    let layout = Arc::new(Layout::new(segments).unwrap());
    let positions: Arc<[u32]> = Arc::from([0, 1, 2, 3, 4, 5, 4, 5]);
    let marked = [flags(&[1, 2]), flags(&[0]), flags(&[])].map(Arc::from).to_vec();
    let mut witness = Witness { marked: Marked(marked), ..Witness::default() };
    let mut mixer = Packed { layout, shape: model.head_shape() };
    let mut tape = Tape::inference(&model.params);
    model.forward_tapped(&mut tape, &ids, &positions, &mut mixer, &mut witness);

    let heads = model.head_shape().heads;
    let first = alone(&[3, 1, 4, 1, 5, 9], &[1, 2, 4]);
    let second = alone(&[3, 1, 4, 1, 2, 6], &[1, 2]);
    for (layer, together) in &witness.attention {
        assert!(largest_difference(&together[..6 * heads], &first[layer]) < 1e-6);
        assert!(largest_difference(&together[6 * heads..], &second[layer][4 * heads..]) < 1e-6);
        assert!(together.iter().all(|share| (0.0..=1.0 + 1e-6).contains(share)));
    }
}

/// Adds to one number of the residual stream at one layer.
struct Nudge {
    layer: usize,
    row: usize,
    by: f32,
}

impl Tap for Nudge {
    fn hidden(&mut self, tape: &mut Tape<'_>, layer: usize, hidden: Var) -> Var {
        if layer != self.layer {
            return hidden;
        }
        let mut change = vec![0.0; hidden.rows() * hidden.cols()];
        change[self.row * hidden.cols()] = self.by;
        let change = tape.external(hidden.rows(), hidden.cols(), change);
        tape.add(&hidden, &change)
    }
}

#[test]
fn what_is_replaced_goes_on_and_only_later_tokens_see_it() {
    for name in ["qwen3", "qwen3_5"] {
        let model = Model::load(&golden(name)).unwrap();
        let ids = [3, 1, 4, 1, 5];
        let (positions, mixer) = packed(&model, &[ids.len()]);
        let mut tape = Tape::inference(&model.params);
        let mut run = |tap: &mut dyn Tap| {
            model.forward_tapped(&mut tape, &ids, &positions, &mut mixer.clone(), tap).data().to_vec()
        };
        let plain = run(&mut ());
        for layer in 0..=model.config.num_hidden_layers {
            assert_eq!(
                run(&mut Nudge { layer, row: 2, by: 0.0 }),
                plain,
                "nothing is added at layer {layer}"
            );
            let nudged = run(&mut Nudge { layer, row: 2, by: 0.5 });
            let width = model.config.hidden_size;
            let changed: Vec<bool> =
                nudged.chunks(width).zip(plain.chunks(width)).map(|(a, b)| a != b).collect();
            let sees_later = layer < model.config.num_hidden_layers;
            assert_eq!(changed, [false, false, true, sees_later, sees_later], "{name}, layer {layer}");
        }
    }
}

/// Keeps what every linear map reads, and the residual stream.
#[derive(Default)]
struct Inputs {
    of_maps: BTreeMap<String, Var>,
    hidden: Vec<Var>,
}

impl Tap for Inputs {
    fn hidden(&mut self, _tape: &mut Tape<'_>, _layer: usize, hidden: Var) -> Var {
        self.hidden.push(hidden.clone());
        hidden
    }

    fn wants_inputs(&self) -> bool {
        true
    }

    fn inputs(&mut self, maps: &[&str], x: &Var) {
        for map in maps {
            let before = self.of_maps.insert((*map).to_owned(), x.clone());
            assert!(before.is_none(), "{map} is shown twice");
        }
    }
}

#[test]
fn every_linear_map_shows_what_it_reads_and_looking_changes_no_bit() {
    for name in ["qwen3", "llama", "qwen2", "qwen3_5", "rule-delta-net", "rule-kda", "rule-fg2-gdn-plus"] {
        let model = Model::load(&golden(name)).unwrap();
        let ids = [3, 1, 4, 1, 5, 9, 2, 6];
        let (positions, mixer) = packed(&model, &[ids.len()]);
        let mut inputs = Inputs::default();
        let mut tape = Tape::inference(&model.params);
        let seen = model.forward_tapped(&mut tape, &ids, &positions, &mut mixer.clone(), &mut inputs);
        let unseen = model.forward(&mut tape, &ids, &positions, &mut mixer.clone());
        assert_eq!(seen.data(), unseen.data(), "{name}");

        let matrices = model.params.entries().iter().filter(|entry| entry.shape.len() == 2);
        let maps = matrices.filter(|entry| !entry.name.contains("embed_tokens"));
        let maps: BTreeMap<&str, Param> =
            maps.map(|entry| (entry.name.strip_suffix(".weight").unwrap(), entry.param)).collect();
        let shown: Vec<&str> = inputs.of_maps.keys().map(String::as_str).collect();
        assert_eq!(shown, maps.keys().copied().collect::<Vec<_>>(), "{name}");
        for (map, param) in &maps {
            let x = &inputs.of_maps[*map];
            assert_eq!((x.rows(), x.cols()), (ids.len(), param.cols), "{name}: {map}");
        }
        // What a layer adds to the residual stream is what its last two maps make of what they read.
        for layer in 0..model.config.num_hidden_layers {
            let of_layer = format!(".layers.{layer}.");
            let is_last = |map: &&&str| {
                map.contains(&of_layer)
                    && ["o_proj", "out_proj", "down_proj"].iter().any(|end| map.ends_with(end))
            };
            let last: Vec<&&str> = maps.keys().filter(is_last).collect();
            assert_eq!(last.len(), 2, "{name}: {last:?}");
            let mut sum = inputs.hidden[layer].data().to_vec();
            for map in last {
                let y = tape.linear(&inputs.of_maps[*map], maps[*map], None);
                sum.iter_mut().zip(y.data()).for_each(|(sum, y)| *sum += y);
            }
            let difference = largest_difference(&sum, inputs.hidden[layer + 1].data());
            assert!(difference < 1e-5, "{name}, layer {layer}: {difference}");
            let of =
                |map: &str| maps.keys().find(|own| own.contains(&of_layer) && own.ends_with(map)).unwrap();
            let [gate, up] = ["gate_proj", "up_proj"]
                .map(|map| tape.linear(&inputs.of_maps[*of(map)], maps[*of(map)], None));
            let gated = tape.swiglu(&gate, &up);
            assert_eq!(gated.data(), inputs.of_maps[*of("down_proj")].data(), "{name}, layer {layer}");
        }
    }
}
