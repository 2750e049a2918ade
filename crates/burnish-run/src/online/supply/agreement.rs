//! How often the policy would have made the teacher's choice (`metrics.teacher_agreement`).

use burnish_rundir::metrics::Values;
use burnish_train::Target;

/// What the policy gives less than this, it hardly ever samples.
const UNLIKELY: f32 = 0.05;
/// So many of the policy's likeliest tokens hold every token that has as much.
pub(super) const TOP: usize = 20;

/// The shares of scored tokens at which the teacher's likeliest token is the policy's too, and at which the policy
/// gives it less than 5 %. Both sides describe the same tokens; `policy` has [`TOP`] of each row, or its vocabulary.
pub(super) fn agreement(teacher: &[Target], policy: &[Target]) -> Values {
    let (mut tokens, mut same, mut unlikely) = (0.0, 0.0, 0.0);
    for (theirs, own) in teacher.iter().zip(policy) {
        let (Target::Top { top: of_teacher, ids: theirs, .. }, Target::Top { top, ids, logprobs }) =
            (theirs, own)
        else {
            continue;
        };
        for ((theirs, ids), logprobs) in
            theirs.chunks(*of_teacher).zip(ids.chunks(*top)).zip(logprobs.chunks(*top))
        {
            let place = ids.iter().position(|id| *id == theirs[0]);
            let is_likely = place.is_some_and(|at| logprobs[at].exp() >= UNLIKELY);
            tokens += 1.0;
            same += f64::from(u8::from(place == Some(0)));
            unlikely += f64::from(u8::from(!is_likely));
        }
    }
    if tokens == 0.0 {
        return Values::new();
    }
    let shares = [("teacher/same_choice", same / tokens), ("teacher/choice_unlikely", unlikely / tokens)];
    shares.into_iter().map(|(name, share)| (name.to_owned(), share)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn top(top: usize, rows: &[(&[u32], &[f32])]) -> Target {
        let ids = rows.iter().flat_map(|(ids, _)| ids.iter().copied()).collect();
        let logprobs = rows.iter().flat_map(|(_, shares)| shares.iter().map(|share| share.ln())).collect();
        Target::Top { top, ids, logprobs }
    }

    #[test]
    fn a_choice_is_the_same_likely_or_unlikely() {
        let teacher = [top(1, &[(&[7], &[0.9]), (&[8], &[0.9])]), top(1, &[(&[9], &[0.6]), (&[3], &[0.6])])];
        let likely: (&[u32], &[f32]) = (&[1, 8], &[0.6, 0.2]);
        let policy = [
            top(2, &[(&[7, 8], &[0.9, 0.1]), likely]),
            top(2, &[(&[4, 9], &[0.96, 0.04]), (&[4, 5], &[0.5, 0.5])]),
        ];
        let found = agreement(&teacher, &policy);
        assert_eq!(found["teacher/same_choice"], 0.25);
        assert_eq!(found["teacher/choice_unlikely"], 0.5);
        assert!(agreement(&[], &[]).is_empty());
    }
}
