//! Decoding steps on a GPU that are captured once for each shape, and launched again with one call (CUDA graphs).

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex},
};

use crate::{
    PageSlots, PagedCache, PagesSeen, Params, RecurrentRows, RecurrentState, Tape, Var,
    cuda::{
        Cuda,
        capture::Graph,
        lock,
        memory::Reserve,
        ops::decode::{Lists, Seen, Slots},
        ops::recurrent::{Sequences, State},
        tape::Batch,
    },
};

/// The decoding steps of one model over one cache.
///
/// A step's shape is its number of rows and of attention tasks, both rounded up. Padding rows embed id 0, write nothing,
/// attend to nothing and have no state, and no other row depends on them. The first step of a shape runs kernel by kernel.
/// The second is captured, and later ones launch the graph, which uses the same buffers. If a capture fails, all further steps run kernel
/// by kernel with the same results ([`Device::take_notice`](crate::Device::take_notice) says why).
///
/// Parameters and cache must stay at their addresses while a `Steps` lives, and no other thread may use the GPU during a
/// step.
#[derive(Default)]
pub struct Steps {
    of_shapes: HashMap<(usize, usize), Step>,
    /// Memory of intermediate results, shared by all steps because they run one after the other.
    reserve: Reserve,
    cuda: Option<Arc<Cuda>>,
}

/// What a step reads, a row for each sequence.
#[derive(Debug)]
pub struct StepRows {
    ids: Vec<u32>,
    positions: Vec<u32>,
    slots: Vec<usize>,
    lists: Lists,
    states: Vec<Arc<State>>,
}

/// A step of one shape: handles for the operations of the forward pass. The numbers on the GPU change from step to step.
pub struct Step {
    /// Ids, for [`Tape::embed`].
    pub ids: Arc<[u32]>,
    /// Positions, for [`Tape::rope`].
    pub positions: Arc<[u32]>,
    /// Where the rows are written.
    pub slots: PageSlots,
    /// What the rows see.
    pub seen: PagesSeen,
    /// The states that the rows go on from; `None` if no layer is recurrent.
    pub recurrent: Option<RecurrentRows>,
    batch: Arc<Mutex<Batch>>,
    /// The result of the step before, which stays where it is.
    out: Option<Var>,
    graph: Option<Graph>,
}

impl StepRows {
    /// Rows that read these ids at these positions, are written to `slots` ([`Tape::page_slots`]), and see the pages of
    /// `seen` ([`Tape::pages_seen`]).
    ///
    /// # Panics
    /// If there is not one of each for every row, the cache has no such page, or a row sees nothing.
    #[must_use]
    pub fn new<R: IntoIterator<Item = (usize, usize)>>(
        cache: &PagedCache,
        ids: Vec<u32>,
        positions: Vec<u32>,
        slots: Vec<usize>,
        seen: impl IntoIterator<Item = R>,
    ) -> Self {
        let lists = Lists::new(&cache.lock(), seen);
        assert_eq!(
            [positions.len(), slots.len(), lists.rows()],
            [ids.len(); 3],
            "positions, slots and what is seen of each row"
        );
        StepRows { ids, positions, slots, lists, states: Vec::new() }
    }

    /// The rows also go on from these states, which move on.
    ///
    /// # Panics
    /// If there is not one for every row.
    #[must_use]
    pub fn with_states<'s>(self, states: impl IntoIterator<Item = &'s RecurrentState>) -> Self {
        let states: Vec<_> = states.into_iter().map(|state| Arc::clone(&state.state)).collect();
        assert_eq!(states.len(), self.ids.len(), "a state for each row");
        StepRows { states, ..self }
    }
}

