//! Decoding that sets the last layer's logits against others: those of earlier layers, as a control that looks inside, or
//! those after a prompt with noise in it, as a control that asks for them.
//!
//! ```text
//! DaID  ℒ' = (1 + β)(ℒ + α ℒ_spotlight) - β ℒ_shadow        arXiv:2604.10071
//! DoLa  ℒ' = log p - log p_l                                  arXiv:2309.03883
//! VCD   ℒ' = (1 + α) ℒ - α ℒ_noised                           arXiv:2311.16922
//! all   ℒ'(v) = -inf where p(v) < γ max p
//! ```

use std::sync::Arc;

use burnish_core::{Contrast, Sampling, Span, rng};
use burnish_model::Tokenizer;

use crate::control::{Control, Decision, Inside, Now, Probe, Steer};

/// A control that contrasts logits, for an answer to `prompt`. `None` where nothing can come of it: DaID and VCD without
/// marked tokens, or with weights of 0.
///
/// # Errors
/// If the prompt can't be turned into text, in which the marked part is looked for.
pub(crate) fn control(
    contrast: &Contrast,
    prompt: &[u32],
    tokenizer: &Tokenizer,
) -> Result<Option<Box<dyn Control>>, String> {
    match contrast {
        &Contrast::Daid { alpha, beta, gamma, ref marked } => {
            let marked = marked_tokens(marked, prompt, tokenizer)?;
            if (alpha == 0.0 && beta == 0.0) || !marked.contains(&true) {
                return Ok(None);
            }
            Ok(Some(Box::new(Daid { alpha, beta, gamma, marked })))
        }
        Contrast::Dola { gamma, layers } => {
            Ok(Some(Box::new(Dola { gamma: *gamma, layers: layers.clone() })))
        }
        &Contrast::Vcd { alpha, gamma, noise, seed, ref marked } => {
            let marked = marked_tokens(marked, prompt, tokenizer)?;
            if alpha == 0.0 || !marked.contains(&true) {
                return Ok(None);
            }
            let noised = noised(prompt, &marked, noise, seed, tokenizer);
            Ok(Some(Box::new(Vcd { alpha, gamma, noised: noised.into() })))
        }
    }
}

/// The prompt with this share of its marked tokens replaced by ordinary tokens of the vocabulary, all equally likely.
fn noised(prompt: &[u32], marked: &[bool], noise: f32, seed: u64, tokenizer: &Tokenizer) -> Vec<u32> {
    let is_ordinary = |id: &u32| {
        let text = tokenizer.decode(&[*id], true);
        tokenizer.id_exists(*id) && text.is_ok_and(|text| !text.is_empty())
    };
    let ordinary: Vec<u32> = (0..=tokenizer.id_max().unwrap_or(0)).filter(is_ordinary).collect();
    let mut stream = rng::Stream::new(seed);
    let token = |(&id, &is_marked): (&u32, &bool)| {
        let drawn = stream.below(ordinary.len().max(1) as u64) as usize;
        match ordinary.get(drawn) {
            Some(&other) if is_marked && stream.uniform() < f64::from(noise) => other,
            _ => id,
        }
    };
    prompt.iter().zip(marked).map(token).collect()
}

/// Which tokens of a prompt have a part in a span of its text. Special tokens belong to the text.
///
/// # Errors
/// If ids can't be turned into text.
pub fn marked_tokens(span: &Span, prompt: &[u32], tokenizer: &Tokenizer) -> Result<Arc<[bool]>, String> {
    let bytes = |tokens: usize| match tokenizer.decode(&prompt[..tokens], false) {
        Ok(text) => Ok(text.len()),
        Err(error) => Err(error.to_string()),
    };
    let text = tokenizer.decode(prompt, false).map_err(|error| error.to_string())?;
    let Some(range) = span.find(&text) else { return Ok(Arc::from(vec![false; prompt.len()])) };
    // How many of the first tokens have no byte behind `end`.
    let upto = |end: usize| -> Result<usize, String> {
        let (mut low, mut high) = (0, prompt.len());
        while low < high {
            let middle = usize::midpoint(low, high + 1);
            if bytes(middle)? <= end { low = middle } else { high = middle - 1 }
        }
        Ok(low)
    };
    let (first, whole) = (upto(range.start)?, upto(range.end)?);
    // A token that begins in the span and ends behind it has a part in it.
    let last = if bytes(whole)? < range.end { whole + 1 } else { whole };
    Ok((0..prompt.len()).map(|at| (first..last).contains(&at)).collect())
}

