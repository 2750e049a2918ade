//! A loss on the rows of an output head, in addition to the one on their log-probs and entropies.

use crate::{Buffer, Params, Weight, ops::scores::Inputs};

/// A loss on some rows of [`Tape::token_scores`](crate::Tape::token_scores), for
/// [`Tape::backward_with`](crate::Tape::backward_with).
#[derive(Clone, Copy)]
pub struct HeadTerm<'a> {
    /// The factor of each row's loss, `[rows]`. A row with factor 0 is skipped.
    pub weights: &'a [f32],
    /// The loss of a row.
    pub loss: RowLoss<'a>,
}

/// A loss of one row, with `q = softmax(logits / temperature)`.
#[derive(Clone, Copy)]
pub enum RowLoss<'a> {
    /// `Σ_k p_k (log p_k - log q_k)` over the row's own `top` ids: cross-entropy with soft labels, minus the part that
    /// does not depend on the logits. Computed while log-probs are differentiated, on the same device; it costs `top`
    /// operations per row.
    SoftLabels {
        /// Number of ids per row, 1 or more.
        top: usize,
        /// `[rows, top]`, below the size of the vocabulary.
        ids: &'a [u32],
        /// `[rows, top]`: `p`, 0 or more. They need not add up to 1; 0 means no entry.
        probabilities: &'a [f32],
    },
    /// Any function of a whole row. Rows are evaluated one by one in f64, which takes far longer than a product. It
    /// also works for parameters on a GPU: the logits are copied to the host and the derivatives back.
    Whole {
        /// See [`RowFunction`].
        evaluate: &'a RowFunction<'a>,
        /// The teacher whose logits the function receives along with those of the row.
        teacher: Option<TeacherRows<'a>>,
    },
}

/// A function from the index of a row, its logits over the temperature, and those of the teacher (empty if there is
/// none), to the row's loss and its derivative by each of the row's own. The logit of an id that the vocabulary
/// excludes is -1e20 over the temperature.
pub type RowFunction<'f> = dyn Fn(usize, &[f64], &[f64]) -> (f64, Vec<f64>) + Sync + 'f;

/// Another head over the same vocabulary, and what it reads. Its logits are computed like the student's, some rows at a
/// time, and divided by the same temperatures.
#[derive(Clone, Copy)]
pub struct TeacherRows<'a> {
    /// The parameters of the head: on the same device as the student's.
    pub params: &'a Params,
    /// `[V, width]`.
    pub head: Weight,
    /// `[rows, width]`.
    pub hidden: &'a [f32],
}

impl<'a> HeadTerm<'a> {
    /// # Panics
    /// If its sizes are not those of `rows` rows of a head over `vocab` ids.
    pub(crate) fn check(self, rows: usize, vocab: usize) {
        assert_eq!(self.weights.len(), rows, "one weight for each row");
        match self.loss {
            RowLoss::SoftLabels { top, ids, probabilities } => {
                assert!(top > 0, "soft labels of no id");
                assert_eq!(
                    (ids.len(), probabilities.len()),
                    (rows * top, rows * top),
                    "soft labels of each row"
                );
            }
            RowLoss::Whole { teacher: None, .. } => {}
            RowLoss::Whole { teacher: Some(TeacherRows { head, hidden, .. }), .. } => {
                assert_eq!(head.base.rows, vocab, "student and teacher have other vocabularies");
                assert_eq!(hidden.len(), rows * head.base.cols, "hidden states of each row");
            }
        }
    }

    pub(crate) fn teacher(self) -> Option<TeacherRows<'a>> {
        match self.loss {
            RowLoss::SoftLabels { .. } => None,
            RowLoss::Whole { teacher, .. } => teacher,
        }
    }
}

impl<'a> TeacherRows<'a> {
    /// `scale · hidden Aᵀ` of the head's adapter, if it has one.
    pub(crate) fn inner(self, rows: usize) -> Option<Buffer> {
        self.head.adapter.map(|adapter| adapter.inner(self.params, self.hidden, rows))
    }

    /// The request to `student`, for this head. `inner` is the result of [`TeacherRows::inner`].
    pub(crate) fn inputs(self, student: Inputs<'a>, inner: Option<&'a [f32]>) -> Inputs<'a> {
        let TeacherRows { params, head, hidden } = self;
        Inputs {
            hidden,
            weight: params.elements(head.base),
            low_rank: head.adapter.zip(inner).map(|(adapter, u)| adapter.of_head(params, u)),
            precision: params.precision(),
            width: head.base.cols,
            ..student
        }
    }
}
