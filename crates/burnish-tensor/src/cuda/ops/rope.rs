//! Rotary position embedding, in place.

use std::sync::Arc;

use crate::{
    Rope,
    cuda::{Buffer, Cuda, int, launch_shape::LaunchShape, modules::Program, values::ElementsMut},
    ops::rope::Turn,
};

/// Cosines and sines of the positions of a batch, on the GPU.
#[derive(Debug)]
pub(crate) struct Angles {
    /// `[distinct positions, 2 pairs]`: only positions that occur.
    pub(super) table: Buffer<f32>,
    /// For each row of the batch, its row in the table.
    pub(super) rows: Buffer<i32>,
    pub(super) pairs: usize,
}

impl Angles {
    /// Uploads the numbers that the CPU uses.
    pub(crate) fn upload(cuda: &Arc<Cuda>, rope: &Rope, positions: &[u32]) -> Self {
        let (values, rows) = Angles::values(rope, positions);
        Angles {
            table: Buffer::upload(cuda, &values),
            rows: Buffer::upload(cuda, &rows),
            pairs: rope.pairs(),
        }
    }

    /// The same, with room for as many other positions.
    pub(crate) fn with_room(cuda: &Arc<Cuda>, rope: &Rope, positions: &[u32]) -> Self {
        let table = Buffer::uninit(cuda, positions.len() * 2 * rope.pairs());
        let mut angles = Angles { table, rows: Buffer::uninit(cuda, positions.len()), pairs: rope.pairs() };
        angles.fill(rope, positions);
        angles
    }

    /// Uploads the numbers of other positions; rows behind them get those of the first.
    ///
    /// # Panics
    /// If there is no room.
    pub(crate) fn fill(&mut self, rope: &Rope, positions: &[u32]) {
        let (values, rows) = Angles::values(rope, positions);
        let cuda = Arc::clone(self.table.cuda());
        self.table.slice_mut(0..values.len()).upload(&cuda, &values);
        self.rows.fill(rows, 0);
    }

    /// The table, and the row of each position.
    fn values(rope: &Rope, positions: &[u32]) -> (Vec<f32>, Vec<i32>) {
        let mut distinct = positions.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let table = rope.table(positions);
        let mut values = Vec::with_capacity(distinct.len() * 2 * rope.pairs());
        for &position in &distinct {
            let (cos, sin) = table.at(position);
            values.extend_from_slice(cos);
            values.extend_from_slice(sin);
        }
        let row = |position: &u32| distinct.partition_point(|other| other < position) as i32;
        (values, positions.iter().map(row).collect())
    }
}

/// Rotates every head of `x` `[rows, cols]` by the angles of its row's position.
pub(crate) fn rotate(
    cuda: &Arc<Cuda>,
    x: ElementsMut<'_>,
    cols: usize,
    head_dim: usize,
    angles: &Angles,
    turn: Turn,
) {
    let (pairs, rows) = (angles.pairs, angles.rows.len());
    assert!(
        2 * pairs <= head_dim && cols.is_multiple_of(head_dim),
        "{pairs} pairs do not fit heads of {head_dim} elements in rows of {cols}"
    );
    assert_eq!(x.len(), rows * cols, "one position for each row");
    if pairs == 0 {
        return;
    }
    let sign: f32 = if turn == Turn::Forward { 1.0 } else { -1.0 };
    let name = x.read().kernel(["rope_f32", "rope_bf16"]);
    let arguments = &mut [
        x.into(),
        angles.table.all().into(),
        angles.rows.all().into(),
        int(cols),
        int(head_dim),
        int(pairs),
        sign.into(),
    ];
    cuda.launch(Program::Rope, name, LaunchShape::rows(rows, cols / head_dim * pairs.div_ceil(4)), arguments);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cuda::{
            testing::{PRECISIONS, device, rounded},
            values::Values,
        },
        ops,
        testing::{assert_close, random, random_ids, wide},
    };

    #[test]
    fn the_rotation_and_its_transpose_are_those_of_the_cpu() {
        let Some(cuda) = device() else { return };
        for (rows, heads, pairs, rest) in [(7, 3, 4, 0), (3, 1, 9, 3), (5, 20, 16, 0), (0, 1, 1, 0)] {
            let head_dim = 2 * pairs + rest;
            let cols = heads * head_dim;
            let rope = Rope::new((0..pairs).map(|i| 100_f32.powf(-(i as f32) / 9.0)).collect(), 1.25);
            let positions = random_ids(1, rows, 3000);
            let angles = Angles::upload(&cuda, &rope, &positions);
            let both = [Turn::Forward, Turn::Back];
            for (turn, (precision, tolerance)) in
                both.into_iter().flat_map(|turn| PRECISIONS.map(|of| (turn, of)))
            {
                let x = rounded(precision, random(2, rows * cols));
                let mut expected = x.clone();
                ops::rope::rotate(&mut expected, cols, head_dim, &rope, &positions, turn);
                let mut y = Values::upload(&cuda, precision, &x);
                rotate(&cuda, y.all_mut(), cols, head_dim, &angles, turn);
                assert_close(&y.download().unwrap(), &wide(&expected), tolerance);
            }
        }
    }
}