/// Dual-anchor introspective decoding.
#[derive(Debug)]
struct Daid {
    alpha: f32,
    beta: f32,
    gamma: f32,
    marked: Arc<[bool]>,
}

impl Control for Daid {
    fn marked(&self) -> Option<Arc<[bool]>> {
        Some(Arc::clone(&self.marked))
    }

    fn layers(&mut self, attention: &[Option<f32>]) -> Vec<usize> {
        let (spotlight, shadow) = anchors(attention);
        spotlight.into_iter().chain(shadow).collect()
    }

    fn decide(&mut self, now: &Now<'_>, steer: &mut Steer) -> Result<Decision, String> {
        let Some(Inside { logits, .. }) = now.inside else { return Ok(Decision::Choose) };
        let (spotlight, shadow) = match &logits[..] {
            [] => return Ok(Decision::Choose),
            [spotlight] => (spotlight, None),
            [spotlight, shadow, ..] => (spotlight, Some(shadow)),
        };
        // Without a layer below the spotlight there is no shadow (reconstructed: the paper leaves this case open).
        let beta = if shadow.is_some() { self.beta } else { 0.0 };
        let both = |(&last, &spotlight): (&f32, &f32)| (1.0 + beta) * (last + self.alpha * spotlight);
        let mut combined: Vec<f32> = now.logits.iter().zip(spotlight).map(both).collect();
        for (x, shadow) in combined.iter_mut().zip(shadow.into_iter().flatten()) {
            *x -= beta * shadow;
        }
        steer.replace(plausible(combined, &existing(now, now.logits), self.gamma));
        Ok(Decision::Choose)
    }
}

/// The layer that attends most to what is marked, the first of several, and the one below it that attends least. None
/// if no layer attends to it.
fn anchors(attention: &[Option<f32>]) -> (Option<usize>, Option<usize>) {
    let of_layers =
        |below: usize| attention[..below].iter().enumerate().filter_map(|(at, x)| Some((at, (*x)?)));
    let most = of_layers(attention.len()).filter(|(_, share)| *share > 0.0);
    let spotlight = most.fold(None, |best: Option<(usize, f32)>, next| match best {
        Some(best) if best.1 >= next.1 => Some(best),
        _ => Some(next),
    });
    let Some((spotlight, _)) = spotlight else { return (None, None) };
    let shadow = of_layers(spotlight).fold(None, |best: Option<(usize, f32)>, next| match best {
        Some(best) if best.1 <= next.1 => Some(best),
        _ => Some(next),
    });
    (Some(spotlight), shadow.map(|(at, _)| at))
}

/// Decoding by contrasting layers.
#[derive(Debug)]
struct Dola {
    gamma: f32,
    layers: Vec<usize>,
}

impl Control for Dola {
    fn marked(&self) -> Option<Arc<[bool]>> {
        Some(Arc::from([]))
    }

    fn layers(&mut self, attention: &[Option<f32>]) -> Vec<usize> {
        match &self.layers[..] {
            [] => (0..attention.len().saturating_sub(1)).collect(),
            layers => layers.to_vec(),
        }
    }