impl Steps {
    /// The result of `forward` for these rows, followed by padding rows. `forward` runs the model on the tape and must do
    /// the same work every time. Does not wait for the GPU.
    ///
    /// # Panics
    /// If the parameters are on the host.
    #[expect(clippy::expect_used, reason = "documented: a mistake of the program")]
    pub fn run<'p>(
        &mut self,
        params: &'p Params,
        cache: &PagedCache,
        rows: StepRows,
        forward: impl Fn(&mut Tape<'p>, &Step) -> Var,
    ) -> Var {
        let cuda = params.device().gpu().expect("a step on a GPU with parameters on the host");
        self.cuda.get_or_insert_with(|| Arc::clone(cuda));
        // The number of tasks grows with the sequences, so it has fewer shapes. Empty tasks cost little.
        let shape = (round_up(rows.ids.len(), 8), round_up(rows.lists.tasks(), 4));
        let step = self.of_shapes.entry(shape).or_insert_with(|| Step::new(cuda, shape, &rows));
        step.fill(cache, rows);
        if step.graph.is_none() && step.out.is_some() && cuda.uses_graphs() {
            // Dropped during the capture, so that its memory goes to the reserve for the new result.
            let out = step.out.take();
            let captured = cuda.capture(&mut self.reserve, || {
                drop(out);
                step.forward(params, &forward)
            });
            match captured {
                Ok((graph, out)) => (step.graph, step.out) = (Some(graph), Some(out)),
                Err(error) => cuda.refuse_graphs(error),
            }
        }
        let out = match (&mut step.graph, &step.out) {
            (Some(graph), Some(out)) => {
                graph.launch();
                out.clone()
            }
            _ => cuda.within(&mut self.reserve, || step.forward(params, &forward)),
        };
        step.out.insert(out).clone()
    }

    /// Number of shapes that were captured.
    #[must_use]
    pub fn captured(&self) -> usize {
        self.of_shapes.values().filter(|step| step.graph.is_some()).count()
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.of_shapes.clear();
        if let Some(cuda) = &self.cuda {
            cuda.dissolve(std::mem::take(&mut self.reserve));
        }
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Steps of {} shapes", self.of_shapes.len())
    }
}

impl Step {
    fn new(cuda: &Arc<Cuda>, (rows, tasks): (usize, usize), first: &StepRows) -> Self {
        let padded = |numbers: &[u32]| {
            let mut numbers = numbers.to_vec();
            numbers.resize(rows, 0);
            Arc::from(numbers)
        };
        Step {
            ids: padded(&first.ids),
            positions: padded(&first.positions),
            slots: PageSlots { slots: Slots::with_room(cuda, rows) },
            seen: PagesSeen { seen: Seen::with_room(cuda, rows, tasks) },
            recurrent: (!first.states.is_empty())
                .then(|| RecurrentRows { sequences: Sequences::with_room(cuda, rows) }),
            batch: Arc::new(Mutex::new(Batch::of_step())),
            out: None,
            graph: None,
        }
    }

    fn fill(&mut self, cache: &PagedCache, rows: StepRows) {
        lock(&self.batch).fill(&rows.ids, &rows.positions);
        self.slots.slots.fill(&cache.lock(), &rows.slots);
        self.seen.seen.fill(rows.lists);
        if let Some(recurrent) = &mut self.recurrent {
            recurrent.sequences.fill(rows.states);
        }
    }

    fn forward<'p>(&self, params: &'p Params, forward: impl Fn(&mut Tape<'p>, &Step) -> Var) -> Var {
        forward(&mut Tape::inference(params).of_step(&self.batch), self)
    }
}

