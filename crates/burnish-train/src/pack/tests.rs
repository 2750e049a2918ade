use proptest::prelude::*;

use super::*;

/// A sample of `prompt` followed by `answer`, of which every token is scored.
fn sample(prompt: &[u32], answer: &[u32]) -> Sample {
    let ids = [prompt, answer].concat();
    let tokens = ids.len();
    Sample {
        loss_mask: (0..tokens).map(|at| at > 0 && at >= prompt.len()).collect(),
        model_logprobs: vec![0.0; tokens],
        sampled_logprobs: vec![0.0; tokens],
        temperatures: ids.iter().map(|id| 1.0 + *id as f32).collect(),
        advantages: vec![0.0; tokens],
        ids,
        ..Sample::default()
    }
}

fn prompt(first: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|at| first + at).collect()
}

fn segments(batch: &MicroBatch) -> Vec<(usize, usize, Option<usize>)> {
    batch.layout.segments().iter().map(|s| (s.start, s.len, s.parent)).collect()
}

/// What row `row` reads, oldest first, as the layout defines it.
fn context(batch: &MicroBatch, row: usize) -> Vec<u32> {
    let all = batch.layout.segments();
    let mut at = all.iter().position(|s| (s.start..s.start + s.len).contains(&row)).unwrap();
    let mut context: Vec<u32> = (all[at].start..=row).rev().map(|row| batch.ids[row]).collect();
    while let Some(parent) = all[at].parent {
        at = parent;
        context.extend(all[at].rows().rev().map(|row| batch.ids[row]));
    }
    context.reverse();
    context
}

#[test]
fn rollouts_of_one_prompt_share_it() {
    let prompt = prompt(100, 20);
    let group = [sample(&prompt, &[1, 2, 3]), sample(&prompt, &[4, 5]), sample(&prompt, &[6])];
    let batches = pack(&group, 1000);
    assert_eq!(batches.len(), 1);
    // The last token of an answer is only ever a target, so the third rollout adds no row.
    assert_eq!(segments(&batches[0]), [(0, 20, None), (20, 2, Some(0)), (22, 1, Some(0))]);
    assert_eq!(batches[0].ids.len(), 23);
    assert_eq!(&batches[0].positions[19..], [19, 20, 21, 20]);
    assert_eq!(batches[0].rows, [19, 20, 21, 19, 22, 19]);
    assert_eq!(batches[0].targets, [1, 2, 3, 4, 5, 6]);
    assert_eq!(batches[0].sequences, [0..3, 3..5, 5..6]);
}

#[test]
fn a_noised_sample_shares_nothing_and_predicts_its_tokens_where_they_are() {
    let prompt = prompt(100, 20);
    let plain = sample(&prompt, &[1, 2, 3]);
    let mut noised = plain.clone();
    let mut read = noised.ids.clone();
    (read[20], read[22]) = (0, 0);
    (noised.noised, noised.loss_mask[21]) = (Some(read.clone()), false);
    let batches = pack(&[plain.clone(), noised.clone(), plain.clone(), noised], 1000);
    assert_eq!(batches.len(), 1);
    assert_eq!(segments(&batches[0]), [(0, 22, None), (22, 23, None), (45, 22, None), (67, 23, None)]);
    let causal: Vec<bool> =
        batches[0].layout.segments().iter().map(burnish_tensor::Segment::is_causal).collect();
    assert_eq!(causal, [true, false, true, false]);
    assert_eq!(batches[0].rows, [19, 20, 21, 42, 44, 64, 65, 66, 87, 89]);
    assert_eq!(batches[0].targets, [1, 2, 3, 1, 3, 1, 2, 3, 1, 3]);
    assert_eq!(batches[0].ids[22..45], read[..]);
    // One that has no room beside others is put into a batch of its own.
    assert_eq!(pack(&[plain.clone(), plain.clone(), plain], 24).len(), 1);
    let noised = Sample { noised: Some(read), ..sample(&prompt, &[1, 2, 3]) };
    assert_eq!(pack(&[noised.clone(), noised.clone(), noised], 46).len(), 2);
}