    fn decide(&mut self, now: &Now<'_>, steer: &mut Steer) -> Result<Decision, String> {
        let Some(Inside { logits, .. }) = now.inside else { return Ok(Decision::Choose) };
        let allowed = existing(now, now.logits);
        let last = log_softmax(&allowed);
        let layers = logits.iter().map(|logits| log_softmax(&existing(now, logits)));
        let farthest = layers.fold(None, |best, layer| {
            let distance = jensen_shannon(&last, &layer);
            match best {
                Some((least, _)) if least >= distance => best,
                _ => Some((distance, layer)),
            }
        });
        let Some((_, premature)) = farthest else { return Ok(Decision::Choose) };
        let contrast = last.iter().zip(&premature).map(|(last, premature)| (last - premature) as f32);
        steer.replace(plausible(contrast.collect(), &allowed, self.gamma));
        Ok(Decision::Choose)
    }
}

/// Visual contrastive decoding, with tokens in the place of an image's patches.
#[derive(Debug)]
struct Vcd {
    alpha: f32,
    gamma: f32,
    noised: Arc<[u32]>,
}

impl Control for Vcd {
    fn probe_tokens_max(&self) -> usize {
        self.noised.len() + 1
    }

    fn decide(&mut self, now: &Now<'_>, steer: &mut Steer) -> Result<Decision, String> {
        let Some(probed) = now.probed else {
            let instead = Some(Arc::clone(&self.noised));
            return Ok(Decision::Probe(Box::new(Probe {
                instead,
                ids: Vec::new(),
                sampling: Sampling::greedy(1),
                seed: 0,
            })));
        };
        let both = |(&own, &noised): (&f32, &f32)| (1.0 + self.alpha) * own - self.alpha * noised;
        let contrast = now.logits.iter().zip(&probed.logits).map(both).collect();
        steer.replace(plausible(contrast, &existing(now, now.logits), self.gamma));
        Ok(Decision::Choose)
    }
}

/// Logits with -∞ at ids that do not exist.
fn existing(now: &Now<'_>, logits: &[f32]) -> Vec<f32> {
    let mut logits = logits.to_vec();
    for &id in now.vocab.excluded() {
        logits[id as usize] = f32::NEG_INFINITY;
    }
    logits
}

/// `contrast` where the model's own probability is at least `gamma` of the greatest, and -∞ elsewhere.
fn plausible(mut contrast: Vec<f32>, logits: &[f32], gamma: f32) -> Vec<f32> {
    let greatest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let least = greatest + gamma.ln();
    for (x, &logit) in contrast.iter_mut().zip(logits) {
        if logit < least || logit == f32::NEG_INFINITY {
            *x = f32::NEG_INFINITY;
        }
    }
    contrast
}

fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let greatest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let shifted = || logits.iter().map(|&x| f64::from(x - greatest));
    let log_sum = shifted().map(f64::exp).sum::<f64>().ln();
    shifted().map(|x| x - log_sum).collect()
}

