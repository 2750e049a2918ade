//! The curriculum from visible to latent thoughts: unit by unit, the beginning of each span of a demonstration gives way
//! to latent steps.
//!
//! ```text
//! stage 0   <swi>2-2=0⏎0+9=9⏎9*6=54⏎</swi>>54
//! stage 2   <swi><latent><latent>9*6=54⏎</swi>>54                  steps_per_unit = 1
//! stage 3   <swi><latent><latent><latent></swi>>54
//! ```
//!
//! In stage `k`, the first `n = min(k, units of the span, K_max)` units of every span become `c n` latent steps (SWITCH,
//! arXiv:2606.13106, phase 2, the parallel schedule). Without tags there is one span at the beginning of the answer, which
//! has `c k` steps whatever the number of units (Coconut, arXiv:2412.06769).
//!
//! **Differs from the paper.** It finds spans by the entropy of a base model and replaces tokens; here a regular expression
//! says what a unit is, as the steps of Coconut are.

use burnish_core::rng::{Address, Purpose, Stream};
use burnish_core::{LATENT, LatentInput, LatentPlace, Message, Role, SPAN_CLOSE, SPAN_OPEN};
use burnish_model::Chat;
use burnish_recipe::{LatentSection, Recipe};
use burnish_train::{LatentInputs, Latents, Sample};
use fancy_regex::Regex;

use crate::RunError;
use crate::seeds::Draws;

/// How demonstrations become latent.
#[derive(Debug)]
pub(super) struct Curriculum {
    section: LatentSection,
    unit: Regex,
    /// The id of a latent step.
    step: u32,
}

impl Curriculum {
    /// `None` where nothing is latent.
    ///
    /// # Errors
    /// If the policy's tokenizer has no latent steps, or the recipe does not say what a unit is.
    pub(super) fn of(recipe: &Recipe, chat: &Chat) -> Result<Option<Self>, RunError> {
        let Some(section) = &recipe.latent else { return Ok(None) };
        let refused = |problem: String| RunError::Refused(format!("latent.unit: {problem}"));
        let unit = section.unit.as_deref().ok_or_else(|| refused("is missing".into()))?;
        let unit = Regex::new(unit).map_err(|error| refused(error.to_string()))?;
        let step = chat.tokenizer.token_id(LATENT);
        let step =
            step.ok_or_else(|| RunError::Refused(format!("latent: the policy's tokenizer has no {LATENT}")))?;
        Ok(Some(Curriculum { section: section.clone(), unit, step }))
    }

    /// The stage of sample number `sample` of step number `step`: that of the step, or for some an earlier one.
    pub(super) fn stage(&self, recipe: &Recipe, step: u64, sample: u64) -> usize {
        let stage = self.section.stage(step, recipe.train.max_steps);
        let address = Address::new(recipe.run.seed, Purpose::Perturb);
        let seed = Address { stage: Draws::LatentStage.stage(), step, task: sample, ..address }.seed();
        let mut stream = Stream::new(seed);
        match stream.uniform() < self.section.earlier && stage > 0 {
            true => stream.below(stage as u64) as usize,
            false => stage,
        }
    }

    /// The last stage.
    pub(super) fn last(&self) -> usize {
        self.section.stages().1
    }

    /// The first stage.
    pub(super) fn first(&self) -> usize {
        self.section.stages().0
    }

    /// Rewrites the answers among `messages`.
    pub(super) fn rewrite(&self, messages: &mut [Message], stage: usize) {
        for message in messages.iter_mut().filter(|message| message.role == Role::Assistant) {
            message.content = self.rewritten(&message.content, stage);
        }
    }

    fn rewritten(&self, answer: &str, stage: usize) -> String {
        let LatentSection { place, steps_per_unit, units_max, .. } = self.section;
        let units = self.unit.find_iter(answer).flatten().map(|unit| unit.range());
        let units: Vec<_> = units.filter(|unit| !unit.is_empty()).collect();
        let most = stage.min(units_max);
        let steps = |units: usize| LATENT.repeat(units * steps_per_unit);
        let mut text = String::new();
        let mut end = 0;
        if place == LatentPlace::Start {
            text.push_str(&steps(most));
            for unit in units.iter().take(most) {
                text.push_str(&answer[end..unit.start]);
                end = unit.end;
            }
            return text + &answer[end..];
        }
        let most = if place == LatentPlace::Visible { 0 } else { most };
        for span in units.chunk_by(|a, b| a.end == b.start) {
            let latent = span.len().min(most);
            text.push_str(&answer[end..span[0].start]);
            text.push_str(SPAN_OPEN);
            text.push_str(&steps(latent));
            span[latent..].iter().for_each(|unit| text.push_str(&answer[unit.clone()]));
            text.push_str(SPAN_CLOSE);
            end = span[span.len() - 1].end;
        }
        text + &answer[end..]
    }

