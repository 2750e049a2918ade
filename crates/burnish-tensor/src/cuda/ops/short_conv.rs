//! Short convolutions along the paths of a layout; see [`crate::ops::short_conv`].

use std::sync::Arc;

use crate::{
    Layout,
    cuda::{
        Buffer, Cuda, Slice, SliceMut, int,
        launch_shape::{LaunchShape, Parts},
        long,
        modules::Program::LinearAttention,
        ops::norm,
        values::{Elements, Values},
    },
    ops::short_conv::pasts,
};

/// Rows and columns of a block, and taps whose weights have their gradients summed by one.
const ROWS: usize = 32;
const COLUMNS: usize = 512;
const TAPS: usize = 4;

/// Which rows lie before and behind each row, on the GPU. Every layer of a batch uses the same.
#[derive(Debug)]
pub(crate) struct Paths {
    taps: usize,
    rows: usize,
    pasts: Buffer<i32>,
    /// For each row the start of its pairs in `nexts`, and at the end their number.
    first: Buffer<i32>,
    /// Pairs (row, steps behind).
    nexts: Buffer<i32>,
}

impl Paths {
    pub(crate) fn upload(cuda: &Arc<Cuda>, layout: &Layout, taps: usize) -> Self {
        let (pasts, rows) = (pasts(layout, taps), layout.rows());
        let (first, nexts) = nexts(&pasts, rows, taps);
        let [pasts, first, nexts] = [&pasts, &first, &nexts].map(|list| Buffer::upload(cuda, list));
        Paths { taps, rows, pasts, first, nexts }
    }

    fn cols(&self, x: Elements<'_>, weight: Slice<'_, f32>) -> usize {
        let cols = weight.len() / self.taps;
        assert_eq!(x.len(), self.rows * cols, "rows of a convolution with {cols} columns");
        cols
    }

    fn plan(&self, cols: usize) -> LaunchShape {
        LaunchShape::blocks(self.rows.div_ceil(ROWS), cols.div_ceil(COLUMNS), 128)
    }
}

/// The reverse of `pasts`, in the order of the later rows.
fn nexts(pasts: &[i32], rows: usize, taps: usize) -> (Vec<i32>, Vec<i32>) {
    let mut of_rows: Vec<Vec<[i32; 2]>> = vec![Vec::new(); rows];
    for (at, &past) in pasts.iter().enumerate() {
        if let Ok(past) = usize::try_from(past) {
            let (row, back) = (at / (taps - 1), at % (taps - 1) + 1);
            of_rows[past].push([row as i32, back as i32]);
        }
    }
    let mut first = vec![0];
    let mut nexts = Vec::new();
    for pairs in of_rows {
        nexts.extend(pairs.into_iter().flatten());
        first.push((nexts.len() / 2) as i32);
    }
    (first, nexts)
}

pub(crate) fn forward(cuda: &Arc<Cuda>, x: Elements<'_>, weight: Slice<'_, f32>, paths: &Paths) -> Values {
    let cols = paths.cols(x, weight);
    let mut y = Values::uninit(cuda, x.precision(), x.len());
    let arguments = &mut [
        y.all_mut().into(),
        x.into(),
        weight.into(),
        paths.pasts.all().into(),
        long(paths.rows),
        int(cols),
        int(paths.taps),
    ];
    let name = x.kernel(["short_conv_f32", "short_conv_bf16"]);
    cuda.launch(LinearAttention, name, paths.plan(cols), arguments);
    y
}