#[test]
fn a_prefix_below_the_minimum_is_not_shared() {
    let prompt = prompt(100, SHARED_TOKENS_MIN - 1);
    let batches = pack(&[sample(&prompt, &[1, 2, 3]), sample(&prompt, &[4, 5, 6])], 1000);
    assert!(batches[0].layout.segments().iter().all(|segment| segment.parent.is_none()));
}

#[test]
fn deeper_prefixes_form_a_tree() {
    let root = prompt(100, 20);
    let left = [root.clone(), prompt(200, 20)].concat();
    let group = [sample(&left, &[1, 2]), sample(&left, &[3, 4]), sample(&root, &[5, 6])];
    assert_eq!(
        segments(&pack(&group, 1000)[0]),
        [(0, 20, None), (20, 20, Some(0)), (40, 1, Some(1)), (41, 1, Some(1)), (42, 1, Some(0))]
    );
}

#[test]
fn identical_samples_are_computed_once_and_scored_twice() {
    let one = sample(&prompt(100, 20), &[1, 2]);
    let batches = pack(&[one.clone(), one], 1000);
    assert_eq!(batches[0].ids.len(), 21);
    assert_eq!(batches[0].rows, [19, 20, 19, 20]);
}

#[test]
fn the_budget_counts_rows_after_sharing_and_a_long_sample_stands_alone() {
    let prompt = prompt(100, 20);
    let answers: Vec<Sample> = (0..4).map(|first| sample(&prompt, &[first; 6])).collect();
    // 20 + 5 + 5 rows fit into 30, so four rollouts take two micro-batches.
    let taken: Vec<Vec<usize>> = pack(&answers, 30).into_iter().map(|batch| batch.samples).collect();
    assert_eq!(taken, [[0, 1], [2, 3]]);
    let taken: Vec<Vec<usize>> = pack(&answers, 10).into_iter().map(|batch| batch.samples).collect();
    assert_eq!(taken, [[0], [1], [2], [3]]);
}

#[test]
fn a_sample_without_scored_tokens_is_in_no_micro_batch() {
    let mut silent = sample(&[1, 2, 3], &[4]);
    silent.loss_mask = vec![false; 4];
    let batches = pack(&[silent.clone(), sample(&[1, 2], &[3]), silent], 100);
    assert_eq!(batches.len(), 1);
    assert_eq!(batches[0].samples, [1]);
}

/// Samples that often begin alike: few ids, and prompts from a small pool of nested ones.
fn any_samples() -> impl Strategy<Value = Vec<Sample>> {
    let one = (0u32..3, 0usize..60, prop::collection::vec((0u32..3, any::<bool>()), 1..30)).prop_map(
        |(family, prompt_len, tail)| {
            let prompt: Vec<u32> = (0..prompt_len as u32).map(|at| (at * (family + 1)) % 7).collect();
            let mut sample = sample(&prompt, &tail.iter().map(|(id, _)| *id).collect::<Vec<_>>());
            for (at, (_, is_scored)) in tail.iter().enumerate() {
                sample.loss_mask[prompt_len + at] &= is_scored;
            }
            sample
        },
    );
    prop::collection::vec(one, 0..12)
}

proptest! {
    #[test]
    fn every_scored_token_is_predicted_from_exactly_the_tokens_before_it(
        samples in any_samples(),
        tokens_max in 1usize..200,
    ) {
        let batches = pack(&samples, tokens_max);
        let mut seen = Vec::new();
        for batch in &batches {
            prop_assert_eq!(batch.ids.len(), batch.layout.rows());
            prop_assert!(batch.ids.len() <= tokens_max || batch.samples.len() == 1);
            for (&index, range) in batch.samples.iter().zip(&batch.sequences) {
                let sample = &samples[index];
                prop_assert_eq!(range.len(), sample.scored_tokens());
                for (token, at) in sample.scored().zip(range.clone()) {
                    let row = batch.rows[at] as usize;
                    prop_assert_eq!(context(batch, row), &sample.ids[..token]);
                    prop_assert_eq!(batch.positions[row] as usize, token - 1);
                    prop_assert_eq!(batch.targets[at], sample.ids[token]);
                    prop_assert_eq!(batch.temperatures[at], sample.temperatures[token]);
                }
                seen.push(index);
            }
        }
        let scored = (0..samples.len()).filter(|&at| samples[at].scored_tokens() > 0);
        prop_assert_eq!(seen, scored.collect::<Vec<_>>());
    }
}
