//! A loss on the rows of an output head, beside what is asked of their log-probs and entropies.

use crate::{Buffer, Params, Weight, ops::scores::Inputs};

/// A loss of some rows of [`Tape::token_scores`](crate::Tape::token_scores), for
/// [`Tape::backward_with`](crate::Tape::backward_with).
#[derive(Clone, Copy)]
pub struct HeadTerm<'a> {
    /// What the loss of each row is multiplied by, `[rows]`. A row with 0 is not looked at.
    pub weights: &'a [f32],
    /// The loss of a row.
    pub loss: RowLoss<'a>,
}

/// A loss of one row, with `q = softmax(logits / temperature)`.
#[derive(Clone, Copy)]
pub enum RowLoss<'a> {
    /// `Σ_k p_k (log p_k - log q_k)` over the row's own `top` ids: cross-entropy with soft labels, less what does not
    /// depend on the logits. Computed while log-probs are differentiated, where they are: it costs `top` operations a row.
    SoftLabels {
        /// Ids a row, 1 or more.
        top: usize,
        /// `[rows, top]`, below the size of the vocabulary.
        ids: &'a [u32],
        /// `[rows, top]`: `p`, 0 or more. They need not add up to 1; 0 is no entry.
        probabilities: &'a [f32],
    },
    /// Any function of a whole row. Rows are evaluated one by one in f64, which takes far longer than a product does; of
    /// parameters on a GPU too, whose logits come to the host for it and whose derivatives go back.
    Whole {
        /// See [`RowFunction`].
        evaluate: &'a RowFunction<'a>,
        /// Whose logits the function is given beside those of the row.
        teacher: Option<TeacherRows<'a>>,
    },
}

/// From the index of a row, its logits over the temperature, and those of the teacher (empty where there is none), to
/// the row's loss and its derivative by each of the former. The logit of an id that the vocabulary excludes is -1e20 over
/// the temperature.
pub type RowFunction<'f> = dyn Fn(usize, &[f64], &[f64]) -> (f64, Vec<f64>) + Sync + 'f;

/// Another head over the same vocabulary, and what it reads: its logits are made as the student's are, some rows at a
/// time, and divided by the same temperatures.
#[derive(Clone, Copy)]
pub struct TeacherRows<'a> {
    /// Where the head lies: with the student's, on the host or on the same GPU.
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

    /// What `student` is asked, of this head. `inner` is what [`TeacherRows::inner`] gave.
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