/// The Jensen–Shannon divergence of two distributions of which the logarithms are given, in nats.
fn jensen_shannon(p: &[f64], q: &[f64]) -> f64 {
    let half = |log_p: f64, log_q: f64| {
        let (p, q) = (log_p.exp(), log_q.exp());
        let mean = f64::midpoint(p, q);
        if p > 0.0 { p * (log_p - mean.ln()) } else { 0.0 }
    };
    p.iter().zip(q).map(|(&p, &q)| f64::midpoint(half(p, q), half(q, p))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_tensor::Vocab;
    use proptest::prelude::*;

    /// What a control puts in the place of `logits`.
    fn steered(
        control: &mut dyn Control,
        logits: &[f32],
        vocab: &Vocab,
        inside: &Inside,
    ) -> Option<Vec<f32>> {
        let now = Now { prompt: &[1], answer: &[], logits, vocab, probed: None, inside: Some(inside) };
        let mut steer = Steer::default();
        assert_eq!(control.decide(&now, &mut steer), Ok(Decision::Choose));
        if steer.is_empty() {
            return None;
        }
        let mut changed = logits.to_vec();
        steer.apply(&mut changed);
        Some(changed)
    }

    fn daid(alpha: f32, beta: f32, gamma: f32) -> Daid {
        Daid { alpha, beta, gamma, marked: Arc::from([true]) }
    }

    fn argmax(logits: &[f32]) -> usize {
        (0..logits.len()).fold(0, |best, at| if logits[at] > logits[best] { at } else { best })
    }

    #[test]
    fn anchors_are_the_first_greatest_and_the_first_least_below_it() {
        let some = |shares: &[f32]| shares.iter().copied().map(Some).collect::<Vec<Option<f32>>>();
        assert_eq!(anchors(&some(&[0.3, 0.1, 0.5, 0.1, 0.5])), (Some(2), Some(1)));
        assert_eq!(anchors(&some(&[0.5, 0.1, 0.2])), (Some(0), None));
        assert_eq!(anchors(&some(&[0.0, 0.0])), (None, None));
        assert_eq!(anchors(&[None, Some(0.2), None, Some(0.3)]), (Some(3), Some(1)));
        assert_eq!(anchors(&[]), (None, None));
    }

    #[test]
    fn the_anchors_are_combined_as_in_the_paper() {
        let logits = [1.0, 0.5, -2.0, 0.9];
        let (spotlight, shadow) = (vec![0.0, 2.0, 9.0, 1.0], vec![3.0, -1.0, 0.0, 0.0]);
        let inside = Inside { attention: Vec::new(), logits: vec![spotlight.clone(), shadow.clone()] };
        let changed = steered(&mut daid(0.8, 0.2, 0.1), &logits, &Vocab::all(4), &inside).unwrap();
        for (id, x) in changed.iter().enumerate() {
            let expected = 1.2 * (logits[id] + 0.8 * spotlight[id]) - 0.2 * shadow[id];
            // e^-3 is below a tenth.
            let expected = if id == 2 { f32::NEG_INFINITY } else { expected };
            assert!((x - expected).abs() < 1e-6 || *x == expected, "{id}: {x}, {expected}");
        }
        // Without a shadow.
        let inside = Inside { attention: Vec::new(), logits: vec![spotlight] };
        let changed = steered(&mut daid(0.8, 0.2, 0.1), &logits, &Vocab::all(4), &inside).unwrap();
        assert!((changed[1] - 2.1).abs() < 1e-6, "{changed:?}");
        // No layer attends to what is marked.
        let inside = Inside::default();
        assert_eq!(steered(&mut daid(0.8, 0.2, 0.1), &logits, &Vocab::all(4), &inside), None);
    }

    #[test]
    fn dola_takes_the_farthest_layer() {
        let logits = [2.0, 1.0, 0.0];
        let (near, far) = (vec![2.0, 1.1, 0.0], vec![-1.0, 3.0, 0.0]);
        let inside = Inside { attention: Vec::new(), logits: vec![near, far.clone()] };
        let mut dola = Dola { gamma: 0.0, layers: Vec::new() };
        assert_eq!(dola.layers(&[None, None, None]), [0, 1]);
        let changed = steered(&mut dola, &logits, &Vocab::all(3), &inside).unwrap();
        let (last, far) = (log_softmax(&logits), log_softmax(&far));
        for ((x, last), far) in changed.iter().zip(&last).zip(&far) {
            assert!((f64::from(*x) - (last - far)).abs() < 1e-6);
        }
        // ln 2 where two distributions share nothing.
        let apart = jensen_shannon(&[0.0, f64::NEG_INFINITY], &[f64::NEG_INFINITY, 0.0]);
        assert!((apart - 2.0_f64.ln()).abs() < 1e-12);
    }

    proptest! {
        /// The choice is one of the plausible ids, ids that do not exist count for nothing, and with `gamma` 1 it is the
        /// model's own.
        #[test]
        fn the_choice_is_plausible(
            logits in proptest::collection::vec(-8.0_f32..8.0, 6),
            spotlight in proptest::collection::vec(-8.0_f32..8.0, 6),
            shadow in proptest::collection::vec(-8.0_f32..8.0, 6),
            gamma in 0.0_f32..1.0,
        ) {
            let vocab = Vocab::only(6, |id| id != 2);
            let inside = Inside { attention: Vec::new(), logits: vec![spotlight, shadow] };
            let own = existing(
                &Now { prompt: &[], answer: &[], logits: &logits, vocab: &vocab, probed: None, inside: None },
                &logits,
            );
            let greatest = own.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let controls: [(f32, Box<dyn Control>); 4] = [
                (gamma, Box::new(daid(0.8, 0.2, gamma))),
                (gamma, Box::new(Dola { gamma, layers: Vec::new() })),
                (1.0, Box::new(daid(0.8, 0.2, 1.0))),
                (1.0, Box::new(Dola { gamma: 1.0, layers: Vec::new() })),
            ];
            for (gamma, mut control) in controls {
                let changed = steered(&mut *control, &logits, &vocab, &inside).unwrap();
                let choice = argmax(&changed);
                prop_assert!(changed.iter().all(|x| !x.is_nan()));
                prop_assert!(changed[2] == f32::NEG_INFINITY);
                prop_assert!(own[choice] >= greatest + gamma.ln(), "{} {:?}", choice, changed);
            }
        }

        /// A number added to all logits of all layers changes no choice.
        #[test]
        fn only_differences_of_logits_count(
            logits in proptest::collection::vec(-4.0_f32..4.0, 5),
            other in proptest::collection::vec(-4.0_f32..4.0, 5),
            by in -3.0_f32..3.0,
        ) {
            let add = |logits: &[f32]| logits.iter().map(|x| x + by).collect::<Vec<f32>>();
            let vocab = Vocab::all(5);
            let of = |logits: &[f32], layers: Vec<Vec<f32>>| {
                let inside = Inside { attention: Vec::new(), logits: layers };
                log_softmax(&steered(&mut daid(0.8, 0.2, 0.1), logits, &vocab, &inside).unwrap())
            };
            let plain = of(&logits, vec![other.clone(), logits.clone()]);
            let shifted = of(&add(&logits), vec![add(&other), add(&logits)]);
            for (a, b) in plain.iter().zip(&shifted) {
                prop_assert!((a - b).abs() < 1e-4 || a == b, "{} {}", a, b);
            }
        }
    }

    #[test]
    fn tokens_with_a_part_in_the_span_are_marked() {
        let texts = ["a red square and a blue circle", "is there a red square?"];
        let tokenizer = Tokenizer::train_bpe(&texts, 290, &["<image>", "</image>"]).unwrap();
        let span = Span { after: "<image>".into(), before: "</image>".into() };
        let marked = |text: &str| {
            let ids = tokenizer.encode(text).unwrap();
            let marked = marked_tokens(&span, &ids, &tokenizer).unwrap();
            assert_eq!(marked.len(), ids.len());
            let these: Vec<u32> =
                ids.iter().zip(&*marked).filter(|(_, is)| **is).map(|(&id, _)| id).collect();
            tokenizer.decode(&these, false).unwrap()
        };
        assert_eq!(marked("is there <image>a red square, é</image> a blue circle?"), "a red square, é");
        assert_eq!(marked("no picture at all"), "");
        assert_eq!(marked("<image></image>"), "");
        // Where a token reaches over the edge, it is marked.
        let span = Span { after: "re".into(), before: "quare".into() };
        let ids = tokenizer.encode("a red square").unwrap();
        let marked = marked_tokens(&span, &ids, &tokenizer).unwrap();
        let these: Vec<u32> = ids.iter().zip(&*marked).filter(|(_, is)| **is).map(|(&id, _)| id).collect();
        assert!(tokenizer.decode(&these, false).unwrap().contains("d s"));
    }
}