/// The gradient of `x`; adds that of the weight.
pub(crate) fn backward(
    cuda: &Arc<Cuda>,
    x: Elements<'_>,
    weight: Slice<'_, f32>,
    paths: &Paths,
    d: Elements<'_>,
    d_weight: Option<SliceMut<'_, f32>>,
) -> Values {
    let (cols, taps) = (paths.cols(x, weight), paths.taps);
    assert_eq!(d.len(), x.len(), "one derivative for each element");
    let [mut e, mut d_x] = [(); 2].map(|()| Values::uninit(cuda, x.precision(), x.len()));
    let pasts = paths.pasts.all();
    let arguments = &mut [
        e.all_mut().into(),
        x.into(),
        weight.into(),
        pasts.into(),
        d.into(),
        long(paths.rows),
        int(cols),
        int(taps),
    ];
    let name = x.kernel(["short_conv_sums_f32", "short_conv_sums_bf16"]);
    cuda.launch(LinearAttention, name, paths.plan(cols), arguments);
    if let Some(d_weight) = d_weight {
        let Parts { each, count } = Parts::of(paths.rows);
        let mut partial = Buffer::uninit(cuda, count * cols * taps);
        let arguments = &mut [
            partial.all_mut().into(),
            e.all().into(),
            x.into(),
            pasts.into(),
            long(paths.rows),
            long(each),
            int(cols),
            int(taps),
        ];
        let name = x.kernel(["short_conv_weight_f32", "short_conv_weight_bf16"]);
        let plan = LaunchShape::blocks(count, cols.div_ceil(COLUMNS) * taps.div_ceil(TAPS), 128);
        cuda.launch(LinearAttention, name, plan, arguments);
        norm::add_partials(cuda, d_weight, &partial, count);
    }
    let arguments = &mut [
        d_x.all_mut().into(),
        e.all().into(),
        weight.into(),
        paths.first.all().into(),
        paths.nexts.all().into(),
        long(paths.rows),
        int(cols),
        int(taps),
    ];
    let name = x.kernel(["short_conv_backward_f32", "short_conv_backward_bf16"]);
    cuda.launch(LinearAttention, name, paths.plan(cols), arguments);
    d_x
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Segment,
        cuda::testing::{PRECISIONS, device, rounded},
        ops::short_conv::{self, ConvWeight},
        testing::{assert_close, random, wide},
    };

    /// A prefix that is shorter than a filter, what goes on from it, an empty segment, and a long sequence.
    fn layout() -> Layout {
        let segment = Segment::causal;
        let segments = vec![
            segment(0, 2, None),
            segment(2, 1, Some(0)),
            segment(3, 4, Some(1)),
            segment(7, 0, Some(0)),
            segment(7, 3, Some(3)),
            segment(10, 130, None),
        ];
        Layout::new(segments).unwrap()
    }

    #[test]
    fn the_convolution_and_its_gradients_are_those_of_the_cpu() {
        let Some(cuda) = device() else { return };
        let layout = layout();
        for (precision, tolerance) in PRECISIONS {
            // The filters of several blocks, and of more taps than a block sums at once.
            for (cols, taps) in [(1, 1), (1028, 4), (5, 10)] {
                let [x, d] = [1, 3].map(|seed| rounded(precision, random(seed, layout.rows() * cols)));
                let w = random(2, cols * taps);
                let [gx, gd] = [&x, &d].map(|x| Values::upload(&cuda, precision, x));
                let (gw, mut d_gw) = (Buffer::upload(&cuda, &w), Buffer::upload(&cuda, &vec![1.0; w.len()]));
                let paths = Paths::upload(&cuda, &layout, taps);
                let weight = ConvWeight { elements: (&w[..]).into(), taps };
                let y = forward(&cuda, gx.all(), gw.all(), &paths).download().unwrap();
                assert_close(&y, &wide(&short_conv::forward(&x, weight, &layout)), tolerance);

                let mut d_w = vec![1.0; w.len()];
                let expected = short_conv::backward(&x, weight, &layout, &d, Some(&mut d_w));
                let d_x = backward(&cuda, gx.all(), gw.all(), &paths, gd.all(), Some(d_gw.all_mut()));
                // Sums before SiLU have gradients in the values' type.
                assert_close(&d_x.download().unwrap(), &wide(&expected), 1e-5 + 4.0 * tolerance);
                assert_close(&d_gw.download().unwrap(), &wide(&d_w), 1e-4 + 4.0 * tolerance);
            }
        }
    }
}