/// The next number of which there are `classes` / 2 per doubling.
fn round_up(n: usize, classes: usize) -> usize {
    n.next_multiple_of((n.next_power_of_two() / classes).max(1))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::{
        DeltaInputs, DeltaShape, Device, HeadShape, KV_ROWS, Param, Precision, Rope,
        cuda::testing::{PRECISIONS, device, is_real, refuse_overlaps},
        testing::{random, random_ids},
    };

    const SHAPE: HeadShape = HeadShape { heads: 4, kv_heads: 2, head_dim: 16 };
    const WIDTH: usize = 24;
    const VOCAB: usize = 40;
    const PAGES: usize = 11 * 20;

    /// A layer of attention over pages.
    struct Layer {
        params: Params,
        table: Param,
        maps: [Param; 4],
        rope: Arc<Rope>,
        cache: PagedCache,
    }

    impl Layer {
        fn new(cuda: &Arc<Cuda>, precision: Precision) -> Self {
            let mut params = Params::new().in_precision(precision);
            let mut add = |rows, cols| {
                let param = params.add("matrix", &[rows, cols], true);
                params.get_mut(param).copy_from_slice(&random(rows as u64, rows * cols));
                param
            };
            let table = add(VOCAB, WIDTH);
            let [q, kv] = [SHAPE.width(), SHAPE.kv_width()];
            let maps = [(q, WIDTH), (kv, WIDTH), (kv, WIDTH), (WIDTH, q)].map(|(rows, cols)| add(rows, cols));
            let params = params.on(&Device::from(Arc::clone(cuda)));
            let cache = PagedCache::beside(&params, 1, kv, PAGES).unwrap();
            let rope = Arc::new(Rope::new((0..8).map(|i| 0.5_f32.powi(i)).collect(), 1.0));
            Layer { params, table, maps, rope, cache }
        }

        fn forward(
            &self,
            tape: &mut Tape<'_>,
            ids: &[u32],
            positions: &Arc<[u32]>,
            (slots, seen): (&PageSlots, &PagesSeen),
        ) -> Var {
            let x = tape.embed(self.table, ids);
            let [q, k, v] = [0, 1, 2].map(|map| tape.linear(&x, self.maps[map], None));
            let [q, k] = [q, k].map(|x| tape.rope(x, SHAPE.head_dim, &self.rope, positions));
            tape.write_pages(&self.cache, 0, slots, &k, &v);
            let mixed = tape.paged_attention(&q, SHAPE, &self.cache, 0, seen);
            tape.linear(&mixed, self.maps[3], None)
        }

        /// A step as [`Steps`] does it, of the sequences that are given: each has its number and what it reads next.
        fn step(&self, steps: &mut Steps, sequences: &[(usize, u32, usize)]) -> Vec<f32> {
            let (ids, positions, slots, seen) = inputs(sequences);
            let positions = positions.to_vec();
            let rows = StepRows::new(&self.cache, ids, positions, slots, seen);
            let out = steps.run(&self.params, &self.cache, rows, |tape, step| {
                self.forward(tape, &step.ids, &step.positions, (&step.slots, &step.seen))
            });
            let all = out.on_host().unwrap();
            assert!(all.iter().all(|x| x.is_finite()), "rows that pad the step");
            all[..sequences.len() * WIDTH].to_vec()
        }

        /// The same without.
        fn plain(&self, sequences: &[(usize, u32, usize)]) -> Vec<f32> {
            let (ids, positions, slots, seen) = inputs(sequences);
            let mut tape = Tape::inference(&self.params);
            let (slots, seen) = (tape.page_slots(&self.cache, &slots), tape.pages_seen(&self.cache, seen));
            self.forward(&mut tape, &ids, &positions, (&slots, &seen)).on_host().unwrap().to_vec()
        }
    }

    type Inputs = (Vec<u32>, Arc<[u32]>, Vec<usize>, Vec<Vec<(usize, usize)>>);

    /// A sequence with the number `i` has the pages `20 i..20 i + 20`.
    fn inputs(sequences: &[(usize, u32, usize)]) -> Inputs {
        let ids = sequences.iter().map(|&(_, id, _)| id).collect();
        let positions = sequences.iter().map(|&(_, _, row)| row as u32).collect();
        let slots = sequences.iter().map(|&(at, _, row)| at * 20 * KV_ROWS + row).collect();
        let seen = |&(at, _, row): &(usize, u32, usize)| {
            (0..=row / KV_ROWS)
                .map(|page| (at * 20 + page, (row + 1 - page * KV_ROWS).min(KV_ROWS)))
                .collect()
        };
        (ids, positions, slots, sequences.iter().map(seen).collect())
    }

    /// What each of several steps reads: the shapes of the last ones have rows and tasks to spare.
    fn several() -> Vec<Vec<(usize, u32, usize)>> {
        let ids = random_ids(5, 400, VOCAB);
        let step = |row: usize| {
            let sequences = if row < 9 { 0..11 } else { 1..10 };
            // One sequence is so long that it has two tasks.
            let at = |sequence: usize| row + if sequence == 1 { 255 } else { 0 };
            sequences.map(|of| (of, ids[11 * row + of], at(of))).collect()
        };
        let long: Vec<_> = (0..255).map(|row| vec![(1, ids[row], row)]).collect();
        long.into_iter().chain((0..20).map(step)).collect()
    }

    #[test]
    fn captured_steps_give_the_bits_of_plain_ones() {
        let Some(cuda) = device() else { return };
        for (precision, _) in PRECISIONS {
            let [ours, plain] = [(); 2].map(|()| Layer::new(&cuda, precision));
            let mut steps = Steps::default();
            for (at, rows) in several().iter().enumerate() {
                assert_eq!(ours.step(&mut steps, rows), plain.plain(rows), "step {at} in {precision:?}");
            }
            let mut shapes: Vec<_> = steps.of_shapes.keys().copied().collect();
            shapes.sort_unstable();
            assert_eq!((shapes, steps.captured()), (vec![(1, 1), (10, 12), (12, 12)], 3));
            assert!(cuda.uses_graphs());
        }
    }

    const RULE: DeltaShape = DeltaShape { key_heads: 1, value_heads: 2, key_dim: 4, value_dim: 4 };
    const TAPS: usize = 3;

    /// A delta rule behind a short convolution.
    struct Recurrent {
        params: Params,
        table: Param,
        conv: Param,
        maps: [Param; 2],
        rates: [Param; 2],
        cache: PagedCache,
        states: Vec<RecurrentState>,
    }

    impl Recurrent {
        fn new(cuda: &Arc<Cuda>, precision: Precision) -> Self {
            let mut params = Params::new().in_precision(precision);
            let mut add = |shape: &[usize]| {
                let param = params.add("", shape, true);
                params.get_mut(param).copy_from_slice(&random(param.offset as u64 + 1, param.len()));
                param
            };
            let (table, conv) = (add(&[VOCAB, WIDTH]), add(&[WIDTH, 1, TAPS]));
            let maps = [add(&[20, WIDTH]), add(&[WIDTH, 8])];
            let rates = [(); 2].map(|()| add(&[RULE.value_heads]));
            let params = params.on(&Device::from(Arc::clone(cuda)));
            let cache = PagedCache::beside(&params, 1, 4, 12).unwrap();
            let state = || RecurrentState::beside(&params, 1, (TAPS - 1) * WIDTH, RULE.state_len()).unwrap();
            let states = (0..12).map(|_| state()).collect();
            Recurrent { params, table, conv, maps, rates, cache, states }
        }

        fn forward(&self, tape: &mut Tape<'_>, ids: &[u32], rows: &RecurrentRows) -> Var {
            let x = tape.embed(self.table, ids);
            let x = tape.short_conv_continued(&x, self.conv, rows, 0);
            let x = tape.linear(&x, self.maps[0], None);
            let mut part = |start, width| tape.columns(&x, 20, start, width);
            let [q, k, v, decay, rate] =
                [(0, 4), (4, 4), (8, 8), (16, 2), (18, 2)].map(|(start, width)| part(start, width));
            let [q, k] = [q, k].map(|x| tape.unit_heads(&x, RULE.key_dim, 1.0));
            let log_decay = tape.log_decay(&decay, self.rates[0], self.rates[1]);
            let beta = tape.sigmoid(&rate);
            let inputs = DeltaInputs { q: &q, k: &k, v: &v, log_decay: &log_decay, beta: &beta };
            let mixed = tape.delta_rule_continued(inputs, RULE, rows, 0);
            tape.linear(&mixed, self.maps[1], None)
        }

        fn step(&self, steps: &mut Steps, sequences: &[usize], ids: &[u32]) -> Vec<f32> {
            let seen = sequences.iter().map(|&of| vec![(of, 1)]);
            let slots = sequences.iter().map(|of| of * KV_ROWS).collect();
            let rows = StepRows::new(&self.cache, ids.to_vec(), vec![0; ids.len()], slots, seen);
            let rows = rows.with_states(sequences.iter().map(|&of| &self.states[of]));
            let out = steps.run(&self.params, &self.cache, rows, |tape, step| {
                self.forward(tape, &step.ids, step.recurrent.as_ref().unwrap())
            });
            let all = out.on_host().unwrap();
            assert!(all[ids.len() * WIDTH..].iter().all(|&x| x == 0.0), "rows that pad the step");
            all[..ids.len() * WIDTH].to_vec()
        }

        fn plain(&self, sequences: &[usize], ids: &[u32]) -> Vec<f32> {
            let mut tape = Tape::inference(&self.params);
            let states: Vec<_> = sequences.iter().map(|&of| &self.states[of]).collect();
            let rows = tape.recurrent_rows(&states, &vec![1; ids.len()]);
            self.forward(&mut tape, ids, &rows).on_host().unwrap().to_vec()
        }
    }

    #[test]
    fn captured_steps_move_the_states_of_their_own_sequences() {
        let Some(cuda) = device() else { return };
        for (precision, _) in PRECISIONS {
            let [ours, plain] = [(); 2].map(|()| Recurrent::new(&cuda, precision));
            let (mut steps, ids) = (Steps::default(), random_ids(5, 12 * 12, VOCAB));
            for at in 0..12 {
                // Eleven sequences pad a step of twelve; later others, in another order, a step of ten.
                let sequences: Vec<usize> = if at < 5 { (0..11).collect() } else { (2..11).rev().collect() };
                let ids = &ids[12 * at..][..sequences.len()];
                let expected = plain.plain(&sequences, ids);
                assert_eq!(ours.step(&mut steps, &sequences, ids), expected, "step {at} in {precision:?}");
            }
            assert_eq!(steps.captured(), 2);
        }
    }

    #[test]
    fn a_captured_step_launches_nothing_by_itself() {
        let Some(cuda) = device() else { return };
        let (layer, mut steps) = (Layer::new(&cuda, Precision::Bf16), Steps::default());
        let launches = || lock(&cuda.launched).values().sum::<usize>();
        let mut of_steps = Vec::new();
        for row in 0..4 {
            let before = launches();
            layer.step(&mut steps, &[(0, row, row as usize)]);
            of_steps.push(launches() - before);
        }
        // The second is captured. Reading the result in f32 is a launch.
        assert!(of_steps[1] > 5, "{of_steps:?}");
        assert_eq!(of_steps[2..], [1, 1]);
    }

    #[test]
    fn work_that_cannot_be_captured_is_done_kernel_by_kernel_and_the_reason_is_told_once() {
        let Some(cuda) = device() else { return };
        let [ours, plain] = [(); 2].map(|()| Layer::new(&cuda, Precision::F32));
        let device = Device::from(Arc::clone(&cuda));
        let mut steps = Steps::default();
        for row in 0..5 {
            let rows = [(0, row, row as usize)];
            let (ids, positions, slots, seen) = inputs(&rows);
            let step = StepRows::new(&ours.cache, ids, positions.to_vec(), slots, seen);
            let out = steps.run(&ours.params, &ours.cache, step, |tape, step| {
                let out = ours.forward(tape, &step.ids, &step.positions, (&step.slots, &step.seen));
                let on_host = out.on_host().map_or_else(|_| vec![0.0; WIDTH], |out| out.to_vec());
                tape.external(1, WIDTH, on_host)
            });
            assert_eq!(out.on_host().unwrap().to_vec(), plain.plain(&rows), "step {row}");
            let told = device.take_notice();
            assert_eq!(told.is_some(), row == 1, "{told:?}");
            assert!(told.is_none_or(|told| told.contains(" can't be part of a CUDA graph")));
        }
        assert_eq!(steps.captured(), 0);
    }

    #[test]
    fn steps_are_the_same_if_the_driver_refuses_kernels_that_overlap_or_their_capture() {
        for refused in 0..3 {
            let Some(cuda) = device() else { return };
            if refused > 0 {
                if is_real() {
                    return;
                }
                refuse_overlaps(&cuda, refused);
            }
            let [ours, plain] = [(); 2].map(|()| Layer::new(&cuda, Precision::F32));
            let mut steps = Steps::default();
            for row in 0..5 {
                let rows = [(0, row, row as usize)];
                assert_eq!(ours.step(&mut steps, &rows), plain.plain(&rows), "step {row}, {refused}");
            }
            assert_eq!((cuda.overlaps.load(Ordering::Relaxed), steps.captured()), (refused == 0, 1));
            assert_eq!(Device::from(Arc::clone(&cuda)).take_notice(), None);
        }
    }

    #[test]
    fn shapes_are_few_and_hold_what_they_are_for() {
        for classes in [4, 8] {
            let mut shapes: Vec<usize> = (1..=1024).map(|n| round_up(n, classes)).collect();
            assert!(shapes.iter().zip(1..).all(|(&shape, n)| shape >= n && shape < n + n.div_ceil(2)));
            shapes.dedup();
            assert!(shapes.len() <= 10 * classes / 2 + 2, "{shapes:?}");
        }
        assert_eq!([1, 2, 5, 9, 64, 65].map(|n| round_up(n, 8)), [1, 2, 5, 10, 64, 80]);
    }
}
