//! What a verifier decides over: a step is executed again while its score is too low, and the best execution is kept
//! (*reconstructed*: the abstract names a verifier that scores each step, and nothing of what follows from it).

/// When a step is executed again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// A score of at least this is good enough. 0 accepts everything: no verifier.
    pub enough: f64,
    /// Most executions after the first one.
    pub retries: usize,
}

/// An execution of a step that was kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen<T> {
    /// What came out of it.
    pub output: T,
    /// Its score.
    pub score: f64,
    /// Executions of the step, this one and those that were not kept.
    pub tried: usize,
}

/// Executes the steps of a plan in order. `execute` is given what was kept so far, the number of the step and that of the
/// try, and returns an output with its score; of equal scores the first is kept. A plan without steps executes nothing.
///
/// # Errors
/// The first of an execution.
pub fn controlled<T, E>(
    steps: usize,
    limits: Limits,
    mut execute: impl FnMut(&[Chosen<T>], usize, usize) -> Result<(T, f64), E>,
) -> Result<Vec<Chosen<T>>, E> {
    let mut kept: Vec<Chosen<T>> = Vec::with_capacity(steps);
    for step in 0..steps {
        let (output, score) = execute(&kept, step, 0)?;
        let mut best = Chosen { output, score, tried: 1 };
        while best.score < limits.enough && best.tried <= limits.retries {
            let (output, score) = execute(&kept, step, best.tried)?;
            best.tried += 1;
            if score > best.score {
                (best.output, best.score) = (output, score);
            }
        }
        kept.push(best);
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The scores of each try of each step.
    fn run(scores: &[&[f64]], limits: Limits) -> Vec<Chosen<usize>> {
        let execute = |kept: &[Chosen<usize>], step: usize, at: usize| -> Result<(usize, f64), ()> {
            assert_eq!(kept.len(), step);
            Ok((at, scores[step][at]))
        };
        controlled(scores.len(), limits, execute).unwrap()
    }

    #[test]
    fn without_a_bound_every_step_is_executed_once_and_an_empty_plan_never() {
        let none = Limits { enough: 0.0, retries: 2 };
        let kept = run(&[&[0.0, 1.0], &[0.3, 1.0]], none);
        assert_eq!(kept.iter().map(|one| (one.output, one.tried)).collect::<Vec<_>>(), [(0, 1), (0, 1)]);
        assert_eq!(run(&[], Limits { enough: 0.9, retries: 2 }), []);
    }

    #[test]
    fn a_step_is_tried_until_it_is_good_enough_and_the_best_is_kept() {
        let limits = Limits { enough: 0.5, retries: 2 };
        let kept = run(&[&[0.1, 0.7, 0.9], &[0.4, 0.2, 0.4], &[0.6]], limits);
        assert_eq!(kept[0], Chosen { output: 1, score: 0.7, tried: 2 });
        assert_eq!(kept[1], Chosen { output: 0, score: 0.4, tried: 3 });
        assert_eq!(kept[2], Chosen { output: 0, score: 0.6, tried: 1 });
        let failing = controlled(2, limits, |_, step, _| if step == 1 { Err("no") } else { Ok(((), 1.0)) });
        assert_eq!(failing, Err("no"));
    }
}
