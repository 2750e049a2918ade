//! Rows of a table, by id, and the gradient of the table. Also the rows of an activation (gather).

use std::sync::Arc;

use crate::cuda::{
    Buffer, Cuda, Slice, SliceMut, int, modules::Program::Gather, plan::Plan, product::Elements,
};

/// Ids on the GPU.
#[derive(Debug)]
pub(crate) struct Ids {
    ids: Buffer<i32>,
    /// All are below this.
    bound: usize,
}

impl Ids {
    /// # Panics
    /// If an id is not below `bound`: the kernels would read beyond the table.
    pub(crate) fn upload(cuda: &Arc<Cuda>, ids: &[u32], bound: usize) -> Self {
        assert!(ids.iter().all(|&id| (id as usize) < bound), "an id is not below {bound}");
        let ids: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
        Ids { ids: Buffer::upload(cuda, &ids), bound }
    }
}

/// Where the rows of a gradient go: for each id that occurs, the rows that add to it, in ascending order.
#[derive(Debug)]
pub(crate) struct Scatter {
    ids: Buffer<i32>,
    first: Buffer<i32>,
    places: Buffer<i32>,
    bound: usize,
}

impl Scatter {
    /// # Panics
    /// If an id is not below `bound`.
    pub(crate) fn upload(cuda: &Arc<Cuda>, ids: &[u32], bound: usize) -> Self {
        assert!(ids.iter().all(|&id| (id as usize) < bound), "an id is not below {bound}");
        let (ids, first, places) = group(ids);
        let [ids, first, places] = [ids, first, places].map(|list| Buffer::upload(cuda, &list));
        Scatter { ids, first, places, bound }
    }
}

/// Distinct ids ascending; for each where its places start, and at the end their number; the places.
fn group(ids: &[u32]) -> (Vec<i32>, Vec<i32>, Vec<i32>) {
    let mut places: Vec<i32> = (0..ids.len() as i32).collect();
    places.sort_by_key(|&place| ids[place as usize]);
    let (mut distinct, mut first) = (Vec::new(), Vec::new());
    for (index, &place) in places.iter().enumerate() {
        let id = ids[place as usize] as i32;
        if distinct.last() != Some(&id) {
            distinct.push(id);
            first.push(index as i32);
        }
    }
    first.push(places.len() as i32);
    (distinct, first, places)
}

/// `[ids, cols]`: rows of `table` `[_, cols]`.
pub(crate) fn forward(cuda: &Arc<Cuda>, table: Elements<'_>, cols: usize, ids: &Ids) -> Buffer<f32> {
    assert!(table.len() >= ids.bound * cols, "a table of {} rows", ids.bound);
    let rows = ids.ids.len();
    let mut out = Buffer::uninit(cuda, rows * cols);
    let (name, table) = match table {
        Elements::F32(table) => ("gather_f32", table.into()),
        Elements::Bf16(table) => ("gather_bf16", table.into()),
    };
    let arguments = &mut [out.all_mut().into(), table, ids.ids.all().into(), int(cols)];
    cuda.launch(Gather, name, Plan::rows(rows, cols), arguments);
    out
}

/// Adds row `i` of `d_out` to row `ids[i]` of `d_table`.
pub(crate) fn backward(
    cuda: &Arc<Cuda>,
    d_table: SliceMut<'_, f32>,
    cols: usize,
    scatter: &Scatter,
    d_out: Slice<'_, f32>,
) {
    let Scatter { ids, first, places, bound } = scatter;
    assert!(d_table.len() >= bound * cols, "a table of {bound} rows");
    assert_eq!(d_out.len(), places.len() * cols, "one row for each id");
    let lists = [ids.all().into(), first.all().into(), places.all().into()];
    let [ids_list, first, places] = lists;
    let arguments = &mut [d_table.into(), d_out.into(), ids_list, first, places, int(cols)];
    cuda.launch(Gather, "scatter_add", Plan::blocks(ids.len(), cols.div_ceil(256), 256), arguments);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cuda::{product::to_bf16, testing::device},
        ops,
        testing::{random, random_ids},
    };

    #[test]
    fn places_are_grouped_by_id_in_ascending_order() {
        assert_eq!(group(&[5, 2, 5, 9, 2]), (vec![2, 5, 9], vec![0, 2, 4, 5], vec![1, 4, 0, 2, 3]));
        assert_eq!(group(&[]), (vec![], vec![0], vec![]));
    }

    #[test]
    fn rows_and_their_gradients_are_those_of_the_cpu() {
        let Some(cuda) = device() else { return };
        for (bound, cols, n) in [(5, 3, 12), (3, 300, 40), (4, 1, 0)] {
            let table = random(1, bound * cols);
            let ids = random_ids(2, n, bound);
            let d_out = random(3, n * cols);
            let on_gpu = Buffer::upload(&cuda, &table);
            let list = Ids::upload(&cuda, &ids, bound);
            let out = forward(&cuda, on_gpu.all().into(), cols, &list).download().unwrap();
            assert_eq!(out, *ops::embed::forward(table.as_slice().into(), cols, &ids));

            let short = to_bf16(&cuda, on_gpu.all());
            let out = forward(&cuda, short.all().into(), cols, &list).download().unwrap();
            let rounded: Vec<f32> = table.iter().map(|&x| half::bf16::from_f32(x).to_f32()).collect();
            assert_eq!(out, *ops::embed::forward(rounded.as_slice().into(), cols, &ids));

            let scatter = Scatter::upload(&cuda, &ids, bound);
            let mut d_table = Buffer::zeros(&cuda, table.len());
            let d = Buffer::upload(&cuda, &d_out);
            backward(&cuda, d_table.all_mut(), cols, &scatter, d.all());
            let mut expected = vec![0.0; table.len()];
            ops::embed::backward(&mut expected, cols, &ids, &d_out);
            assert_eq!(d_table.download().unwrap(), expected);
        }
    }

    #[test]
    fn an_id_beyond_the_table_is_refused() {
        let Some(cuda) = device() else { return };
        assert!(std::panic::catch_unwind(|| Ids::upload(&cuda, &[3], 3)).is_err());
    }
}