    /// Takes the latent steps of a rewritten answer out of the loss.
    pub(super) fn mark(&self, sample: &mut Sample) {
        let is_step = |at: &usize| sample.loss_mask[*at] && sample.ids[*at] == self.step;
        let at: Vec<usize> = (1..sample.ids.len()).filter(is_step).collect();
        at.iter().for_each(|at| sample.loss_mask[*at] = false);
        if self.section.input == LatentInput::Hidden && !at.is_empty() {
            sample.latents = Some(Latents { at, inputs: LatentInputs::Computed });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_train::Sample;
    use proptest::prelude::*;

    const ANSWER: &str = "so 2-2=0\n0+9=9\nthen 9*6=54\n>54";

    fn curriculum(place: LatentPlace, steps_per_unit: usize, units_max: usize) -> Curriculum {
        let section = LatentSection { place, steps_per_unit, units_max, ..LatentSection::default() };
        Curriculum { section, unit: Regex::new(r"\d+[-+*/]\d+=\d+\n").unwrap(), step: 9 }
    }

    #[test]
    fn each_span_loses_its_first_units() {
        let of = |stage| curriculum(LatentPlace::Spans, 2, 8).rewritten(ANSWER, stage);
        assert_eq!(of(0), "so <swi>2-2=0\n0+9=9\n</swi>then <swi>9*6=54\n</swi>>54");
        let one = "<latent><latent>";
        assert_eq!(of(1), format!("so <swi>{one}0+9=9\n</swi>then <swi>{one}</swi>>54"));
        assert_eq!(of(2), format!("so <swi>{one}{one}</swi>then <swi>{one}</swi>>54"));
        assert_eq!(of(7), of(2), "a span has no more steps than units");
        assert_eq!(curriculum(LatentPlace::Spans, 2, 1).rewritten(ANSWER, 7), of(1), "nor than `units_max`");
        assert_eq!(curriculum(LatentPlace::Visible, 2, 8).rewritten(ANSWER, 7), of(0));
        assert_eq!(
            of(0),
            curriculum(LatentPlace::Visible, 1, 8).rewritten(ANSWER, 0),
            "stage 0 is the first phase"
        );
    }

    #[test]
    fn without_tags_the_steps_are_at_the_start_and_their_number_is_that_of_the_stage() {
        let of = |stage| curriculum(LatentPlace::Start, 1, 3).rewritten(ANSWER, stage);
        assert_eq!(of(0), ANSWER);
        assert_eq!(of(2), "<latent><latent>so then 9*6=54\n>54");
        assert_eq!(of(3), "<latent><latent><latent>so then >54");
        let short = curriculum(LatentPlace::Start, 1, 3).rewritten("1+1=2\n>2", 3);
        assert_eq!(short, "<latent><latent><latent>>2", "as many as in a long answer");
    }

    #[test]
    fn steps_are_in_no_loss_and_tags_are() {
        let sample = Sample {
            loss_mask: vec![false, false, true, true, true, true],
            ..Sample::of_text(vec![1, 9, 2, 9, 9, 3])
        };
        let mut marked = sample.clone();
        curriculum(LatentPlace::Spans, 1, 3).mark(&mut marked);
        assert_eq!(
            marked.loss_mask,
            [false, false, true, false, false, true],
            "what a prompt says is no step"
        );
        assert_eq!(marked.latents.as_ref().unwrap().at, [3, 4]);
        assert_eq!(marked.check(), Ok(()));
        let mut filler = sample;
        let mut pause = curriculum(LatentPlace::Spans, 1, 3);
        pause.section.input = LatentInput::Filler;
        pause.mark(&mut filler);
        assert_eq!((filler.loss_mask, filler.latents), (marked.loss_mask, None));
    }

    proptest! {
        #[test]
        fn what_is_not_a_unit_is_kept(answer in "([a-c]{0,3}|[0-9][+][0-9]=[0-9]\n){0,8}", stage in 0usize..6) {
            let said = |text: &str| text.replace(SPAN_OPEN, "").replace(SPAN_CLOSE, "").replace(LATENT, "");
            let spans = curriculum(LatentPlace::Spans, 1, 3);
            prop_assert_eq!(&said(&spans.rewritten(&answer, 0)), &answer);
            let rewritten = spans.rewritten(&answer, stage);
            let others = |text: &str| spans.unit.replace_all(text, "").into_owned();
            prop_assert_eq!(others(&said(&rewritten)), others(&answer));
            prop_assert_eq!(rewritten.matches(SPAN_OPEN).count(), rewritten.matches(SPAN_CLOSE).count());
        }
    }
}
