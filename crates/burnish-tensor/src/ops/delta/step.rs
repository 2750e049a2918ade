//! One row of each of some sequences: the recurrence itself, for decoding.

use rayon::prelude::*;

use super::{DeltaRows, DeltaShape};
use crate::{
    Workers,
    vector::{self, simd},
};

/// One step of each of some sequences: row `i` of `rows` goes on from state `i` `[value_heads, key_dim, value_dim]`, which
/// becomes the next one; `out` `[sequences, value_heads · value_dim]`. A sequence's result depends neither on the others
/// nor on `workers`. It differs from that of [`delta_scan`](super::delta_scan) by rounding.
///
/// # Panics
/// If sizes do not fit.
pub fn delta_step(
    rows: DeltaRows<'_>,
    shape: DeltaShape,
    states: &mut [&mut [f32]],
    out: &mut [f32],
    workers: Workers,
) {
    let channels = rows.channels(shape, states.len());
    assert_eq!(out.len(), rows.v.len(), "one result for each element of the values");
    assert!(
        states.iter().all(|state| state.len() == shape.state_len()),
        "a state is [value_heads, key_dim, value_dim]"
    );
    let work = |(row, (state, out)): (usize, (&mut &mut [f32], &mut [f32]))| {
        simd(
            #[inline(always)]
            || sequence(rows, shape, channels, row, state, out),
        );
    };
    let width = shape.value_width();
    match workers {
        Workers::One => states.iter_mut().zip(out.chunks_exact_mut(width)).enumerate().for_each(work),
        Workers::Pool => {
            states.par_iter_mut().zip(out.par_chunks_exact_mut(width)).enumerate().for_each(work);
        }
    }
}

#[inline(always)]
fn sequence(
    rows: DeltaRows<'_>,
    shape: DeltaShape,
    channels: usize,
    row: usize,
    state: &mut [f32],
    out: &mut [f32],
) {
    let (key, value, group) = (shape.key_dim, shape.value_dim, shape.group());
    for head in 0..shape.value_heads {
        let of_key = row * shape.key_width() + head / group * key;
        let at = row * shape.value_heads + head;
        let head_row = HeadRow {
            q: &rows.q[of_key..][..key],
            k: &rows.k[of_key..][..key],
            v: &rows.v[at * value..][..value],
            logs: &rows.log_decay[at * channels..][..channels],
            beta: rows.beta[at],
        };
        let state = &mut state[head * key * value..][..key * value];
        let out = &mut out[head * value..][..value];
        let mut column = 0;
        while column + 64 <= value {
            columns::<64>(&head_row, state, out, column);
            column += 64;
        }
        while column + 8 <= value {
            columns::<8>(&head_row, state, out, column);
            column += 8;
        }
        while column < value {
            columns::<1>(&head_row, state, out, column);
            column += 1;
        }
    }
}

/// A row of one value head.
struct HeadRow<'a> {
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    logs: &'a [f32],
    beta: f32,
}

/// Some columns of the values, of which none depends on another.
#[inline(always)]
fn columns<const N: usize>(row: &HeadRow<'_>, state: &mut [f32], out: &mut [f32], column: usize) {
    let width = out.len();
    let mut held = [0.0_f32; N];
    let one = vector::exp(row.logs[0]);
    for (c, &k) in row.k.iter().enumerate() {
        let decay = if row.logs.len() == 1 { one } else { vector::exp(row.logs[c]) };
        let state = &mut state[c * width + column..][..N];
        for lane in 0..N {
            state[lane] *= decay;
            held[lane] = k.mul_add(state[lane], held[lane]);
        }
    }
    let mut written = [0.0_f32; N];
    let v = &row.v[column..][..N];
    for lane in 0..N {
        written[lane] = row.beta * (v[lane] - held[lane]);
    }
    let mut read = [0.0_f32; N];
    for ((c, &k), &q) in row.k.iter().enumerate().zip(row.q) {
        let state = &mut state[c * width + column..][..N];
        for lane in 0..N {
            state[lane] = k.mul_add(written[lane], state[lane]);
            read[lane] = q.mul_add(state[lane], read[lane]);
        }
    }
    out[column..][..N].copy_from_slice(&read);
}
